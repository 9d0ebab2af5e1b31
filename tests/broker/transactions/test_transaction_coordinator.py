"""The coordinator on virtual time, over a log in memory that answers when the test says so."""

import asyncio
from collections.abc import Callable

import pytest

from odradek.broker.coordination.owned_partitions import LOAD_RETRY_MS
from odradek.broker.settings.coordinator_settings import TransactionSettings
from odradek.broker.transactions.transaction_coordinator import (
    RETRY_BACKOFF_MS,
    TransactionCoordinator,
)
from odradek.broker.transactions.transaction_markers import PendingMarkers
from odradek.broker.transactions.transaction_records import key_of
from odradek.broker.transactions.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    ProducerIdentity,
    TxnState,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import encode_batch
from odradek.testing.virtual_clock import VirtualClock, run_virtual

PARTITIONS, EPOCH = 4, 5
REQUEST_TIMEOUT_MS = 30_000
T0, T1 = ("t", 0), ("t", 1)
NONE = ErrorCode.NONE
CONFIG = TransactionSettings(transactional_id_expiration_ms=100_000)


class Log:
    """`__transaction_state` in memory. While `held`, an append is answered by `settle`."""

    def __init__(self) -> None:
        self.batches: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
        self.held = False
        self.error = NONE
        self.waiting: list[Callable[[ErrorCode], None]] = []
        self.timeouts_ms: list[int] = []

    def append(self, partition: int, records: bytearray, timeout_ms: int, done: Callable[[ErrorCode], None]) -> None:
        self.timeouts_ms.append(timeout_ms)
        if self.held:
            self.waiting.append(done)
        elif self.error is not NONE:
            done(self.error)
            return
        batch = bytearray(records)
        batch[:8] = len(self.batches[partition]).to_bytes(8, "big")
        self.batches[partition].append(bytes(batch))
        if not self.held:
            done(NONE)

    def append_alone(self, partition: int, records: bytearray) -> ErrorCode:
        raise AssertionError("each state has to be in all replicas in sync")

    def settle(self, error: ErrorCode = NONE) -> None:
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(error)

    def read(self, partition: int, offset: int, max_bytes: int) -> tuple[bytes, int]:
        batches = self.batches[partition]
        return b"".join(batches[offset : offset + 1]), len(batches)

    def log_start_offset(self, partition: int) -> int:
        return 0


class World:
    def __init__(self, clock: VirtualClock, log: Log | None = None) -> None:
        self.clock = clock
        self.log = Log() if log is None else log
        self.pending_markers: list[PendingMarkers] = []
        self.coordinator = TransactionCoordinator(clock, self.log, CONFIG, lambda: PARTITIONS, self, REQUEST_TIMEOUT_MS)
        self.coordinator.start()

    def send(self, pending: PendingMarkers) -> None:
        self.pending_markers.append(pending)

    async def elect(self, epoch: int = EPOCH) -> None:
        for partition in range(PARTITIONS):
            self.coordinator.on_elected(partition, epoch)
        await self.pass_time(1)

    async def pass_time(self, duration_ms: float) -> None:
        passed = asyncio.Event()
        self.clock.call_later(duration_ms, passed.set)
        await passed.wait()

    def begin(
        self, expected: ProducerIdentity | None = None, timeout_ms: int = 60_000
    ) -> tuple[ErrorCode, ProducerIdentity]:
        [answer] = self.begin_later(expected, timeout_ms)
        return answer

    def begin_later(
        self, expected: ProducerIdentity | None = None, timeout_ms: int = 60_000
    ) -> list[tuple[ErrorCode, ProducerIdentity]]:
        answers: list[tuple[ErrorCode, ProducerIdentity]] = []
        self.coordinator.initialize("id", timeout_ms, expected, 7, lambda *answer: answers.append(answer))
        return answers

    def add(
        self, producer: ProducerIdentity, *partitions: tuple[str, int], connection: int | None = None
    ) -> list[ErrorCode]:
        answers: list[ErrorCode] = []
        asked = partitions or (T0,)
        self.coordinator.add_partitions("id", producer, asked, answers.append, connection=connection)
        return answers

    def end(self, producer: ProducerIdentity, *, commit: bool = True, connection: int = 1) -> list[ErrorCode]:
        answers: list[ErrorCode] = []
        self.coordinator.end("id", producer, commit=commit, connection=connection, answer=answers.append)
        return answers

    @property
    def state(self) -> TxnState:
        state = self.coordinator.describe("id")
        assert isinstance(state, TxnState), state
        return state

    def write_markers(self) -> None:
        pending_markers, self.pending_markers = self.pending_markers, []
        for pending in pending_markers:
            for partition in list(pending.remaining):
                pending.written(partition)


def in_world(test: Callable[[World], object]) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        await world.elect()
        await test(world)  # type: ignore[misc]
        world.coordinator.stop()

    run_virtual(main)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_from_beginning_to_end(commit: bool) -> None:
    async def scenario(world: World) -> None:
        error, producer = world.begin()
        assert (error, producer, world.state.status) == (NONE, ProducerIdentity(7, 0), EMPTY)
        assert world.add(producer, T0) == [NONE] and world.add(producer, T1) == [NONE]
        assert world.state.status is ONGOING
        assert world.end(producer, commit=commit) == [NONE]
        assert world.state.status is (PREPARE_COMMIT if commit else PREPARE_ABORT)
        [pending] = world.pending_markers
        assert (pending.producer, pending.committed, pending.coordinator_epoch) == (producer, commit, EPOCH)
        assert pending.remaining == {T0, T1}
        assert world.end(producer, commit=commit) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        world.write_markers()
        assert world.state.status is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
        assert world.end(producer, commit=commit) == [NONE]
        assert world.end(producer, commit=not commit) == [ErrorCode.INVALID_TXN_STATE]

    in_world(scenario)


def test_nobody_hears_of_what_is_not_in_the_log() -> None:
    async def scenario(world: World) -> None:
        world.log.held = True
        begun = world.begin_later()
        assert begun == [] and world.begin()[0] is ErrorCode.CONCURRENT_TRANSACTIONS
        world.log.settle()
        [(_, producer)] = begun
        added = world.add(producer)
        assert added == [] and world.state.status is EMPTY
        world.log.settle()
        assert added == [NONE] and world.state.status is ONGOING
        ended = world.end(producer)
        assert ended == [] and world.pending_markers == []
        world.log.settle()
        assert ended == [NONE] and len(world.pending_markers) == 1

    in_world(scenario)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_cannot_be_written_is_not_so(error: ErrorCode, told: ErrorCode) -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.log.error = error
        assert world.add(producer) == [told] and world.state.status is EMPTY
        world.log.error = NONE
        assert world.add(producer) == [NONE]
        world.log.error = error
        assert world.end(producer) == [told] and world.state.status is ONGOING and world.pending_markers == []
        world.log.error = NONE
        assert world.end(producer) == [NONE]

    in_world(scenario)


def test_a_successor_aborts_what_is_open_and_fences() -> None:
    async def scenario(world: World) -> None:
        _, former = world.begin()
        world.add(former)
        assert world.begin()[0] is ErrorCode.CONCURRENT_TRANSACTIONS
        [pending] = world.pending_markers
        assert (pending.producer, pending.committed) == (ProducerIdentity(7, 1), False)
        assert world.end(former) == [ErrorCode.PRODUCER_FENCED]
        assert world.begin()[0] is ErrorCode.CONCURRENT_TRANSACTIONS
        world.write_markers()
        assert world.begin() == (NONE, ProducerIdentity(7, 2))

    in_world(scenario)


def test_one_that_takes_too_long_is_aborted() -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin(timeout_ms=15_000)
        world.add(producer)
        await world.pass_time(14_000)
        assert world.state.status is ONGOING
        await world.pass_time(10_000)
        assert world.state.status is PREPARE_ABORT and world.add(producer) == [ErrorCode.PRODUCER_FENCED]

    in_world(scenario)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_that_nobody_may_have(timeout_ms: int) -> None:
    async def scenario(world: World) -> None:
        assert world.begin(timeout_ms=timeout_ms)[0] is ErrorCode.INVALID_TRANSACTION_TIMEOUT

    in_world(scenario)


def test_a_timeout_that_nobody_may_have_is_refused_before_its_coordinator_is_sought() -> None:
    async def scenario(world: World) -> None:
        world.coordinator.stop()
        assert world.begin(timeout_ms=900_001)[0] is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert world.begin()[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE

    in_world(scenario)


def test_a_partition_that_has_its_marker_is_shown_no_more() -> None:
    """Who looks for what holds a transaction up is shown the partitions that do."""

    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.add(producer, T0, T1)
        world.end(producer)
        assert world.state.partitions == {T0, T1}
        world.pending_markers[0].written(T0)
        assert world.state.partitions == {T1}
        world.write_markers()
        assert (world.state.status, world.state.partitions) == (COMPLETE_COMMIT, frozenset())

    in_world(scenario)


def test_another_broker_goes_on_where_this_one_was() -> None:
    """Decided transactions are finished by whoever loads the log; the old one's markers are not sent again."""

    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.add(producer, T0, T1)
        world.end(producer)
        [old] = world.pending_markers
        world.coordinator.on_resigned(world.coordinator.partition_for("id"))
        assert old.over
        assert world.end(producer) == [ErrorCode.NOT_COORDINATOR]
        for partition in (T0, T1):
            old.written(partition)
        later = World(world.clock, world.log)
        await later.elect(EPOCH + 1)
        [pending] = later.pending_markers
        assert (pending.producer, pending.committed, pending.remaining) == (producer, True, {T0, T1})
        assert pending.coordinator_epoch == EPOCH + 1
        later.write_markers()
        assert later.state.status is COMPLETE_COMMIT
        later.coordinator.stop()

    in_world(scenario)


def test_decisions_of_a_batch_whose_checksum_is_wrong_are_not_believed() -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.add(producer, T0)
        partition = world.coordinator.partition_for("id")
        world.coordinator.on_resigned(partition)
        whole = world.log.batches[partition][-1]
        world.log.batches[partition][-1] = whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:]
        await world.elect(EPOCH + 1)
        assert world.begin()[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        world.log.batches[partition][-1] = whole
        await world.pass_time(LOAD_RETRY_MS)
        assert world.state.producer == producer

    in_world(scenario)


def test_while_it_loads_clients_wait() -> None:
    async def scenario(world: World) -> None:
        partition = world.coordinator.partition_for("id")
        world.coordinator.on_resigned(partition)
        world.coordinator.on_elected(partition, EPOCH + 1)
        assert world.begin()[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert world.coordinator.list_transactions()[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await world.pass_time(1)
        assert world.begin()[0] is NONE
        assert [name for name, _ in world.coordinator.list_transactions()[1]] == ["id"]

    in_world(scenario)


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_the_end_of_a_transaction_is_written_again_until_it_is(error: ErrorCode) -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.add(producer)
        world.end(producer)
        world.log.error = error
        world.write_markers()
        assert world.state.status is PREPARE_COMMIT
        world.log.error = NONE
        await world.pass_time(RETRY_BACKOFF_MS + 1)
        assert world.state.status is COMPLETE_COMMIT

    in_world(scenario)


def test_an_answer_of_the_log_that_comes_after_the_partition_has_moved_changes_nothing() -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.log.held = True
        added = world.add(producer)
        partition = world.coordinator.partition_for("id")
        world.coordinator.on_resigned(partition)
        world.log.settle()
        assert added == [ErrorCode.NOT_COORDINATOR]

    in_world(scenario)


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    async def scenario(world: World) -> None:
        world.begin()
        await world.pass_time(CONFIG.transaction_remove_expired_transaction_cleanup_interval_ms + 1)
        assert world.coordinator.describe("id") is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        later = World(world.clock, world.log)
        await later.elect()
        assert later.coordinator.list_transactions() == (NONE, [])
        later.coordinator.stop()
        world.coordinator.on_resigned(world.coordinator.partition_for("id"))

    in_world(scenario)


@pytest.mark.parametrize("error", [NONE, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_while_an_id_is_being_forgotten_everybody_comes_again(error: ErrorCode) -> None:
    """Who was let in then would be answered, and forgotten when its tombstone is in the log."""

    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.log.held = True
        await world.pass_time(CONFIG.transaction_remove_expired_transaction_cleanup_interval_ms + 1)
        assert len(world.log.waiting) == 1
        assert world.begin()[0] is ErrorCode.CONCURRENT_TRANSACTIONS
        assert world.add(producer) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        world.log.settle(error)
        world.log.held = False
        assert world.add(producer) == [NONE if error else ErrorCode.INVALID_PRODUCER_ID_MAPPING]

    in_world(scenario)


@pytest.mark.parametrize("transactional_id", ["", "x" * 40_000], ids=["none", "longer than a record holds"])
def test_an_id_that_cannot_be_written_is_refused(transactional_id: str) -> None:
    async def scenario(world: World) -> None:
        answers: list[ErrorCode] = []
        world.coordinator.initialize(transactional_id, 1000, None, 7, lambda error, producer: answers.append(error))
        assert answers == [ErrorCode.INVALID_REQUEST]
        assert world.coordinator.describe(transactional_id) is ErrorCode.INVALID_REQUEST

    in_world(scenario)


@pytest.mark.parametrize(("key", "value"), [(b"\0\0garbage", b"x"), (key_of("id"), b"\0\0"), (None, b"x")])
def test_nonsense_in_the_log_is_passed_over_and_the_rest_served(
    caplog: pytest.LogCaptureFixture, key: bytes | None, value: bytes
) -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        partition = world.coordinator.partition_for("id")
        world.log.append(partition, encode_batch(0, [0], [key], [value]), 0, lambda error: None)
        successor = World(world.clock, world.log)
        await successor.elect(EPOCH + 1)
        assert successor.state.producer == producer
        [said] = [one.getMessage() for one in caplog.records if "are invalid and ignored" in one.getMessage()]
        assert said.startswith(f"__transaction_state-{partition}: 1 records")
        successor.coordinator.stop()

    in_world(scenario)


def test_a_resignation_looks_at_the_ids_of_its_partition_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        coordinator = world.coordinator
        names = [f"id-{number}" for number in range(40)]
        for name in names:
            coordinator.initialize(name, 1000, None, 7, lambda *answer: None)
        left = {name for name in names if coordinator.partition_for(name) != 1}
        assert 0 < len(left) < len(names)
        with monkeypatch.context() as patch:
            patch.setattr(coordinator, "partition_for", None)  # to hash them all would hold up the loop
            coordinator.on_resigned(1)
        assert {name for name, _ in coordinator.list_transactions()[1]} == left
        coordinator.on_elected(1, EPOCH + 1)
        await world.pass_time(1)
        assert {name for name, _ in coordinator.list_transactions()[1]} == set(names)

    in_world(scenario)
