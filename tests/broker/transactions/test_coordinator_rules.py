"""Rules of the coordinator for what comes at an odd moment: too early, too late, or from somebody else."""

from dataclasses import replace

import pytest

from odradek.broker.transactions.transaction_coordinator import RETRY_BACKOFF_MS, TransactionCoordinator
from odradek.broker.transactions.transaction_records import key_of, value_of
from odradek.broker.transactions.transaction_state import (
    COMPLETE_COMMIT,
    EMPTY,
    NO_PRODUCER,
    ONGOING,
    PREPARE_COMMIT,
    ProducerIdentity,
    TxnState,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH
from odradek.protocol.records import encode_batch
from tests.broker.transactions.test_transaction_coordinator import (
    CONFIG,
    EPOCH,
    NONE,
    PARTITIONS,
    REQUEST_TIMEOUT_MS,
    T0,
    T1,
    World,
    in_world,
)

NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
SWEEP_MS = CONFIG.transaction_remove_expired_transaction_cleanup_interval_ms


def written(world: World) -> int:
    """Number of batches in the log."""
    return sum(map(len, world.log.batches.values()))


def test_nobody_is_served_before_the_start_or_after_the_end() -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.coordinator.stop()
        early = TransactionCoordinator(world.clock, world.log, CONFIG, lambda: PARTITIONS, world, REQUEST_TIMEOUT_MS)
        for one in (world.coordinator, early):
            assert one.list_transactions() == (NOT_AVAILABLE, [])
            assert one.describe("id") is one.verify("id", producer, T0, NONE) is one.check("id") is NOT_AVAILABLE

    in_world(scenario)


def test_a_coordinator_that_has_stopped_may_be_told_that_others_lead() -> None:
    async def scenario(world: World) -> None:
        world.begin()
        world.coordinator.stop()
        for partition in range(PARTITIONS):
            world.coordinator.on_resigned(partition)
        assert world.coordinator.check("id") is NOT_AVAILABLE

    in_world(scenario)


@pytest.mark.parametrize("timeout_ms", [1, CONFIG.transaction_max_timeout_ms])
def test_the_shortest_and_the_longest_timeout(timeout_ms: int) -> None:
    async def scenario(world: World) -> None:
        assert world.begin(timeout_ms=timeout_ms)[0] is NONE and world.state.timeout_ms == timeout_ms

    in_world(scenario)


def test_an_empty_id_is_refused_whatever_its_timeout() -> None:
    async def scenario(world: World) -> None:
        assert world.coordinator.check_beginning("", 0) is ErrorCode.INVALID_REQUEST
        assert world.coordinator.check_beginning("id", 0) is ErrorCode.INVALID_TRANSACTION_TIMEOUT

    in_world(scenario)


@pytest.mark.parametrize("timeout_ms", [15_000, 60_000])
def test_a_write_is_waited_for_as_long_as_the_transaction_may_take(timeout_ms: int) -> None:
    """What was given up would count as not written, and might be replicated after all."""

    async def scenario(world: World) -> None:
        _, producer = world.begin(timeout_ms=timeout_ms)
        world.log.timeouts_ms.clear()
        world.add(producer)
        world.end(producer)
        world.write_markers()
        assert world.log.timeouts_ms == [max(timeout_ms, REQUEST_TIMEOUT_MS)] * 3

    in_world(scenario)


@pytest.mark.parametrize("is_open", [False, True])
def test_an_id_that_moves_during_a_sweep_is_left_to_its_new_coordinator(is_open: bool) -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin(timeout_ms=15_000)
        if is_open:
            world.add(producer)
        moved = world.coordinator._transactions["id"]
        world.coordinator.on_resigned(world.coordinator.partition_for("id"))
        before = written(world)
        await world.pass_time(2 * CONFIG.transactional_id_expiration_ms)
        sweep = world.coordinator._abort_if_overdue if is_open else world.coordinator._forget_if_expired
        sweep(moved)
        assert written(world) == before

    in_world(scenario)


def test_a_producer_with_another_id_aborts_nothing() -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.add(producer)
        for named in (ProducerIdentity(producer.id + 1, producer.epoch), ProducerIdentity(1, 2**15 - 2)):
            assert world.begin(named) == (ErrorCode.PRODUCER_FENCED, NO_PRODUCER)
        assert (world.state.status, world.state.producer) == (ONGOING, producer)
        assert world.end(producer) == [NONE]

    in_world(scenario)


def test_an_id_that_was_forgotten_while_its_producer_id_was_not_asked_for_comes_again() -> None:
    async def scenario(world: World) -> None:
        answers: list[tuple[ErrorCode, ProducerIdentity]] = []
        world.coordinator.initialize("id", 1000, None, None, lambda *answer: answers.append(answer))
        assert answers == [(ErrorCode.CONCURRENT_TRANSACTIONS, NO_PRODUCER)]
        assert world.coordinator.list_transactions() == (NONE, [])

    in_world(scenario)


def test_a_producer_id_is_needed_for_a_new_id_and_where_all_epochs_are_used_up() -> None:
    async def scenario(world: World) -> None:
        needs = world.coordinator.needs_producer_id
        assert needs("id", None)
        world.begin()
        assert not needs("id", None)
        last = world.coordinator._transactions["id"]
        last.state = replace(last.state, producer=ProducerIdentity(7, 2**15 - 2))
        assert needs("id", None) and needs("id", last.state.producer) and not needs("id", ProducerIdentity(7, 0))

    in_world(scenario)


def test_a_start_that_was_not_written_is_told_no_producer() -> None:
    async def scenario(world: World) -> None:
        world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert world.begin() == (NOT_AVAILABLE, NO_PRODUCER)
        assert world.state.producer == ProducerIdentity(7, NO_PRODUCER_EPOCH)
        world.log.error = NONE
        assert world.begin() == (NONE, ProducerIdentity(7, 0))

    in_world(scenario)


def test_a_transaction_of_no_partitions_is_over_when_its_end_is_written() -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        answers: list[ErrorCode] = []
        world.coordinator.add_partitions("id", producer, [], answers.append)
        assert answers == [NONE] and world.end(producer) == [NONE]
        assert world.state.status is COMPLETE_COMMIT and world.pending_markers == []

    in_world(scenario)


def test_the_next_transaction_is_described_with_its_own_partitions() -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        for partition in (T0, T1):
            world.add(producer, partition)
            assert world.state.partitions == {partition}
            world.end(producer)
            world.write_markers()
            assert world.state.partitions == frozenset()

    in_world(scenario)


def test_what_is_loaded_and_not_decided_is_left_as_it_is() -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        before = written(world)
        world.coordinator.on_resigned(world.coordinator.partition_for("id"))
        await world.elect(EPOCH + 1)
        assert (world.state.status, written(world), world.pending_markers) == (EMPTY, before, [])
        assert world.add(producer) == [NONE]

    in_world(scenario)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_coordinator_that_has_gone_writes_no_end(stopped: bool) -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.add(producer)
        world.end(producer)
        [pending] = world.pending_markers
        world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        world.write_markers()
        assert world.state.status is PREPARE_COMMIT
        before = written(world)
        world.log.error = NONE
        if stopped:
            world.coordinator.stop()
        else:
            world.coordinator.on_resigned(world.coordinator.partition_for("id"))
        pending.done()  # a marker that was under way
        await world.pass_time(2 * RETRY_BACKOFF_MS)
        assert written(world) == before

    in_world(scenario)


def test_an_id_that_was_used_lately_is_kept() -> None:
    async def scenario(world: World) -> None:
        await world.pass_time(SWEEP_MS - CONFIG.transactional_id_expiration_ms / 2)
        _, producer = world.begin()
        await world.pass_time(CONFIG.transactional_id_expiration_ms / 2)
        assert world.state.producer == producer
        world.add(producer)
        await world.pass_time(1)
        assert world.state.status is ONGOING

    in_world(scenario)


def test_an_id_whose_partition_moves_while_it_is_being_forgotten() -> None:
    """Whoever leads the partition later finds in the log what has become of it."""

    async def scenario(world: World) -> None:
        world.begin()
        world.log.held = True
        await world.pass_time(SWEEP_MS + 1)
        assert len(world.log.waiting) == 1
        world.log.held = False
        partition = world.coordinator.partition_for("id")
        world.coordinator.on_resigned(partition)
        world.coordinator.on_elected(partition, EPOCH + 1)
        await world.pass_time(1)
        _, producer = world.begin()
        world.log.settle()
        assert world.state.producer == producer

    in_world(scenario)


def test_records_of_another_version_are_no_transactions() -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        partition = world.coordinator.partition_for("id")
        state = TxnState(ProducerIdentity(9, 0), 1000)
        unknown_status = bytearray(value_of(state))
        at = unknown_status.index(bytes([EMPTY]), 16)
        unknown_status[at] = 99
        key = bytearray(key_of("id"))
        key[1] = 1
        for bad_key, value in ((bytes(key), value_of(state)), (key_of("id"), bytes(unknown_status))):
            world.log.append(partition, encode_batch(0, [0], [bad_key], [value]), 0, lambda error: None)
        marker = encode_batch(0, [0], [key_of("id")], [value_of(state)], control=True)
        world.log.append(partition, marker, 0, lambda error: None)
        world.coordinator.on_resigned(partition)
        await world.elect(EPOCH + 1)
        assert world.state.producer == producer
        assert [name for name, _ in world.coordinator.list_transactions()[1]] == ["id"]

    in_world(scenario)
