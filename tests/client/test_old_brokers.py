"""What is asked of brokers whose version of an API lacks what it needs: nothing, rather than something else.

The versions are those of Kafka's message definitions, whose fields of later versions are not marked as ignorable.
"""

from typing import Any

import pytest

from odradek.aio import Admin, Consumer
from odradek.client.admin.values import MemberToRemove
from odradek.client.connection import connect
from odradek.client.errors import UnsupportedByBroker
from odradek.client.records import TopicPartition
from odradek.protocol.fields import Message
from odradek.protocol.headers import message_classes
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponseBroker
from odradek.protocol.messages.update_features import UpdateFeaturesRequest
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork
from odradek.world.tasks import Tasks

LITERAL, PREFIXED, MATCH = 3, 4, 2


def offsets_at(time_ms: int, isolation_level: int = 0) -> ListOffsetsRequest:
    topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=time_ms)])
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[topic])


def acls(pattern_type: int) -> CreateAclsRequest:
    return CreateAclsRequest(creations=[AclCreation(resource_pattern_type=pattern_type)])


def without(pattern_type: int) -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=[DeleteAclsFilter(pattern_type_filter=pattern_type)])


def leaving(*members: MemberIdentity) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id="g", members=list(members))


REFUSED: list[tuple[Message, int]] = [
    (acls(PREFIXED), 0),
    (without(PREFIXED), 0),
    (without(MATCH), 0),
    (DescribeAclsRequest(pattern_type_filter=PREFIXED), 0),
    (CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob"), 2),
    (CreateTopicsRequest(validate_only=True), 0),
    (ElectLeadersRequest(election_type=1), 0),
    (FindCoordinatorRequest(key="x", key_type=1), 0),
    (JoinGroupRequest(group_id="g", group_instance_id="i"), 4),
    (leaving(MemberIdentity(member_id="a"), MemberIdentity(member_id="b")), 2),
    (leaving(MemberIdentity(group_instance_id="i")), 2),
    (ListGroupsRequest(states_filter=["Stable"]), 3),
    (ListGroupsRequest(types_filter=["consumer"]), 4),
    (offsets_at(-1, isolation_level=1), 1),
    (offsets_at(-3), 6),
    (offsets_at(1_700_000_000_000), 0),
    (ListTransactionsRequest(duration_filter=1), 0),
    (UpdateFeaturesRequest(validate_only=True), 0),
]


@pytest.mark.parametrize(("request_", "highest"), REFUSED, ids=lambda one: type(one).__name__)
def test_a_broker_is_not_asked_for_what_it_would_overlook(
    scripted_broker: Any, request_: Message, highest: int
) -> None:
    """It was asked in a version without the field, and did something else: an access list for a prefix became one for
    a single name, a token for another user one for the caller, a trial was carried out."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        key = request_.API_KEY
        broker.highest[key] = highest
        response = message_classes(key).response
        broker.handlers[type(request_)] = lambda _: response()
        connection = await connect(network.host("client"), clock, Tasks(clock, print), "broker", 9092, "test", 1000)
        with pytest.raises(UnsupportedByBroker, match=f"serves .* up to version {highest}: .* needs"):
            await connection.request(request_, response, 1000)
        assert not broker.requests(type(request_))
        broker.highest[key] = type(request_).VERSIONS[1]
        connection.close()
        connection = await connect(network.host("client"), clock, Tasks(clock, print), "broker", 9092, "test", 1000)
        await connection.request(request_, response, 1000)
        connection.close()

    run_virtual(main)


ASKED: list[tuple[Message, int]] = [
    (acls(LITERAL), 0),
    (without(LITERAL), 0),
    (without(1), 0),
    (CreateTopicsRequest(), 0),
    (ElectLeadersRequest(election_type=0), 0),
    (leaving(MemberIdentity(member_id="a")), 2),
    (ListGroupsRequest(types_filter=["classic"]), 4),
    (offsets_at(-2), 0),
    (offsets_at(1_700_000_000_000), 1),
]


@pytest.mark.parametrize(("request_", "highest"), ASKED, ids=lambda one: type(one).__name__)
def test_what_an_old_version_can_say_is_asked(scripted_broker: Any, request_: Message, highest: int) -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        broker.highest[request_.API_KEY] = highest
        response = message_classes(request_.API_KEY).response
        broker.handlers[type(request_)] = lambda _: response()
        connection = await connect(network.host("client"), clock, Tasks(clock, print), "broker", 9092, "test", 1000)
        await connection.request(request_, response, 1000)
        connection.close()

    run_virtual(main)


def test_an_old_broker_removes_one_member_of_a_group(scripted_broker: Any) -> None:
    """Before version 3 LeaveGroup has room for one member, and the request named none."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        broker.highest[LeaveGroupRequest.API_KEY] = 2
        broker.handlers[LeaveGroupRequest] = lambda _: LeaveGroupResponse()
        me = MetadataResponseBroker(node_id=0, host="broker", port=9092)
        broker.highest[FindCoordinatorRequest.API_KEY] = 3
        broker.handlers[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
            node_id=me.node_id, host=me.host, port=me.port
        )
        async with Admin(bootstrap_servers="broker:9092", network=network.host("client"), clock=clock) as admin:
            await admin.remove_group_members("g", [MemberToRemove("one")])
            with pytest.raises(UnsupportedByBroker):
                await admin.remove_group_members("g", [MemberToRemove("one"), MemberToRemove("two")])
        assert [one.member_id for one in broker.requests(LeaveGroupRequest)] == ["one"]

    run_virtual(main)


@pytest.mark.parametrize(("highest", "epoch"), [(8, -1), (9, 1)])
def test_epochs_in_the_metadata_of_old_brokers_are_not_relied_on(
    scripted_broker: Any, highest: int, epoch: int
) -> None:
    """Before Kafka 2.4 they were out of date while a partition was reassigned: its leader refused every request until
    that was over. Java's client drops them, too."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        broker.highest[MetadataRequest.API_KEY] = highest
        one = ListOffsetsPartitionResponse(partition_index=0, offset=7)
        answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[one])])
        broker.handlers[ListOffsetsRequest] = lambda _: answer
        async with Consumer(bootstrap_servers="broker:9092", network=network.host("client"), clock=clock) as consumer:
            place = TopicPartition("t", 0)
            assert await consumer.end_offsets([place]) == {place: 7}
        (asked,) = broker.requests(ListOffsetsRequest)
        assert asked.topics[0].partitions[0].current_leader_epoch == epoch

    run_virtual(main)
