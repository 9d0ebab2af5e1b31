"""Arguments of a wrong type are refused by the method that gets them: nothing is asked of a broker, nothing is kept."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from kafka import admin as kafka_admin

from odradek import ClientError, ErrorCode, KafkaError, KafkaProducer, RebalanceListener
from odradek.aio import Admin, Consumer
from odradek.client import arguments
from odradek.client.admin import configs
from odradek.client.admin.access_values import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourceType,
    ClientQuotaAlteration,
    ResourcePattern,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from odradek.client.admin.topics import topics_of
from odradek.client.admin.values import (
    AbortTransactionSpec,
    ConfigResource,
    MemberToRemove,
    NewTopic,
    TopicPartitionReplica,
)
from odradek.client.errors import ConfigError
from odradek.client.original import FetchRequest
from odradek.client.original.simple_consumer import SimpleConsumerCore
from odradek.client.producer.batch import Outcome
from odradek.client.records import TopicPartition
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.testing import run
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork

PLACE = TopicPartition("t", 0)
READ, ALLOW = ACLOperation.READ, ACLPermissionType.ALLOW
OF_TOPIC = ResourcePattern(ACLResourceType.TOPIC, "t")
OF_ADMIN: list[tuple[str, tuple[Any, ...]]] = [
    ("delete_topics", ("orders",)),  # were six topics of one letter
    ("describe_topics", ("orders",)),
    ("wait_for_topics", ("orders",)),
    ("delete_groups", ("billing",)),
    ("describe_groups", ("billing",)),
    ("describe_transactions", ("billing",)),
    ("list_groups", (None, "Stable")),
    ("list_transactions", (None, None, "Ongoing")),
    ("describe_user_scram_credentials", ("alice",)),
    ("create_delegation_token", ("User:alice",)),
    ("describe_delegation_token", ("User:alice",)),
    ("create_topics", ("orders",)),
    ("create_topics", ([5],)),
    ("create_topics", ({"t": {"partitions": 3}},)),
    ("create_topics", ({"t": 3},)),
    ("create_topics", (None,)),
    ("create_partitions", (["t"],)),
    ("delete_records", ([PLACE],)),
    ("describe_configs", (["t"],)),
    ("alter_configs", ({"t": []},)),
    ("reset_configs", (["t"],)),
    ("alter_partition_reassignments", (["t"],)),
    ("alter_replica_log_dirs", (["t"],)),
    ("alter_replica_log_dirs", ({PLACE: "/disk"},)),
    ("alter_replica_log_directories", (0, ["t"])),
    ("update_features", (["f"],)),
    ("create_acls", (["User:alice"],)),
    ("describe_acls", ("User:alice",)),
    ("delete_acls", (["User:alice"],)),
    ("remove_group_members", ("g", ["member"])),
    ("list_group_offsets", ([5],)),
    ("list_group_offsets", (5,)),
    ("alter_group_offsets", ("g", [PLACE])),
    ("reset_group_offsets", ("g", [PLACE])),
    ("reset_group_offsets", ("g", {PLACE: "earliest"})),
    ("list_offsets", ([PLACE],)),
    ("list_partition_offsets", ({PLACE: "latest"},)),  # was int()'s ValueError
    ("abort_transaction", (PLACE,)),
    ("alter_client_quotas", (["user"],)),
    ("describe_client_quotas", (["user"],)),
    ("describe_client_quotas", ({"user": 5},)),
    ("update_features", ({5: 1},)),
    ("create_delegation_token", ((), 5)),
    ("alter_user_scram_credentials", (["alice"],)),  # was done in silence, that is, nothing was
    ("alter_user_scram_credentials", ({"alice": "secret"},)),
    ("alter_user_scram_credentials", ([UserScramCredentialDeletion(None, ScramMechanism.SCRAM_SHA_256)],)),  # type: ignore[arg-type]
    ("alter_user_scram_credentials", ([UserScramCredentialUpsertion("a", ScramMechanism.SCRAM_SHA_256, None)],)),  # type: ignore[arg-type]
    ("create_acls", ([ACL("User:a", "*", READ, ALLOW, None)],)),  # type: ignore[arg-type]  # AttributeErrors again
    ("create_acls", ([ACL(5, "*", READ, ALLOW, OF_TOPIC)],)),  # type: ignore[arg-type]
    ("describe_acls", (ACL(None, 5, READ, ALLOW, OF_TOPIC),)),  # type: ignore[arg-type]
    ("delete_acls", ([ACL(None, None, READ, ALLOW, OF_TOPIC._replace(resource_name=5))],)),  # type: ignore[arg-type]
    ("create_acls", ([ACL("User:a", "*", "READ", ALLOW, OF_TOPIC)],)),  # type: ignore[arg-type]  # "not an integer"
    ("describe_acls", (ACL(None, None, READ, None, OF_TOPIC),)),  # type: ignore[arg-type]
    ("delete_acls", ([ACL(None, None, READ, ALLOW, OF_TOPIC._replace(pattern_type="ANY"))],)),  # type: ignore[arg-type]
    ("alter_client_quotas", ([ClientQuotaAlteration(None, {})],)),  # type: ignore[arg-type]
    ("alter_client_quotas", ([ClientQuotaAlteration({"user": 5}, {})],)),  # type: ignore[dict-item]
    ("alter_client_quotas", ([ClientQuotaAlteration({"user": "a"}, {5: 1.0})],)),  # type: ignore[dict-item]
    ("alter_client_quotas", ([ClientQuotaAlteration({"user": "a"}, {"request_percentage": "5"})],)),  # type: ignore[dict-item]
    ("alter_replica_log_dirs", ({TopicPartitionReplica("t", 0, 0): None},)),
    ("alter_replica_log_directories", (0, {PLACE: 5})),
    ("remove_group_members", ("g", [MemberToRemove(5)])),  # type: ignore[arg-type]
    ("abort_transaction", (AbortTransactionSpec(None, 1, 1),)),  # type: ignore[arg-type]
    ("create_topics", ([NewTopic("n", replica_assignments=[0])],)),  # type: ignore[arg-type]
    ("group_lag", (None,)),  # was an AttributeError, as were those of all groups below
    ("list_group_offsets", ({5: None},)),
    ("alter_group_offsets", (5, {PLACE: 0})),
    ("reset_group_offsets", (["g"], {PLACE: 0})),  # or a ClientTimeout, after a minute of asking for offsets
    ("delete_group_offsets", (b"g", [PLACE])),
    ("remove_group_members", (None, [])),
    ("create_topics", ([NewTopic("n", configs={"retention.ms": 5})],)),  # type: ignore[dict-item]
    ("create_topics", ([NewTopic(None)],)),  # type: ignore[arg-type]
    ("create_topics", ({"n": {"configs": {5: "5"}}},)),
    ("alter_configs", ([ConfigResource("TOPIC", "t", {"retention.ms": 5})],)),  # type: ignore[dict-item]
    ("alter_configs", ({ConfigResource("TOPIC", "t"): [("retention.ms", "5")]},)),
    ("alter_configs", ({ConfigResource("TOPIC", "t"): [("retention.ms", configs.Operation.SET, 5)]},)),
    ("alter_configs", ({ConfigResource("TOPIC", "t"): None},)),
    ("reset_configs", ([ConfigResource("TOPIC", "t", [5])],)),  # type: ignore[list-item]
]
OF_CONSUMER: list[tuple[str, tuple[Any, ...]]] = [
    ("commit", ([PLACE],)),
    ("commit_later", ([PLACE],)),
    ("commit_later", (None, "no function")),  # was raised by a later poll, and by close
    ("offsets_for_times", ([PLACE],)),
    ("beginning_offsets", (None,)),
    ("assign", ("t",)),
    ("subscribe", (["t"], None, object())),  # was an AttributeError of the poll that wanted to call it
    ("subscribe", (["t"], None, RebalanceListener)),
]


@pytest.mark.parametrize("kind, calls", [(Admin, OF_ADMIN), (Consumer, OF_CONSUMER)])
def test_wrong_types_are_refused_at_the_door(scripted_broker: Any, kind: Any, calls: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        settings = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        client = await kind(**settings, **({"group_id": "g"} if kind is Consumer else {})).start()
        for name, given in calls:
            with pytest.raises(TypeError, match=r", not \w+|not TopicPartition"):
                called = getattr(client, name)(*given)
                if asyncio.iscoroutine(called):
                    await asyncio.wait_for(called, 5)
        asked = {type(request) for request, _ in broker.seen} - {ApiVersionsRequest, MetadataRequest}
        assert not asked
        await client.close()

    run_virtual(main)


@pytest.mark.parametrize("name", [0, 1, None])
def test_a_broker_whose_number_is_no_string_is_not_taken_for_all_brokers(name: Any) -> None:
    """Settings of broker 0 were asked of any broker, as if they were the defaults of all."""
    with pytest.raises(TypeError, match="the name of a resource must be a string, not"):
        ConfigResource("BROKER", name)


def test_a_consumer_that_is_not_started_says_so() -> None:
    """It was an AssertionError without a word, or an AttributeError."""

    async def main(cluster: Any) -> None:
        calls: list[tuple[str, tuple[Any, ...]]] = [
            ("getmany", ()), ("getone", ()), ("__anext__", ()), ("position", (PLACE,)), ("seek", (PLACE, 0)),
            ("seek_to_end", ()), ("assignment", ()), ("pause", (PLACE,)), ("paused", ()), ("highwater", (PLACE,)),
            ("metrics", ()), ("commit", ()), ("subscribe", (["t"],)), ("wakeup", ()),
        ]  # fmt: skip
        for name, given in calls:
            consumer = Consumer("t", bootstrap_servers=cluster.bootstrap, group_id="g")
            with pytest.raises(ClientError, match="the consumer is not started: use `async with`"):
                called = getattr(consumer, name)(*given)
                if asyncio.iscoroutine(called):
                    await called
            await consumer.close()

    run(main, brokers=1)


def test_settings_that_are_no_mapping_are_refused_in_words() -> None:
    """An address as the first argument was: 'str' object is not a mapping."""
    with pytest.raises(TypeError, match="settings are keywords, or one mapping with Kafka's names, not str: 'b:9092'"):
        KafkaProducer("b:9092")  # type: ignore[arg-type]


def test_a_report_is_waited_for_a_number_of_seconds() -> None:
    said = "a timeout must be a number, not str: '5'"
    with pytest.raises(TypeError, match=f"{said}|float or None object expected; got str"):  # compiled, in mypyc's words
        Outcome(PLACE).wait("5")  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [float("inf"), 1e300, threading.TIMEOUT_MAX * 2])
def test_a_report_is_waited_for_however_long_that_may_be(limit: float) -> None:
    """Was OverflowError: timestamp out of range for platform time_t."""
    outcome = Outcome(PLACE)
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(outcome.wait, limit)
        outcome.fail(KafkaError(ErrorCode.NETWORK_EXCEPTION))
        outcome.wake()
        assert waiting.result(PATIENCE_SECONDS)
    assert not Outcome(PLACE).wait(-1.0) and not Outcome(PLACE).wait(float("-inf"))


def test_times_of_any_kind_of_number_and_size_are_taken() -> None:
    """An int that no float can hold was an OverflowError, a Fraction had no format."""
    assert [arguments.duration(one) for one in (10**400, -(10**400), 5)] == [float("inf"), float("-inf"), 5.0]

    async def main(cluster: Any) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            for timeout_ms in (10**400, float("inf"), 1e300, Fraction(60_000), Decimal(60_000)):
                assert await admin.list_offsets({}, timeout_ms=timeout_ms) == {}  # type: ignore[arg-type]

    run(main, brokers=1)


def test_values_of_kafka_pythons_classes_are_taken() -> None:
    """They were refused: a program that made its topics from kafka.admin.NewTopic had to be changed in many places."""
    theirs = kafka_admin.NewTopic("a", 2, 1, topic_configs={"retention.ms": "1"})
    assert topics_of([theirs]) == [NewTopic("a", 2, 1, {}, {"retention.ms": "1"})]
    resource = kafka_admin.ConfigResource(kafka_admin.ConfigResourceType.TOPIC, "a", configs={"retention.ms": "1"})
    changes = configs.changes_of([resource], configs.Operation.SET)
    assert changes == {ConfigResource("TOPIC", "a"): [("retention.ms", configs.Operation.SET, "1")]}

    async def main(cluster: Any) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            partitions: dict[str, Any] = {"t": kafka_admin.NewPartitions(3)}
            await admin.create_partitions(partitions)
            [topic] = await admin.describe_topics(["t"])
            assert len(topic.partitions) == 3
            sha256 = kafka_admin.ScramMechanism.SCRAM_SHA_256
            upserted: list[Any] = [kafka_admin.UserScramCredentialUpsertion("alice", sha256, b"secret")]
            await admin.alter_user_scram_credentials(upserted)  # nothing was set, and nobody was told
            found = await admin.describe_user_scram_credentials()
            assert found == {"alice": {ScramMechanism.SCRAM_SHA_256: upserted[0].iterations}}
            deleted: list[Any] = [kafka_admin.UserScramCredentialDeletion("alice", sha256)]
            await admin.alter_user_scram_credentials(deleted)
            assert await admin.describe_user_scram_credentials() == {}

    run(main, brokers=1, topics={"t": 1})


def test_who_changes_a_group_that_has_members_is_told_what_to_do() -> None:
    """UNKNOWN_MEMBER_ID: unknown member id, said nothing of the consumers that still run."""

    async def main(cluster: Any) -> None:
        settings = {"bootstrap_servers": cluster.bootstrap}
        async with Admin(**settings) as admin, Consumer("t", group_id="busy", **settings) as consumer:
            await consumer.getmany(5_000)
            for change in (
                admin.alter_group_offsets("busy", {PLACE: 0}),
                admin.reset_group_offsets("busy", {PLACE: 0}),
                admin.delete_groups(["busy"]),
            ):
                with pytest.raises(KafkaError, match="the group has members: stop its consumers first"):
                    await change

    run(main, brokers=1, topics={"t": 1})


@pytest.mark.parametrize(
    ("method", "given", "error"),
    [
        ("get_offsets_before", ("t", 0, "now", 1), TypeError),
        ("get_offsets_before", ("t", 0, 2**63, 1), ConfigError),
        ("fetch", (FetchRequest("t", 0, 0), 0.5), TypeError),
        ("fetch", (FetchRequest("t", 0, 0), 2**31), ConfigError),
        ("multifetch", ([FetchRequest("t", 0, 0)], 0, -1), ConfigError),
        ("topic_metadata", ("orders",), TypeError),  # was taken for six topics of one letter
    ],
)
def test_what_a_simple_consumer_cannot_send_is_refused(
    method: str, given: tuple[Any, ...], error: type[Exception]
) -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        consumer = await SimpleConsumerCore("broker", 9092, network=network.host("client"), clock=clock).start()
        try:
            with pytest.raises(error):
                await getattr(consumer, method)(*given)
        finally:
            await consumer.close()

    run_virtual(main)
