"""Markers on their way: what becomes of them when answers are odd, requests fail, or we have a bug."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.transactions.transaction_markers import (
    LANES,
    PARTITIONS_MAX,
    RETRY_AFTER_A_BUG_MS,
    RETRY_BACKOFF_MS,
    PendingMarkers,
    TransactionMarkers,
    request_of,
)
from odradek.broker.transactions.transaction_state import ProducerIdentity
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.update_metadata import UpdateMetadataPartitionState
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.tasks import Tasks

LEADER, REQUEST_TIMEOUT_MS = 3, 30_000
T0, T1 = ("t", 0), ("t", 1)


class Metadata:
    """Knows the leaders that it is told of, and what has been deleted."""

    def __init__(self) -> None:
        self.leaders = {T0: LEADER, T1: LEADER}
        self.deleted: set[tuple[str, int]] = set()

    def partition(self, topic: str, index: int) -> UpdateMetadataPartitionState | None:
        leader = self.leaders.get((topic, index))
        return None if leader is None else UpdateMetadataPartitionState(partition_index=index, leader=leader)

    def is_alive(self, broker_id: int) -> bool:
        return broker_id == LEADER

    def is_deleted(self, topic: str, index: int) -> bool:
        return (topic, index) in self.deleted


class Leader:
    """Answers with the next of `outcomes`: an error for all partitions, or an exception; NONE when none is left."""

    def __init__(self, *outcomes: int | Exception) -> None:
        self.outcomes = list(outcomes)
        self.requests: list[WriteTxnMarkersRequest] = []
        self.held: asyncio.Event | None = None

    async def to_broker(
        self, broker_id: int, request: WriteTxnMarkersRequest, version: int, timeout_ms: int
    ) -> WriteTxnMarkersResponse:
        assert broker_id == LEADER
        assert timeout_ms > REQUEST_TIMEOUT_MS, "the leader itself waits that long for its replicas"
        self.requests.append(request)
        if self.held is not None:
            await self.held.wait()
        outcome = self.outcomes.pop(0) if self.outcomes else ErrorCode.NONE
        if isinstance(outcome, Exception):
            raise outcome
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(partition_index=index, error_code=outcome)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    def close(self) -> None:
        """Nothing is open."""


class World:
    def __init__(self, clock: VirtualClock, leader: Leader) -> None:
        self.clock, self.leader = clock, leader
        metadata: Any = Metadata()
        self.metadata = metadata
        self.tasks = Tasks(clock, lambda line: None)
        stand_in: Any = leader
        self.markers = TransactionMarkers(
            0, metadata, clock, lambda client_id: stand_in, self.tasks, REQUEST_TIMEOUT_MS
        )
        self.done: list[None] = []
        self.pending = PendingMarkers(ProducerIdentity(7, 0), True, 1, {T0}, lambda: self.done.append(None))

    async def pass_time(self, duration_ms: float) -> None:
        passed = asyncio.Event()
        self.clock.call_later(duration_ms, passed.set)
        await passed.wait()


def in_world(leader: Leader, test: Callable[[World], Any]) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock, leader)
        await test(world)
        world.markers.close()
        world.tasks.close()

    run_virtual(main)


@pytest.mark.parametrize(
    "outcome",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, 9_999, OSError("unreachable")],
    ids=["moved", "not replicated", "a code that is newer than we", "unreachable"],
)
def test_what_is_not_written_is_sent_again(outcome: int | Exception) -> None:
    async def test(world: World) -> None:
        world.markers.send(world.pending)
        await world.pass_time(1)
        assert world.done == []
        await world.pass_time(RETRY_BACKOFF_MS + 1)
        assert world.done == [None] and not world.tasks.deaths

    in_world(Leader(outcome), test)


def test_a_bug_is_counted_and_its_markers_are_sent_again() -> None:
    async def test(world: World) -> None:
        world.markers.send(world.pending)
        await world.pass_time(1)
        assert sum(world.tasks.deaths.values()) == 1
        await world.pass_time(RETRY_AFTER_A_BUG_MS + 1)
        assert world.done == [None]

    in_world(Leader(ZeroDivisionError("a bug of ours")), test)


def test_a_partition_that_nobody_has_told_of_yet_is_not_taken_for_deleted() -> None:
    async def test(world: World) -> None:
        del world.metadata.leaders[T0]
        world.markers.send(world.pending)
        await world.pass_time(10 * RETRY_BACKOFF_MS)
        assert world.done == [] and world.leader.requests == []
        world.metadata.leaders[T0] = LEADER
        await world.pass_time(RETRY_BACKOFF_MS + 1)
        assert world.done == [None] and len(world.leader.requests) == 1

    in_world(Leader(), test)


def test_a_partition_that_is_deleted_needs_no_marker() -> None:
    async def test(world: World) -> None:
        world.metadata.leaders[T0] = -1
        world.markers.send(world.pending)
        del world.metadata.leaders[T0]
        world.metadata.deleted.add(T0)
        await world.pass_time(RETRY_BACKOFF_MS + 1)
        assert world.done == [None] and world.leader.requests == []

    in_world(Leader(), test)


@pytest.mark.parametrize("error", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_newer_coordinator_is_left_to_see_to_it(error: ErrorCode) -> None:
    async def test(world: World) -> None:
        world.pending.remaining = {T0, T1}
        world.markers.send(world.pending)
        await world.pass_time(10 * RETRY_BACKOFF_MS)
        assert world.pending.over and world.done == [] and len(world.leader.requests) == 1
        for partition in (T0, T1):
            world.pending.written(partition)
        assert world.done == []

    in_world(Leader(error), test)


@pytest.mark.parametrize("committed", [True, False])
def test_a_request_says_of_each_transaction_how_it_ends_where_and_by_whom(committed: bool) -> None:
    async def test(world: World) -> None:
        pending = PendingMarkers(ProducerIdentity(8, 4), committed, 6, {T0, ("t", LANES)}, lambda: None)
        asked = request_of([(one, at) for one in (pending, world.pending) for at in sorted(one.remaining)])
        assert [
            (one.producer_id, one.producer_epoch, one.transaction_result, one.coordinator_epoch, partitions_of(one))
            for one in asked.markers
        ] == [(8, 4, committed, 6, [("t", [0, LANES])]), (7, 0, True, 1, [("t", [0])])]

    in_world(Leader(), test)


def partitions_of(marker: WritableTxnMarker) -> list[tuple[str, list[int]]]:
    return [(topic.name, topic.partition_indexes) for topic in marker.topics]


def test_a_topic_that_holds_no_markers_needs_none() -> None:
    """Its messages are of a format without transactions."""

    async def test(world: World) -> None:
        world.markers.send(world.pending)
        await world.pass_time(1)
        assert world.done == [None]
        world.pending.written(T0)
        assert world.done == [None], "it is told once"

    in_world(Leader(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT), test)


def test_a_thousand_partitions_go_in_one_request() -> None:
    async def test(world: World) -> None:
        partitions = {("t", LANES * index) for index in range(PARTITIONS_MAX + 1)}
        world.metadata.leaders = dict.fromkeys(partitions, LEADER)
        world.pending.remaining = set(partitions)
        world.markers.send(world.pending)
        await world.pass_time(1)
        sizes = [len(topic.partition_indexes) for one in world.leader.requests for topic in one.markers[0].topics]
        assert (world.done, sizes) == ([None], [PARTITIONS_MAX, 1])

    in_world(Leader(), test)


def test_a_lane_has_one_request_under_way() -> None:
    """So a partition has its markers in the order in which they were sent."""

    async def test(world: World) -> None:
        later = PendingMarkers(ProducerIdentity(7, 1), False, 1, {T0}, lambda: world.done.append(None))
        over = PendingMarkers(ProducerIdentity(7, 2), False, 1, {T0}, lambda: None)
        world.leader.held = asyncio.Event()
        for pending in (world.pending, later, over):
            world.markers.send(pending)
            await world.pass_time(1)
        over.over = True
        assert len(world.leader.requests) == 1 and world.done == []
        world.leader.held.set()
        await world.pass_time(1)
        epochs = [[marker.producer_epoch for marker in one.markers] for one in world.leader.requests]
        assert (epochs, world.done) == ([[0], [1]], [None, None])

    in_world(Leader(), test)


def test_nothing_is_sent_for_what_is_over_or_after_the_end() -> None:
    async def test(world: World) -> None:
        world.pending.over = True
        world.markers.send(world.pending)
        await world.pass_time(1)
        world.pending.over = False
        world.markers.send(world.pending)
        await world.pass_time(1)
        world.markers.close()
        world.markers.send(world.pending)
        await world.pass_time(10 * RETRY_BACKOFF_MS)
        assert len(world.leader.requests) == 1 and world.done == []

    in_world(Leader(ErrorCode.NOT_LEADER_OR_FOLLOWER), test)


def test_markers_that_wait_together_go_together_by_lane() -> None:
    async def test(world: World) -> None:
        partitions = {("t", index) for index in range(2 * LANES)}
        world.metadata.leaders = dict.fromkeys(partitions, LEADER)
        world.pending.remaining = set(partitions)
        world.markers.send(world.pending)
        await world.pass_time(1)
        assert world.done == [None] and len(world.leader.requests) == LANES

    in_world(Leader(), test)
