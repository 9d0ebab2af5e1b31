"""KafkaConsumer as an application sees it, on real sockets, against a coordinator of a group of one."""

import threading
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

import pytest

from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.client import KafkaConsumer
from odradek.client.consumer.embedded import encode_assignment
from odradek.client.consumer.group_requests import Identity
from odradek.client.consumer.listener import RebalanceListener
from odradek.client.errors import CommitFailed, ConfigError, DeserializationError
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.records import encode_batch

T0 = TopicPartition("t", 0)
LONG_MS = 10_000
NOBODY_LISTENS = "127.0.0.1:1"


def make_coordinator(broker: Any) -> None:
    """Answers as for a group of one, which gets partition 0; its log begins at offset 3 and never gets a record."""
    found = Coordinator(key="g", node_id=0, host=broker.name, port=broker.port)
    start = ListOffsetsPartitionResponse(partition_index=0, offset=3)
    committed = OffsetCommitResponsePartition(partition_index=0)
    broker.handlers |= {
        FindCoordinatorRequest: lambda _: FindCoordinatorResponse(coordinators=[found]),
        JoinGroupRequest: lambda _: JoinGroupResponse(
            generation_id=1, member_id="me", leader="other", protocol_name="range"
        ),
        SyncGroupRequest: lambda _: SyncGroupResponse(assignment=encode_assignment([T0])),
        HeartbeatRequest: lambda _: HeartbeatResponse(),
        LeaveGroupRequest: lambda _: LeaveGroupResponse(),
        OffsetFetchRequest: lambda _: OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g")]),
        OffsetCommitRequest: lambda _: OffsetCommitResponse(
            topics=[OffsetCommitResponseTopic(name="t", partitions=[committed])]
        ),
        ListOffsetsRequest: lambda _: ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="t", partitions=[start])]
        ),
        FetchRequest: lambda _: None,
    }


@pytest.fixture
def broker(broker_on_loopback: Any) -> Any:
    make_coordinator(broker_on_loopback)
    return broker_on_loopback


def consumer(broker: Any, **settings: Any) -> KafkaConsumer:
    return KafkaConsumer(bootstrap_servers=f"127.0.0.1:{broker.port}", group_id="g", **settings)


class Listener(RebalanceListener):
    """Notes what it hears; `react` is called on every assignment."""

    def __init__(self, react: Callable[[], object] = lambda: None) -> None:
        self.heard: list[tuple[str, list[TopicPartition]]] = []
        self.react = react

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.heard.append(("assigned", list(assigned)))
        self.react()

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.heard.append(("revoked", list(revoked)))


def arrive(reading: KafkaConsumer, offset: int, value: bytes) -> None:
    """Partition 0 is at this offset, and the record there has been fetched."""
    reading.seek(T0, offset)
    with reading._shared.lock:
        version = reading._shared.positions.partitions[T0].version
        records = memoryview(encode_batch(offset, [0], [None], [value]))
        reading._shared.chunks[T0] = deque([Chunk(T0, records, offset, version, None)])


def test_the_position_of_a_new_partition_can_be_asked_for_in_the_callback(broker: Any) -> None:
    """Nobody looked for it before the callback had returned: `position` waited until its time was over."""
    found: list[int] = []
    with consumer(broker, auto_offset_reset="earliest") as reading:
        listener = Listener(lambda: (found.append(reading.position(T0, LONG_MS)), reading.wakeup()))
        reading.subscribe(["t"], listener=listener)
        reading.poll(LONG_MS)
    assert found == [3]
    assert listener.heard == [("assigned", [T0]), ("revoked", [T0])]
    assert len(broker.requests(LeaveGroupRequest)) == 1


def test_what_a_callback_raises_is_raised_once_and_the_rebalance_goes_on(broker: Any) -> None:
    """The turn was not done, so that every poll called the callbacks again."""
    listener = Listener(lambda: 1 / 0)
    with consumer(broker) as reading:
        reading.subscribe(["t"], listener=listener)
        with pytest.raises(ZeroDivisionError):
            reading.poll(LONG_MS)
        assert reading.assignment() == {T0}
        reading.poll(0)
        assert listener.heard == [("assigned", [T0])]


def test_closing_waits_for_commits_that_nobody_waits_for(broker: Any) -> None:
    reading = consumer(broker, enable_auto_commit=False)
    reading.assign([T0])
    told: list[Exception | None] = []
    reading.commit_async({T0: OffsetAndMetadata(7)}, lambda offsets, error: told.append(error))
    reading.close()
    assert told == [None]
    (request,) = broker.requests(OffsetCommitRequest)
    assert request.topics[0].partitions[0].committed_offset == 7


def test_who_waits_long_for_records_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the beginning of a poll counted: one that waited longer than max.poll.interval.ms, as iterating does, made
    the member leave its group for good."""
    settings = {"max_poll_interval_ms": 40, "session_timeout_ms": 30, "heartbeat_interval_ms": 10}
    with KafkaConsumer("t", bootstrap_servers=NOBODY_LISTENS, group_id="g", **settings) as reading:
        times: list[float] = []
        assert reading._group is not None
        monkeypatch.setattr(reading._group, "polled", times.append)
        reading.poll(100)
        assert len(times) >= 2


def test_a_poll_that_waits_is_woken_from_another_thread() -> None:
    with KafkaConsumer("t", bootstrap_servers=NOBODY_LISTENS, group_id="g") as reading:
        threading.Thread(target=reading.wakeup).start()
        assert reading.poll(float("inf")) == {}


def test_topics_patterns_and_partitions_do_not_mix() -> None:
    with KafkaConsumer(bootstrap_servers=NOBODY_LISTENS, group_id="g") as reading:
        with pytest.raises(ConfigError, match="nothing to read"):
            reading.poll()
        reading.assign([T0])
        with pytest.raises(ConfigError, match="assigned partitions: unsubscribe before"):
            reading.subscribe(["t"])
        reading.unsubscribe()
        with pytest.raises(ConfigError, match="is not a regular expression"):
            reading.subscribe(pattern="(")
        reading.subscribe(["t"])
        reading.subscribe(pattern="t.*")
        with pytest.raises(ConfigError, match="subscribed to a pattern: unsubscribe before"):
            reading.assign([T0])
        reading.unsubscribe()
        reading.assign([T0])
        assert reading.assignment() == {T0}


@pytest.mark.parametrize(
    "wrong",
    [{}, {"group_id": "g", "key_deserializer": 5}, {"group_id": "g", "bootstrap_servers": "nonsense"}],
)
def test_a_consumer_that_cannot_be_made_leaves_no_thread_behind(wrong: dict[str, Any]) -> None:
    before = set(threading.enumerate())
    with pytest.raises(ConfigError):
        KafkaConsumer("t", **{"bootstrap_servers": NOBODY_LISTENS, **wrong})
    assert [one for one in threading.enumerate() if one not in before and one.is_alive()] == []


def test_iterating_goes_on_after_an_error() -> None:
    """It ended at once, as if there were no more records."""

    def refuse_a(value: bytes) -> bytes:
        assert value != b"a"
        return value

    with KafkaConsumer(
        bootstrap_servers=NOBODY_LISTENS, value_deserializer=refuse_a, consumer_timeout_ms=LONG_MS
    ) as reading:
        reading.assign([T0])
        arrive(reading, 0, b"a")
        with pytest.raises(DeserializationError):
            next(reading)
        arrive(reading, 1, b"b")
        assert next(reading).value == b"b"


def test_what_belongs_to_others_by_now_is_not_handed_out() -> None:
    """Records that had been fetched before the membership was lost were still processed, as somebody else did."""
    with KafkaConsumer(bootstrap_servers=NOBODY_LISTENS, group_id="g", enable_auto_commit=False) as reading:
        reading.assign([T0])
        arrive(reading, 0, b"a")
        assert reading._group is not None
        membership = reading._group._membership
        membership.owned = (T0,)
        assert reading.poll(0) == {}
        membership.identity = Identity("me", 1)
        assert [one.value for one in reading.poll(0)[T0]] == [b"a"]


def test_who_it_is_for_a_transaction(broker: Any) -> None:
    """KIP-447. Without a generation a coordinator could not tell that the offsets of a lost partition are too late."""
    with consumer(broker, auto_offset_reset="earliest") as reading:
        assert reading.group_metadata() == ("g", -1, "", None), "a member of nothing"
        reading.subscribe(["t"], listener=Listener(reading.wakeup))
        reading.poll(LONG_MS)
        assert reading.group_metadata() == ("g", 1, "me", None)
        assert reading._group is not None
        reading._group._membership.identity = Identity("me")
        with pytest.raises(CommitFailed, match="group g: the partitions belong to others by now"):
            reading.group_metadata()


def test_without_a_group_nobody_commits(broker: Any) -> None:
    with (
        KafkaConsumer(bootstrap_servers=f"127.0.0.1:{broker.port}") as reading,
        pytest.raises(ConfigError, match=r"group\.id"),
    ):
        reading.group_metadata()
