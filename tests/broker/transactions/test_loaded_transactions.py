"""What a coordinator finds in the log of a former leader counts when every replica in sync has it, and not before."""

import pytest

from odradek.broker.transactions.transaction_coordinator import RETRY_BACKOFF_MS
from odradek.broker.transactions.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    ProducerIdentity,
)
from odradek.protocol.errors import ErrorCode
from tests.broker.transactions.test_transaction_coordinator import EPOCH, NONE, T0, T1, World, in_world


async def loaded_decision(world: World, commit: bool) -> tuple[World, ProducerIdentity]:
    """A coordinator that has loaded a decision of the former one, with its producer; the log holds what is appended."""
    _, producer = world.begin()
    world.add(producer, T0, T1)
    world.log.held = True
    assert world.end(producer, commit=commit) == []
    world.coordinator.on_resigned(world.coordinator.partition_for("id"))
    world.log.settle(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    later = World(world.clock, world.log)
    await later.elect(EPOCH + 1)
    return later, producer


def test_partitions_of_a_loaded_transaction_are_answered_when_every_replica_has_them() -> None:
    """The former coordinator had written them, and not all replicas in sync had them: the next one found them in its
    log and answered. A third was elected who had never had them, and to which the transaction was over: what was
    written in it stayed open for ever, and its commit was confirmed."""

    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.log.held = True
        assert world.add(producer, T0) == []
        later = World(world.clock, world.log)
        await later.elect(EPOCH + 1)
        assert later.state.status is ONGOING
        answers = later.add(producer, T0)
        assert answers == []
        world.log.settle()
        assert answers == [NONE]
        assert later.add(producer, T0) == [NONE]
        later.coordinator.stop()

    in_world(scenario)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
def test_a_loaded_decision_gets_its_markers_when_every_replica_has_it(commit: bool, error: ErrorCode) -> None:
    """The former coordinator had written it, and not all replicas in sync had it: the next one found it in its log and
    sent markers. Before all were there a third was elected who had never had it, and aborted when the transaction was
    open for too long: a part of it was committed, a part aborted."""

    async def scenario(world: World) -> None:
        later, producer = await loaded_decision(world, commit)
        for _ in range(2):
            assert later.state.status is (PREPARE_COMMIT if commit else PREPARE_ABORT) and later.pending_markers == []
            assert later.end(producer, commit=commit) == [ErrorCode.CONCURRENT_TRANSACTIONS]
            assert later.begin()[0] is ErrorCode.CONCURRENT_TRANSACTIONS
            assert len(world.log.waiting) == 1, "the decision is on its way"
            world.log.settle(error)
            await later.pass_time(RETRY_BACKOFF_MS + 1)
        assert later.pending_markers == []
        world.log.settle()
        [pending] = later.pending_markers
        assert (pending.producer, pending.committed, pending.remaining) == (producer, commit, {T0, T1})
        assert pending.coordinator_epoch == EPOCH + 1
        world.log.held = False
        later.write_markers()
        assert later.state.status is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
        await later.pass_time(RETRY_BACKOFF_MS + 1)
        assert later.state.status is (COMPLETE_COMMIT if commit else COMPLETE_ABORT) and later.pending_markers == []
        later.coordinator.stop()

    in_world(scenario)


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("answers", [[NONE], [ErrorCode.NOT_LEADER_OR_FOLLOWER], [ErrorCode.NOT_ENOUGH_REPLICAS, NONE]])
def test_a_loaded_decision_is_left_to_the_next_coordinator(closes: bool, answers: list[ErrorCode]) -> None:
    """This one closes, or is deposed, while the decision is on its way, or when it is to be tried again."""

    async def scenario(world: World) -> None:
        later, _ = await loaded_decision(world, commit=True)
        for error in answers[:-1]:
            world.log.settle(error)
        if closes:
            later.coordinator.stop()
        else:
            later.coordinator.on_resigned(later.coordinator.partition_for("id"))
        world.log.settle(answers[-1])
        await later.pass_time(RETRY_BACKOFF_MS * 2)
        assert (later.pending_markers, world.log.waiting) == ([], [])
        later.coordinator.stop()

    in_world(scenario)


def test_a_coordinator_that_closes_while_it_loads_writes_nothing() -> None:
    async def scenario(world: World) -> None:
        later, _ = await loaded_decision(world, commit=True)
        world.log.settle()
        closed = World(world.clock, world.log)
        closed.coordinator.on_elected(closed.coordinator.partition_for("id"), EPOCH + 2)
        closed.coordinator.stop()
        await closed.pass_time(RETRY_BACKOFF_MS * 2)
        assert (closed.pending_markers, world.log.waiting) == ([], [])
        later.coordinator.stop()

    in_world(scenario)
