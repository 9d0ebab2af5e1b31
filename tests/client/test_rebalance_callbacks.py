"""Callbacks of KafkaConsumer: of rebalances and commits, and what close waits for."""

import threading
import time
from collections.abc import Collection
from typing import Any

import pytest

from odradek.client.consumer.client import KafkaConsumer
from odradek.client.consumer.group_protocol import Identity
from odradek.client.consumer.subscription import RebalanceListener
from odradek.client.errors import (
    ClientClosed,
    ClientError,
    CommitFailed,
)
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
)
from tests.client.group_of_one import LONG_MS, T0, Listener, arrive, consumer


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


@pytest.mark.parametrize("name", ["on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost"])
def test_a_listener_that_nobody_would_await_is_refused(broker: Any, name: str) -> None:
    """It was called, which did nothing."""

    async def react(self: object, partitions: Collection[TopicPartition]) -> None:
        pytest.fail("nobody awaits it")

    listener = type("Awaited", (RebalanceListener,), {name: react})()
    with consumer(broker) as reading:
        with pytest.raises(TypeError, match="cannot be coroutines"):
            reading.subscribe(["t"], listener=listener)
        assert reading.subscription() == set()


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


def test_a_callback_that_nobody_would_await_is_refused(broker: Any) -> None:
    async def told(offsets: object, error: object) -> None:
        raise AssertionError("nobody awaits this")

    with consumer(broker, enable_auto_commit=False) as reading:
        reading.assign([T0])
        with pytest.raises(TypeError, match=r"odradek\.aio\.Consumer awaits them"):
            reading.commit_async({T0: OffsetAndMetadata(7)}, told)
    assert broker.requests(OffsetCommitRequest) == []


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


def test_commit_callbacks_are_called_inside_a_poll(broker: Any) -> None:
    """They were called on the consumer's own thread."""
    threads: list[threading.Thread] = []
    with consumer(broker, enable_auto_commit=False) as reading:
        reading.assign([T0])
        reading.commit_async({T0: 7}, lambda offsets, error: threads.append(threading.current_thread()))
        while not threads:
            reading.poll(20)
    assert threads == [threading.current_thread()]
