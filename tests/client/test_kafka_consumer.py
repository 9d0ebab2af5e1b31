"""KafkaConsumer as an application sees it, on real sockets, against a coordinator of a group of one."""

import gc
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

import pytest

from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.client import KafkaConsumer
from odradek.client.consumer.group_protocol import Identity, encode_assignment
from odradek.client.consumer.subscription import RebalanceListener
from odradek.client.errors import (
    ClientBroken,
    ClientClosed,
    ClientError,
    CommitFailed,
    ConfigError,
    DeserializationError,
)
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
from odradek.testing.forked import in_a_child

T0 = TopicPartition("t", 0)
NO_STR: Any = None
NO_INT: Any = "0"
NAN = float("nan")
LONG_MS = 30_000
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


def arrive(reading: KafkaConsumer, offset: int, *values: bytes) -> None:
    """Partition 0 is at this offset, and the records from there on have been fetched."""
    reading.seek(T0, offset)
    with reading._core._shared.lock:
        version = reading._core._shared.positions.partitions[T0].version
        records = memoryview(encode_batch(offset, [0] * len(values), [None] * len(values), values))
        reading._core._shared.chunks[T0] = deque([Chunk(T0, records, offset, version, None)])


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


def test_a_callback_may_close_the_consumer(broker: Any) -> None:
    """`poll` raised RuntimeError: Event loop is closed."""
    reading = consumer(broker)
    reading.subscribe(["t"], listener=Listener(reading.close))
    with pytest.raises(ClientClosed):
        reading.poll(LONG_MS)
    assert len(broker.requests(LeaveGroupRequest)) == 1


def test_a_callback_that_polls_is_told_that_it_may_not(broker: Any) -> None:
    """Each such poll called the same callback again, until Python's stack was full."""
    heard: list[str] = []

    def react() -> None:
        for poll in (lambda: reading.poll(LONG_MS), lambda: reading.poll(0), lambda: next(reading)):
            with pytest.raises(ClientError) as refused:
                poll()
            heard.append(str(refused.value))
        reading.wakeup()

    with consumer(broker) as reading:
        listener = Listener(react)
        reading.subscribe(["t"], listener=listener)
        assert reading.poll(LONG_MS) == {}
    assert heard == ["a rebalance callback cannot poll: the poll that calls it is waiting"] * 3
    assert [word for word, _ in listener.heard] == ["assigned", "revoked"]


def test_what_close_revokes_may_be_committed_by_the_callback(broker: Any) -> None:
    """It was told that the consumer is closed."""
    seen: list[int] = []

    class Committing(Listener):
        def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            reading.pause(*revoked)
            reading.commit({T0: 2})
            seen.append(reading.position(T0))

    reading = consumer(broker, auto_offset_reset="earliest", enable_auto_commit=False)
    reading.subscribe(["t"], listener=Committing(lambda: (reading.seek(T0, 2), reading.wakeup())))
    reading.poll(LONG_MS)
    reading.close()
    assert seen == [2]
    assert [one.topics[0].partitions[0].committed_offset for one in broker.requests(OffsetCommitRequest)] == [2]
    with pytest.raises(ClientClosed):
        reading.commit()


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

        def polled(now_ms: float) -> None:
            times.append(now_ms)
            if len(times) > 1:
                reading.wakeup()

        assert reading._core._group is not None
        monkeypatch.setattr(reading._core._group, "polled", polled)
        assert reading.poll(LONG_MS) == {} and len(times) > 1


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
    [{"group_id": ""}, {"group_id": "g", "key_deserializer": 5}, {"group_id": "g", "bootstrap_servers": "nonsense"}],
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
        assert reading._core._group is not None
        core: Any = reading._core
        membership = core._group.membership
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
        assert reading._core._group is not None
        reading._core._group.membership.identity = Identity("me")
        with pytest.raises(CommitFailed, match="group g: the partitions belong to others by now"):
            reading.group_metadata()


def test_without_a_group_nobody_commits(broker: Any) -> None:
    with (
        KafkaConsumer(bootstrap_servers=f"127.0.0.1:{broker.port}") as reading,
        pytest.raises(ConfigError, match=r"group\.id"),
    ):
        reading.group_metadata()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            lambda reading: reading.assign([TopicPartition("t", NO_INT)]),
            "a partition's number must be an integer, not str",
        ),
        (lambda reading: reading.assign(["t"]), "a partition must be a TopicPartition"),
        (lambda reading: reading.assign(T0), "partitions must be a list of TopicPartition"),
        (lambda reading: reading.assign([(b"t", 0)]), "a topic must be a string, not bytes"),
        (lambda reading: reading.seek(T0, 5.0), "an offset must be an integer, not float"),
        (lambda reading: reading.seek(T0, -1), "an offset must be between 0"),
        (lambda reading: reading.end_offsets([TopicPartition(NO_STR, 0)]), "a topic must be a string, not NoneType"),
        (lambda reading: reading.committed(TopicPartition("t", True)), "an integer, not bool"),
        (lambda reading: reading.commit({T0: "5"}), "an offset must be an integer, not str"),
        (lambda reading: reading.commit_async({T0: OffsetAndMetadata(1, "", NO_INT)}), "the leader epoch of an offset"),
        (lambda reading: reading.commit_async({T0: OffsetAndMetadata(1, "", 2**31)}), "the leader epoch of an offset"),
        (lambda reading: reading.commit_async({T0: OffsetAndMetadata(1, "\ud800")}), "the metadata of an offset has"),
        (lambda reading: reading.commit_async({T0: ()}), "an offset must be a number or OffsetAndMetadata"),
        (lambda reading: reading.subscribe([5]), "a topic must be a string, not int"),
        (lambda reading: reading.poll(max_records=0), "max_records must be between 1"),
        (lambda reading: reading.poll(NAN), "a timeout must be a number, not nan"),
        (lambda reading: reading.poll(NO_INT), "a timeout must be a number, not str"),
        (lambda reading: reading.position(T0, NAN), "a timeout must be a number, not nan"),
        (lambda reading: reading.commit(timeout_ms=NAN), "a timeout must be a number, not nan"),
        (lambda reading: reading.close(timeout_ms=NAN), "a timeout must be a number, not nan"),
        (lambda reading: reading.pause("t"), "a partition must be a TopicPartition"),
        (
            lambda reading: reading.offsets_for_times({T0: -5}),
            "a timestamp in milliseconds since 1970 must be between 0",
        ),
    ],
)
def test_a_wrong_argument_is_refused_at_once_and_is_in_nobodys_way(
    broker: Any, wrong: Callable[[KafkaConsumer], object], said: str
) -> None:
    """It ended the loop: the first poll raised it, and all others gave nothing, while the heartbeats went on."""
    with consumer(broker, auto_offset_reset="earliest") as reading:
        reading.assign([T0])
        with pytest.raises((TypeError, ConfigError), match=said):
            wrong(reading)
        assert reading.position(T0, LONG_MS) == 3


def test_a_fault_inside_ends_the_membership_and_every_later_call_raises_it(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One poll raised it, all later ones gave nothing, and the member kept its partitions by its heartbeats."""
    with consumer(broker, auto_offset_reset="earliest", heartbeat_interval_ms=50) as reading:
        listener = Listener(reading.wakeup)
        reading.subscribe(["t"], listener=listener)
        reading.poll(LONG_MS)

        def fail(*_: Any) -> None:
            raise ZeroDivisionError("planted")

        core: Any = reading._core
        monkeypatch.setattr(core._engine._fetcher, "due", fail)
        reading._core._wake_engine()
        for call in (lambda: reading.poll(LONG_MS), reading.poll, lambda: reading.seek(T0, 5), reading.commit):
            with pytest.raises(ClientBroken, match=r"consumer .* is broken: ZeroDivisionError: planted") as raised:
                call()
            assert isinstance(raised.value.__cause__, ZeroDivisionError)
        assert core._engine.tasks._running == set(), "nothing beats any more"
    assert len(broker.requests(LeaveGroupRequest)) == 1


def test_what_could_not_be_processed_is_not_committed(broker: Any) -> None:
    """Leaving the block committed the record whose processing had just failed."""
    with pytest.raises(ZeroDivisionError), consumer(broker) as reading:
        reading.assign([T0])
        arrive(reading, 0, b"a")
        assert [one.value for one in reading.poll(0)[T0]] == [b"a"]
        raise ZeroDivisionError
    assert broker.requests(OffsetCommitRequest) == []
    with consumer(broker) as reading:
        reading.assign([T0])
        arrive(reading, 0, b"a")
        reading.poll(0)
    assert len(broker.requests(OffsetCommitRequest)) == 1


def test_between_memberships_nobody_commits_in_a_transaction(broker: Any) -> None:
    """Once the application had heard of the loss, it was nobody, whose offsets coordinators take unfenced."""
    with consumer(broker, auto_offset_reset="earliest") as reading:
        reading.subscribe(["t"], listener=Listener(reading.wakeup))
        reading.poll(LONG_MS)
        core: Any = reading._core
        membership = core._group.membership
        membership.identity, membership.owned = Identity(), ()
        with pytest.raises(CommitFailed, match="the partitions belong to others by now"):
            reading.group_metadata()


@pytest.mark.parametrize("in_a_circle", [False, True])
def test_a_consumer_that_is_dropped_says_so_once_and_leaves_its_group(
    broker: Any, in_a_circle: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its thread went on with the heartbeats: nobody else got its partitions for max.poll.interval.ms.

    One that something of its own refers to, as a listener may, goes in one sweep with its core: both left the group,
    and one of them closed the connections under the other, which died of it.
    """
    reading: Any = consumer(broker, auto_offset_reset="earliest")
    if in_a_circle:
        reading.listener = [reading]
    reading.subscribe(["t"])
    while not reading.assignment():
        reading.poll(200)
    thread = reading._thread._thread
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        del reading
        gc.collect()
    assert [text for one in said if "dropped" in (text := str(one.message))] == [
        "KafkaConsumer was dropped without close()"
    ]
    thread.join(LONG_MS / 1000)
    assert not thread.is_alive()
    assert len(broker.requests(LeaveGroupRequest)) == 1
    assert "has died" not in caplog.text


def test_after_a_fork_the_child_is_told(broker: Any) -> None:
    with consumer(broker) as reading:
        reading.assign([T0])

        def child() -> str:
            said = []
            for call in (reading.poll, lambda: reading.seek(T0, 1), reading.commit, lambda: next(reading)):
                try:
                    call()
                except ClientClosed as error:
                    said.append(str(error))
            reading.close()
            return f"{len(said)}: {said[1]}"

        said = in_a_child(child)
        assert said.startswith("4: consumer") and "made in another process, before a fork" in said
        assert reading.poll(0) == {}


def test_a_poll_takes_no_longer_than_it_was_given_though_a_commit_does(broker: Any) -> None:
    """Partitions are given up once what was read of them is committed: the poll waited a minute for that."""
    committed = broker.handlers[OffsetCommitRequest]
    listener = Listener()
    with consumer(broker, auto_offset_reset="earliest", heartbeat_interval_ms=50) as reading:
        listener.react = reading.wakeup
        reading.subscribe(["t"], listener=listener)
        reading.poll(LONG_MS)
        reading.position(T0, LONG_MS)
        broker.handlers[OffsetCommitRequest] = lambda _: None
        core: Any = reading._core
        core._group.membership._rejoin = True
        began = time.monotonic()
        while not broker.requests(OffsetCommitRequest):
            assert reading.poll(50) == {}
            assert time.monotonic() - began < LONG_MS / 1000
        for _ in range(3):
            began = time.monotonic()
            assert reading.poll(50) == {}
            assert time.monotonic() - began < LONG_MS / 1000, "of the minute that the commit takes"
        assert listener.heard == [("assigned", [T0])], "not before the commit has come to its end"
        broker.handlers[OffsetCommitRequest] = committed
        reading._thread.call(lambda: broker_lost(reading))
        while len(listener.heard) < 3:
            reading.poll(50)
        assert listener.heard[1:] == [("revoked", [T0]), ("assigned", [T0])]


def broker_lost(reading: KafkaConsumer) -> None:
    """Break its connections: what was not answered is asked again."""
    for link in list(reading._core.engine.cluster._links.values()):
        if link.connection is not None:
            link.connection.close()


def test_without_a_group_all_partitions_of_the_topics_are_read(broker: Any) -> None:
    """It was an error, and is the first example of kafka-python."""
    broker.topics["t"] = 2
    with KafkaConsumer("t", bootstrap_servers=f"127.0.0.1:{broker.port}", auto_offset_reset="earliest") as reading:
        assert reading.subscription() == {"t"}
        while len(reading.assignment()) < 2:
            reading.poll(50)
        assert reading.assignment() == {T0, TopicPartition("t", 1)}
        with pytest.raises(ConfigError, match=r"committing needs group\.id"):
            reading.commit()


def test_iterating_hands_out_what_is_there_and_the_position_follows() -> None:
    """Each record was a poll of its own, over all partitions."""
    with KafkaConsumer(bootstrap_servers=NOBODY_LISTENS, consumer_timeout_ms=0) as reading:
        reading.assign([T0])
        arrive(reading, 0, b"a", b"b", b"c", b"d")
        positions = reading._core._shared.positions
        assert next(reading).value == b"a" and positions.consumed()[T0].offset == 1
        assert next(reading).value == b"b" and positions.consumed()[T0].offset == 2
        assert [one.value for one in reading.poll(0, 1)[T0]] == [b"c"], "a poll goes on where iterating has ended"
        reading.pause(T0)
        assert list(reading) == [] and positions.consumed()[T0].offset == 3
        reading.resume(T0)
        assert positions.partitions[T0].fetch_offset == 3, "what was decoded is fetched again"
        arrive(reading, 3, b"d")
        assert [one.value for one in reading] == [b"d"] and positions.consumed()[T0].offset == 4


def test_commit_callbacks_are_called_inside_a_poll(broker: Any) -> None:
    """They were called on the consumer's own thread."""
    threads: list[threading.Thread] = []
    with consumer(broker, enable_auto_commit=False) as reading:
        reading.assign([T0])
        reading.commit_async({T0: 7}, lambda offsets, error: threads.append(threading.current_thread()))
        while not threads:
            reading.poll(20)
    assert threads == [threading.current_thread()]
