"""The APIs of groups and their members from request to response, in all versions, over a whole coordinator."""

import asyncio

import pytest

from odradek.broker.coordination.partition_count import partition_for
from odradek.broker.network.outcomes import RequestContext
from odradek.broker.requests import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.broker.requests.groups_stage import (
    PARTITIONS,
    READ_DELETE_DESCRIBE,
    commit_topics,
    join_fields,
    pass_time,
    versions,
    with_broker,
)


def test_served_versions_are_those_of_the_messages():
    for module in (
        (find_coordinator, FindCoordinatorRequest),
        (join_group, JoinGroupRequest),
        (sync_group, SyncGroupRequest),
        (heartbeat, HeartbeatRequest),
        (leave_group, LeaveGroupRequest),
        (offset_commit, OffsetCommitRequest),
        (offset_fetch, OffsetFetchRequest),
        (describe_groups, DescribeGroupsRequest),
        (list_groups, ListGroupsRequest),
        (delete_groups, DeleteGroupsRequest),
        (offset_delete, OffsetDeleteRequest),
    ):
        assert module[0].REQUEST is module[1]
        assert module[0].VERSIONS == module[1].VERSIONS


@pytest.mark.parametrize("version", versions(find_coordinator))
def test_find_coordinator(version):
    async def test(broker):
        async def find(key, **fields):
            keys = {"coordinator_keys": [key]} if version >= 4 else {"key": key}
            found = await broker.ask(find_coordinator, version, **keys, **fields)
            return found.coordinators[0] if version >= 4 else found

        here = next(name for name in "abc" if broker.groups.partition_for(name) == 0)
        dead = next(name for name in "abc" if broker.groups.partition_for(name) == 1)
        found = await find(here)
        assert (found.error_code, found.node_id, found.host, found.port) == (0, 7, "outside", 9092)
        found = await find(dead)  # led by broker 8, which is not alive
        assert (found.error_code, found.node_id, found.host, found.port) == (15, -1, "", -1)
        if version >= 1:
            assert (await find(here, key_type=2)).error_code == ErrorCode.INVALID_REQUEST
        assert broker.created == []

    with_broker(test)


def test_find_coordinator_answers_for_the_listener_and_for_many_keys():
    async def test(broker):
        found = await broker.ask(find_coordinator, 4, listener="INTERNAL", coordinator_keys=["a", "b", "c"])
        assert [one.key for one in found.coordinators] == ["a", "b", "c"]
        assert {one.host for one in found.coordinators if not one.error_code} == {"inside"}

    with_broker(test)


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_find_coordinator_of_transactions(version):

    async def test(broker):
        async def find(key):
            keys = {"coordinator_keys": [key]} if version >= 4 else {"key": key}
            found = await broker.ask(find_coordinator, version, key_type=1, **keys)
            return found.coordinators[0] if version >= 4 else found

        alive, dead = (next(name for name in "abc" if partition_for(name, 2) == index) for index in range(2))
        found = await find(alive)
        assert (found.error_code, found.node_id, found.host, found.port) == (0, 7, "outside", 9092)
        assert (await find(dead)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert broker.created == []

    with_broker(test, {TRANSACTION_STATE: 2})


@pytest.mark.parametrize(("key_type", "topic"), [(0, CONSUMER_OFFSETS), (1, TRANSACTION_STATE)])
@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_find_coordinator_creates_the_topic(version, key_type, topic):
    async def test(broker):
        keys = {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"}
        found = await broker.ask(find_coordinator, version, key_type=key_type, **keys)
        error = found.coordinators[0].error_code if version >= 4 else found.error_code
        assert error == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert broker.created == [topic]

    with_broker(test, {"t": 2})


@pytest.mark.parametrize("version", versions(join_group))
def test_join(version):
    async def test(broker):
        joined = await broker.ask(join_group, version, **join_fields())
        if version >= 4:
            assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
            assert joined.protocol_name == (None if version >= 7 else "")
            joined = await broker.ask(join_group, version, **join_fields(member_id=joined.member_id))
        assert (joined.error_code, joined.generation_id) == (0, 1)
        assert joined.leader == joined.member_id
        assert joined.member_id.startswith("client-")
        assert (joined.protocol_type, joined.protocol_name) == ("consumer" if version >= 7 else None, "range")
        assert [(one.member_id, one.metadata) for one in joined.members] == [(joined.member_id, b"M")]
        described = await broker.ask(describe_groups, 0, groups=["g"])
        member = described.groups[0].members[0]
        assert (member.client_id, member.client_host) == ("client", "/10.0.0.7")

    with_broker(test)


def test_member_id_of_a_static_member_begins_with_its_instance_id_even_if_that_is_empty():
    async def test(broker):
        for instance_id in ("i", ""):
            fields = join_fields(group_id=f"of {instance_id}", group_instance_id=instance_id)
            joined = await broker.ask(join_group, 9, **fields)
            assert joined.error_code == 0 and joined.member_id.startswith(f"{instance_id}-")

    with_broker(test)


@pytest.mark.parametrize("version", [8, 9])
def test_a_restarted_static_leader_assigns_nothing_in_a_stable_group(version):
    """It is told to skip that, or, where its version cannot be told, that the old one still leads."""

    async def test(broker):
        first = await broker.ask(join_group, version, **join_fields(group_instance_id="i"))
        assigned = SyncGroupRequestAssignment(member_id=first.member_id, assignment=b"A")
        fields = {"group_id": "g", "generation_id": 1, "member_id": first.member_id, "assignments": [assigned]}
        assert (await broker.ask(sync_group, 3, **fields)).error_code == 0
        again = await broker.ask(join_group, version, **join_fields(group_instance_id="i"))
        assert (again.error_code, again.generation_id, again.skip_assignment) == (0, 1, version == 9)
        assert again.leader == (again.member_id if version == 9 else first.member_id)

    with_broker(test)


def test_join_version_0_takes_the_session_for_the_rebalance_timeout():
    async def test(broker):
        await broker.ask(join_group, 0, **join_fields(session_timeout_ms=7000))
        began_ms = broker.clock.monotonic_ms()
        again = await broker.ask(join_group, 0, **join_fields(session_timeout_ms=7000))
        assert again.generation_id == 2  # the first one never came back
        assert broker.clock.monotonic_ms() - began_ms == pytest.approx(7000, abs=1)

    with_broker(test)


@pytest.mark.parametrize("version", versions(join_group))
def test_refused_join(version):
    async def test(broker):
        refused = await broker.ask(join_group, version, **join_fields(session_timeout_ms=1))
        assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert (refused.generation_id, refused.leader, refused.members) == (-1, "", [])
        assert refused.protocol_name == (None if version >= 7 else "")

    with_broker(test)


@pytest.mark.parametrize("version", versions(sync_group))
def test_sync(version):
    async def test(broker):
        joined = await broker.ask(join_group, 3, **join_fields())
        word = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"A")
        fields = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id, "assignments": [word]}
        if version >= 5:
            refused = await broker.ask(sync_group, version, **fields)
            assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            fields |= {"protocol_type": "consumer", "protocol_name": "range"}
        synced = await broker.ask(sync_group, version, **fields)
        assert (synced.error_code, synced.assignment) == (0, b"A")
        assert synced.protocol_name == ("range" if version >= 5 else None)

    with_broker(test)


@pytest.mark.parametrize("version", versions(heartbeat))
def test_heartbeat(version):
    async def test(broker):
        member_id, generation = await broker.member()
        beat = await broker.ask(heartbeat, version, group_id="g", member_id=member_id, generation_id=generation)
        assert beat.error_code == 0
        beat = await broker.ask(heartbeat, version, group_id="g", member_id=member_id, generation_id=9)
        assert beat.error_code == ErrorCode.ILLEGAL_GENERATION

    with_broker(test)


@pytest.mark.parametrize("version", versions(leave_group))
def test_leave(version):
    async def test(broker):
        member_id, _ = await broker.member()

        async def leave(who, group="g"):
            many = {"members": [MemberIdentity(member_id=who)]} if version >= 3 else {"member_id": who}
            return await broker.ask(leave_group, version, group_id=group, **many)

        unknown = await leave("nobody")
        left = await leave(member_id)
        if version >= 3:
            assert (unknown.error_code, unknown.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)
            assert [(one.member_id, one.error_code) for one in left.members] == [(member_id, 0)]
        else:
            assert (unknown.error_code, left.error_code) == (ErrorCode.UNKNOWN_MEMBER_ID, 0)
        assert (await leave("x", group="")).error_code == ErrorCode.INVALID_GROUP_ID

    with_broker(test)


@pytest.mark.parametrize("version", versions(describe_groups))
def test_describe(version):
    async def test(broker):
        member_id, _ = await broker.member()
        described = await broker.ask(
            describe_groups, version, groups=["g", "unknown"], include_authorized_operations=True
        )
        group, unknown = described.groups
        assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
        member = group.members[0]
        assert (member.member_id, member.member_metadata, member.member_assignment) == (member_id, b"M", b"A")
        assert (unknown.error_code, unknown.group_state, unknown.members) == (0, "Dead", [])
        assert group.authorized_operations == (READ_DELETE_DESCRIBE if version >= 3 else -(2**31))

    with_broker(test)


@pytest.mark.parametrize("version", versions(list_groups))
def test_list(version):
    async def test(broker):
        await broker.member()
        await broker.ask(offset_commit, 2, group_id="simple", topics=commit_topics(("t", 0, 5)))
        listed = await broker.ask(list_groups, version, states_filter=["stable"], types_filter=["CLASSIC"])
        found = {(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in listed.groups}
        state, kind = ("Stable" if version >= 4 else "", "classic" if version >= 5 else "")
        expected = {("g", "consumer", state, kind)}
        assert found == (expected if version >= 4 else expected | {("simple", "", "", "")})

    with_broker(test)


@pytest.mark.parametrize("version", versions(delete_groups))
def test_delete_groups(version):
    async def test(broker):
        await broker.member()
        await broker.ask(offset_commit, 2, group_id="simple", topics=commit_topics(("t", 0, 5)))
        names = ["g", "simple", "unknown", "simple"]
        deleted = await broker.ask(delete_groups, version, groups_names=names)
        assert [(one.group_id, one.error_code) for one in deleted.results] == [
            ("g", ErrorCode.NON_EMPTY_GROUP),
            ("simple", 0),
            ("unknown", ErrorCode.GROUP_ID_NOT_FOUND),
        ]

    with_broker(test)


def test_connection_that_closes_while_a_join_waits_harms_nobody():
    async def test(broker):
        request = JoinGroupRequest(**join_fields())
        outcome = join_group.handle(broker, request, RequestContext(3, "client", "10.0.0.7:1", "EXTERNAL"))
        task = asyncio.ensure_future(outcome)  # type: ignore[arg-type]
        await pass_time(broker.clock, 1)
        task.cancel()
        other = await broker.ask(join_group, 3, **join_fields())
        assert (other.error_code, other.members) == (0, [])  # the one that is gone leads, until its session ends

    with_broker(test)


@pytest.mark.parametrize("version", range(5))
def test_old_producers_are_not_told_that_a_coordinator_is_loading(version):
    async def test(broker):
        for partition in range(PARTITIONS):
            broker.groups.on_resigned(partition)
            broker.groups.on_elected(partition, 2)
        offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = TxnOffsetCommitRequestTopic(name="t", partitions=[offset])
        fields = {"transactional_id": "x", "group_id": "g", "producer_id": 1, "producer_epoch": 0, "topics": [topic]}
        told = (await broker.ask(txn_offset_commit, version, **fields)).topics[0].partitions[0].error_code
        new, old = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert told == (old if version < 2 else new)

    with_broker(test)
