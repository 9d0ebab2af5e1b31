"""What the requests for metadata answer, asked of a whole broker over its (virtual) network."""

import asyncio

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.requests.whole_broker import TOPIC, Client, with_broker


def test_metadata() -> None:
    async def scenario(client: Client) -> None:
        await client.create(partitions=2)
        none = await client.ask(MetadataRequest(topics=[]), 9)
        assert none.topics == [] and [broker.node_id for broker in none.brokers] == [0] and none.cluster_id
        for everything in (
            await client.ask(MetadataRequest(topics=None), 9),
            await client.ask(MetadataRequest(topics=[]), 0),
        ):
            assert [(topic.name, len(topic.partitions)) for topic in everything.topics] == [(TOPIC, 2)]
        (topic,) = (await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12)).topics
        assert topic.partitions[0].leader_id == 0 and topic.topic_id != bytes(16)
        (by_id,) = (
            await client.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic.topic_id, name=None)]), 12)
        ).topics
        assert by_id.name == TOPIC
        unknown = MetadataRequestTopic(topic_id=b"?" * 16, name=None)
        (missing,) = (await client.ask(MetadataRequest(topics=[unknown]), 12)).topics
        assert (missing.error_code, missing.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
        nothing = MetadataRequestTopic(name=None)
        (neither,) = (await client.ask(MetadataRequest(topics=[nothing]), 12)).topics
        assert (neither.error_code, neither.name) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")

    with_broker(scenario)


def test_version_0_names_no_broker_that_it_does_not_list() -> None:
    """Clients of Kafka 0.8 look up each replica among the brokers of the answer, and fail at one that is not there.

    The same is answered by Apache Kafka 3.9.1.
    """

    async def scenario(client: Client) -> None:
        here = (await client.ask(DescribeClusterRequest(), 1)).controller_id
        away = 1 - here
        rows = [CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in enumerate(([here], [away]))]
        alone = CreatableTopic(name="alone", num_partitions=-1, replication_factor=-1, assignments=rows)
        await client.ask(CreateTopicsRequest(topics=[alone], timeout_ms=10_000), 7)
        await client.create("both", replicas=2)
        client.cluster.brokers[away].kill()
        await asyncio.sleep(60)
        answer = await client.ask(MetadataRequest(topics=[]), 0)
        assert [broker.node_id for broker in answer.brokers] == [here]
        assert {
            (topic.name, p.partition_index): (p.error_code, p.leader_id, p.replica_nodes, p.isr_nodes)
            for topic in answer.topics
            for p in topic.partitions
        } == {
            ("alone", 0): (ErrorCode.NONE, here, [here], [here]),
            ("alone", 1): (ErrorCode.LEADER_NOT_AVAILABLE, -1, [], []),
            ("both", 0): (ErrorCode.REPLICA_NOT_AVAILABLE, here, [here], [here]),
        }

    with_broker(scenario, 2)


def test_everything_is_allowed_where_nobody_is_kept_from_anything() -> None:
    """8096 and 3576 are what Apache Kafka 3.9.1 answers without an authorizer."""

    async def scenario(client: Client) -> None:
        await client.create()
        names = [MetadataRequestTopic(name=TOPIC), MetadataRequestTopic(name="unknown")]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        assert (await client.ask(request, 10)).cluster_authorized_operations == -(2**31), "it was not asked for"
        request.include_cluster_authorized_operations = request.include_topic_authorized_operations = True
        answer = await client.ask(request, 10)
        assert answer.cluster_authorized_operations == 8096
        assert [topic.topic_authorized_operations for topic in answer.topics] == [3576, 3576]
        cluster = await client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
        assert cluster.cluster_authorized_operations == 8096
        assert (await client.ask(DescribeClusterRequest(), 1)).cluster_authorized_operations == -(2**31)

    with_broker(scenario)


@pytest.mark.parametrize("authorizer", ["", "kafka.security.authorizer.AclAuthorizer"])
@pytest.mark.parametrize(
    ("version", "name", "topic_id", "error"),
    [
        (12, None, b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        (12, None, bytes(16), ErrorCode.UNKNOWN_SERVER_ERROR),
        (10, "t", b"?" * 16, ErrorCode.INVALID_REQUEST),
    ],
)
def test_with_what_is_no_topic_nothing_is_allowed(
    version: int, name: str | None, topic_id: bytes, error: ErrorCode, authorizer: str
) -> None:
    async def scenario(client: Client) -> None:
        asked = MetadataRequestTopic(name=name, topic_id=topic_id)
        request = MetadataRequest(topics=[asked], include_topic_authorized_operations=True)
        (answer,) = (await client.ask(request, version)).topics
        assert (answer.error_code, answer.topic_authorized_operations) == (error, -(2**31))

    with_broker(scenario, authorizer_class_name=authorizer, super_users="User:ANONYMOUS")


@pytest.mark.parametrize("version", [10, 11])
def test_an_id_in_a_version_that_asks_by_name_is_no_question_of_rights(version: int) -> None:
    """Who may not see the topic had the connection closed: the answer had no name, which these versions must have."""

    async def scenario(client: Client) -> None:
        await client.create()
        (known,) = (await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12)).topics
        denied = AclCreation(
            resource_type=2, resource_name=TOPIC, principal="User:*", host="*", operation=8, permission_type=2
        )
        assert (await client.ask(CreateAclsRequest(creations=[denied]), 2)).results[0].error_code == ErrorCode.NONE
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC, topic_id=known.topic_id)])
        (answer,) = (await client.ask(asked, version)).topics
        assert (answer.error_code, answer.name) == (ErrorCode.INVALID_REQUEST, TOPIC)
        (answer,) = (await client.ask(asked, 12)).topics
        assert (answer.error_code, answer.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)

    with_broker(
        scenario,
        authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
        allow_everyone_if_no_acl_found="true",
    )


def test_an_illegal_topic_name_is_called_so() -> None:
    async def scenario(client: Client) -> None:
        request = DescribeProducersRequest(topics=[TopicRequest(name="a b", partition_indexes=[0])])
        (partition,) = (await client.ask(request, 0)).topics[0].partitions
        assert partition.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        resource = DescribeConfigsResource(resource_type=2, resource_name="a b", configuration_keys=None)
        (result,) = (await client.ask(DescribeConfigsRequest(resources=[resource]), 4)).results
        assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert result.error_message.startswith("Topic name is invalid: 'a b' contains")

    with_broker(scenario)


def test_metadata_creates_topics() -> None:
    async def scenario(client: Client) -> None:
        async def error(name: str, *, allow: bool = True) -> int:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=allow)
            return int((await client.ask(request, 9)).topics[0].error_code)

        assert await error("new", allow=False) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await error("no/good", allow=False) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await error("new") == ErrorCode.LEADER_NOT_AVAILABLE
        await asyncio.sleep(1)
        assert await error("new") == ErrorCode.NONE
        assert await error("no/good") == ErrorCode.INVALID_TOPIC_EXCEPTION

    with_broker(scenario)


def test_describe_log_dirs_and_cluster() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(b"a")
        (directory,) = (await client.ask(DescribeLogDirsRequest(topics=None), 4)).results
        (topic,) = directory.topics
        assert topic.name == TOPIC and topic.partitions[0].partition_size > 0 and directory.total_bytes > 0
        cluster = await client.ask(DescribeClusterRequest(), 1)
        assert cluster.controller_id == 0 and [broker.host for broker in cluster.brokers] == ["broker-0"]
        assert (await client.ask(DescribeClusterRequest(endpoint_type=2), 1)).error_code == 114
        assert (await client.ask(DescribeClusterRequest(endpoint_type=3), 1)).error_code == 115

    with_broker(scenario)
