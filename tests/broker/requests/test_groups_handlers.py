"""The group APIs from request to response, in all versions, over a whole coordinator."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.coordination.partition_count import partition_for
from odradek.broker.groups.group_coordinator import GroupCoordinator
from odradek.broker.network.outcomes import Reply, RequestContext
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
from odradek.broker.settings.coordinator_settings import GroupSettings, TransactionSettings
from odradek.broker.transactions.transaction_coordinator import TransactionCoordinator
from odradek.broker.transactions.transaction_markers import PendingMarkers
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.store import Store

PARTITIONS = 2
READ_DELETE_DESCRIBE = 1 << 3 | 1 << 6 | 1 << 8
TOPICS = {"t": 2, CONSUMER_OFFSETS: PARTITIONS}


class AcknowledgingStorage:
    """A log that has everything at once and gives nothing back."""

    def append(self, partition: int, records: bytearray, timeout_ms: int, done: Callable[[ErrorCode], None]) -> None:
        done(ErrorCode.NONE)

    def read(self, partition: int, offset: int, max_bytes: int) -> tuple[bytes, int]:
        return b"", 0

    def log_start_offset(self, partition: int) -> int:
        return 0


class NoMarkers:
    def send(self, ending: PendingMarkers) -> None:
        raise AssertionError(ending)


@dataclass
class Broker:
    """What the handlers see."""

    clock: VirtualClock
    zookeeper: Store
    metadata: MetadataCache
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    auto_create_topic: Callable[[str], Awaitable[ErrorCode]]
    created: list[str] = field(default_factory=list)

    async def ask(self, module, version, client="client", listener="EXTERNAL", **fields):
        """Through the codecs both ways, as over a connection."""
        request = decode(module.REQUEST, version, encode(module.REQUEST(**fields), version))
        context = RequestContext(version, client, "10.0.0.7:4711", listener)
        outcome = module.handle(self, request, context)
        reply = await outcome if inspect.iscoroutine(outcome) else outcome
        assert isinstance(reply, Reply)
        return decode(type(reply.response), version, encode(reply.response, version))

    async def member(self, group="g", version=3):
        """The one member of a stable group: (member id, generation)."""
        joined = await self.ask(join_group, version, **join_fields(group_id=group))
        word = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"A")
        synced = await self.ask(
            sync_group, 3, group_id=group, generation_id=1, member_id=joined.member_id, assignments=[word]
        )
        assert synced.assignment == b"A"
        return joined.member_id, joined.generation_id


def metadata(topics: dict[str, int]) -> MetadataCache:
    cache = MetadataCache()
    endpoints = [
        UpdateMetadataEndpoint(host="outside", port=9092, listener="EXTERNAL"),
        UpdateMetadataEndpoint(host="inside", port=9093, listener="INTERNAL"),
    ]
    states = [
        UpdateMetadataTopicState(
            topic_name=topic,
            partition_states=[UpdateMetadataPartitionState(partition_index=i, leader=7 + i) for i in range(count)],
        )
        for topic, count in topics.items()
    ]
    broker = UpdateMetadataBroker(id=7, endpoints=endpoints)
    cache.update(UpdateMetadataRequest(topic_states=states, live_brokers=[broker]))
    return cache


async def pass_time(clock: VirtualClock, duration_ms: float) -> None:
    """Virtual time: nothing waits for it."""
    passed = asyncio.Event()
    clock.call_later(duration_ms, passed.set)
    await passed.wait()


def with_broker(test, topics=TOPICS):
    """Run a test with a broker on virtual time."""

    async def main(clock: VirtualClock) -> None:
        store = MemoryZooKeeper(clock).connect()
        await store.start(1000)
        groups = GroupCoordinator(clock, Random(1), AcknowledgingStorage(), GroupSettings(), lambda: PARTITIONS)
        transactions = TransactionCoordinator(
            clock, AcknowledgingStorage(), TransactionSettings(), lambda: PARTITIONS, NoMarkers(), 30_000
        )
        created: list[str] = []

        async def create(topic: str) -> ErrorCode:
            created.append(topic)
            return ErrorCode.NONE

        broker = Broker(clock, store, metadata(topics), groups, transactions, create, created)
        groups.start()
        for partition in range(PARTITIONS):
            groups.on_elected(partition, 0)
        await pass_time(clock, 1)
        await test(broker)
        groups.stop()

    run_virtual(main)


def join_fields(**fields):
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"M")]
    defaults = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "protocol_type": "consumer",
        "protocols": protocols,
    }
    return defaults | fields


def commit_topics(*partitions, metadata="m", timestamp=-1):
    return [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_metadata=metadata,
                    committed_leader_epoch=4,
                    commit_timestamp=timestamp,
                )
            ],
        )
        for topic, index, offset in partitions
    ]


def versions(module):
    lowest, highest = module.VERSIONS
    return range(lowest, highest + 1)


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


@pytest.mark.parametrize("version", range(1, 10))
def test_commit_and_fetch(version):
    async def test(broker):
        topics = commit_topics(("t", 0, 5), ("t", 9, 5), ("unknown", 0, 5))
        committed = await broker.ask(offset_commit, version, group_id="g", topics=topics)
        assert [(t.name, t.partitions[0].partition_index, t.partitions[0].error_code) for t in committed.topics] == [
            ("t", 0, 0),
            ("t", 9, 3),
            ("unknown", 0, 3),
        ]
        if version >= 8:
            asked = [OffsetFetchRequestTopics(name="t", partition_indexes=[1, 0])]
            request: dict[str, Any] = {"groups": [OffsetFetchRequestGroup(group_id="g", topics=asked)]}
        else:
            request = {"group_id": "g", "topics": [OffsetFetchRequestTopic(name="t", partition_indexes=[1, 0])]}
        fetched = await broker.ask(offset_fetch, version, **request)
        partitions = (fetched.groups[0] if version >= 8 else fetched).topics[0].partitions
        assert [(p.partition_index, p.committed_offset, p.metadata, p.error_code) for p in partitions] == [
            (1, -1, "", 0),
            (0, 5, "m", 0),
        ]
        if version >= 6:
            assert [p.committed_leader_epoch for p in partitions] == [-1, 4]

    with_broker(test)


@pytest.mark.parametrize("version", [2, 5, 7, 8, 9])
def test_fetch_of_everything(version):
    async def test(broker):
        await broker.ask(offset_commit, 2, group_id="g", topics=commit_topics(("t", 0, 5), ("t", 1, 6)))
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "nothing")]
        request = {"groups": groups} if version >= 8 else {"group_id": "g", "topics": None}
        fetched = await broker.ask(offset_fetch, version, **request)
        topics = (fetched.groups[0] if version >= 8 else fetched).topics
        assert [(t.name, [p.committed_offset for p in t.partitions]) for t in topics] == [("t", [5, 6])]
        if version >= 8:
            assert (fetched.groups[1].group_id, fetched.groups[1].topics) == ("nothing", [])

    with_broker(test)


@pytest.mark.parametrize("version", range(1, 10))
def test_fetch_where_the_coordinator_is_not(version):
    async def test(broker):
        for partition in range(PARTITIONS):
            broker.groups.on_resigned(partition, None)
        if version >= 8:
            asked = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            request: dict[str, Any] = {"groups": [OffsetFetchRequestGroup(group_id="g", topics=asked)]}
        else:
            request = {"group_id": "g", "topics": [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]}
        fetched = await broker.ask(offset_fetch, version, **request)
        if version >= 8:
            error = fetched.groups[0].error_code
        else:
            error = fetched.error_code if version >= 2 else fetched.topics[0].partitions[0].error_code
        assert error == ErrorCode.NOT_COORDINATOR

    with_broker(test)


def test_retention_and_timestamps_of_old_versions():
    async def test(broker):
        await broker.ask(offset_commit, 1, group_id="a", topics=commit_topics(("t", 0, 5), timestamp=1000))
        await broker.ask(offset_commit, 3, group_id="b", topics=commit_topics(("t", 0, 5)), retention_time_ms=1000)
        await broker.ask(offset_commit, 5, group_id="c", topics=commit_topics(("t", 0, 5)), retention_time_ms=1000)

        def names():
            return {one.group_id for one in broker.groups.list_groups([], [])[1]}

        assert names() == {"a", "b", "c"}
        await pass_time(broker.clock, 600_001)
        assert names() == {"c"}

    with_broker(test)


def test_version_0_keeps_offsets_in_zookeeper():
    async def test(broker):
        for offset in (5, 7):
            topics = commit_topics(("t", 0, offset), ("unknown", 0, 5))
            committed = await broker.ask(offset_commit, 0, group_id="old", topics=topics)
            assert [t.partitions[0].error_code for t in committed.topics] == [0, 3]
        assert (await broker.zookeeper.get("/consumers/old/offsets/t/0"))[0] == b"7"
        large = commit_topics(("t", 1, 5), metadata="x" * 4097)
        refused = await broker.ask(offset_commit, 0, group_id="old", topics=large)
        assert refused.topics[0].partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE
        for nameless in ("a/b", "a\x07", "a\x9f", "\ue000", "\uffff"):
            refused = await broker.ask(offset_commit, 0, group_id=nameless, topics=commit_topics(("t", 0, 1)))
            assert refused.topics[0].partitions[0].error_code == ErrorCode.INVALID_GROUP_ID
        asked = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1, 9])]
        fetched = await broker.ask(offset_fetch, 0, group_id="old", topics=asked)
        assert [(p.committed_offset, p.metadata, p.error_code) for p in fetched.topics[0].partitions] == [
            (7, "", 0),
            (-1, "", 3),
            (-1, "", 3),
        ]
        assert broker.groups.list_groups([], [])[1] == []

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


def test_delete_offsets():
    async def test(broker):
        await broker.ask(offset_commit, 2, group_id="g", topics=commit_topics(("t", 0, 5), ("t", 1, 6)))
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (1, 9)]
        topics = [OffsetDeleteRequestTopic(name="t", partitions=partitions)]
        deleted = await broker.ask(offset_delete, 0, group_id="g", topics=topics)
        assert [p.error_code for p in deleted.topics[0].partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        deleted = await broker.ask(offset_delete, 0, group_id="unknown", topics=topics)
        assert (deleted.error_code, deleted.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
        assert broker.groups.fetch_offsets("g", None, require_stable=False)[1].keys() == {("t", 0)}

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
            broker.groups.on_resigned(partition, 1)
            broker.groups.on_elected(partition, 2)
        offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = TxnOffsetCommitRequestTopic(name="t", partitions=[offset])
        fields = {"transactional_id": "x", "group_id": "g", "producer_id": 1, "producer_epoch": 0, "topics": [topic]}
        told = (await broker.ask(txn_offset_commit, version, **fields)).topics[0].partitions[0].error_code
        new, old = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert told == (old if version < 2 else new)

    with_broker(test)
