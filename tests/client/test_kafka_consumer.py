"""KafkaConsumer as an application sees it, on real sockets, against a coordinator of a group of one."""

import gc
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.consumer.client import KafkaConsumer
from odradek.client.consumer.group_protocol import Identity
from odradek.client.errors import (
    ClientBroken,
    ClientClosed,
    CommitFailed,
    ConfigError,
    DeserializationError,
)
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.testing.forked import in_a_child
from tests.client.group_of_one import LONG_MS, T0, Listener, arrive, consumer

NO_STR: Any = None

NO_INT: Any = "0"

NAN = float("nan")

NOBODY_LISTENS = "127.0.0.1:1"


def test_who_waits_long_for_records_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the beginning of a poll counted: one that waited longer than max.poll.interval.ms, as iterating does, made
    the member leave its group for good."""
    settings = {"max_poll_interval_ms": 40, "session_timeout_ms": 30, "heartbeat_interval_ms": 10}
    with KafkaConsumer("t", bootstrap_servers=NOBODY_LISTENS, group_id="g", **settings) as reading:
        times = 0

        def polled() -> None:
            nonlocal times
            times += 1
            if times > 1:
                reading.wakeup()

        assert reading._core._group is not None
        monkeypatch.setattr(reading._core._group, "polled", polled)
        assert reading.poll(LONG_MS) == {} and times > 1


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
