"""Workload of the logs: by chance, one operation after the other, each noted in the partition's history first."""

from collections.abc import Callable

from odradek.broker.log.batches import Origin
from odradek.broker.log.errors import StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.log.retention import delete_old_segments
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import set_base_offset, set_leader_epoch
from odradek.protocol.records import encode_batch
from odradek.protocol.topic_names import PartitionKey
from odradek.testing.crashes.history import History
from odradek.testing.crashes.machine import TOPIC_IDS, Machine, Violation

KEYS = [b"a", b"b", b"c", b"d"]
VALUE_BYTES = (8, 8, 8, 40, 150)
"""Often the same, so that a batch fits exactly where another one was."""
PRODUCERS = (-1, -1, 1, 2)
TRANSACTIONAL = 9


class Workload:
    """Acts on a machine until the machine stops. `refused`: what a failing disk refused, which is no violation."""

    def __init__(self, machine: Machine, *, deletes: bool = True) -> None:
        self._machine = machine
        self._random = machine.random
        self.half_done = False
        """True if a truncation failed, or an aborted transaction could not be noted as such: then a full disk is like
        one that fails."""
        self._epoch = 0
        self._keys: list[PartitionKey] = [("events", 0), ("table", 0), ("short", 0)]
        self._actions: list[tuple[int, Callable[[PartitionKey, Log, History], None]]] = [
            (30, self._append),
            (16, self._append_fetched),
            (8, self._transact),
            (5, self._roll),
            (4, self._flush),
            (4, self._flush_in_background),
            (8, self._replicate),
            (6, self._truncate),
            (1, self._start_over),
            (4, self._delete_records),
            (5, self._elect),
            (2 if deletes else 0, self._delete_partition),
            (4, self._checkpoint_starts),
        ]

    def act(self) -> None:
        """Carry out one operation. Raises MachineStopped, Violation."""
        machine = self._machine
        if self._random.random() < 0.35:
            if self._random.random() < 0.6:
                machine.background.step()
            else:
                machine.clock.advance(self._random.choice((0, 0, 1, 15, 60)))
            return
        key = self._random.choice(self._keys)
        log = machine.log(key) or self._create(key)
        if log is None:
            return
        weights, actions = zip(*self._actions, strict=True)
        (action,) = self._random.choices(actions, weights)
        history = machine.histories[key]
        machine.note(f"{action.__name__[1:]} {log} rp={log.recovery_point} hw={history.high_watermark}")
        try:
            action(key, log, history)
        except StorageFailure:
            if not machine.failed:
                raise
            self.half_done |= action in (self._truncate, self._start_over, self._transact)
            return
        if not log.closed:
            self._check_running(log, history)

    def _create(self, key: PartitionKey) -> Log | None:
        machine = self._machine
        assert machine.logs is not None
        machine.note(f"create {key}")
        machine.histories.setdefault(key, History(key[0], "compact" in machine.configs[key[0]].cleanup_policy))
        try:
            log = machine.logs.get_or_create(*key, TOPIC_IDS[key[0]], is_new=not machine.failed)
            machine.see_logs()
            return log
        except KafkaError as refused:
            machine.note(f"refused: {refused}")
            return None

    @staticmethod
    def _check_running(log: Log, history: History) -> None:
        if log.log_end_offset != history.end:
            raise Violation(f"{log} should end at {history.end}")
        history.start = max(history.start, log.log_start_offset)
        if log.log_start_offset < history.start:
            raise Violation(f"{log} should begin at {history.start}")
        history.highest_start = max(history.highest_start, history.start)
        history.acknowledged_end = history.end

    # appending

    def _records(self, history: History) -> tuple[list[int], list[bytes | None], list[bytes | None]]:
        count = self._random.choice((1, 1, 2, 3))
        now_ms = self._machine.clock.now_ms()
        times = [now_ms + self._random.choice((0, 0, -5, 5)) for _ in range(count)]
        keys: list[bytes | None] = [self._random.choice(KEYS) if history.compacts else None for _ in range(count)]
        size = self._random.choice(VALUE_BYTES)
        values: list[bytes | None] = [self._random.randbytes(size) for _ in range(count)]
        if history.compacts and self._random.random() < 0.15:
            values[0] = None
        return times, keys, values

    def _batch(
        self, log: Log, history: History, base_offset: int = 0, epoch: int = -1, *, transactional: bool = False
    ) -> bytearray:
        times, keys, values = self._records(history)
        producer_id = TRANSACTIONAL if transactional else self._random.choice(PRODUCERS)
        producer = log.producers.producers.get(producer_id)
        producer_epoch = producer.epoch if producer is not None else 0
        sequence = producer.last_sequence + 1 if producer is not None else 0
        if producer_id >= 0 and not transactional and self._random.random() < 0.05:
            producer_epoch, sequence = producer_epoch + 1, 0
        return encode_batch(
            base_offset,
            times,
            keys,
            values,
            codec=self._random.choice((0, 0, 0, 1, 4)),
            producer_id=producer_id,
            producer_epoch=producer_epoch if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
            partition_leader_epoch=epoch,
            transactional=transactional,
        )

    def _append(self, key: PartitionKey, log: Log, history: History) -> None:
        self._append_as_leader(log, history, self._batch(log, history), Origin.CLIENT)

    def _append_as_leader(self, log: Log, history: History, batch: bytearray, origin: Origin) -> None:
        epoch = max(self._epoch, log.epochs.latest, 0)
        written = bytearray(batch)
        set_base_offset(written, 0, log.log_end_offset)
        set_leader_epoch(written, 0, epoch)
        self._written(log, history, [written], lambda: log.append_as_leader(batch, epoch, origin=origin))

    def _append_fetched(self, key: PartitionKey, log: Log, history: History) -> None:
        epoch = max(self._epoch, log.epochs.latest, 0)
        offset, batches = log.log_end_offset, []
        for _ in range(self._random.choice((1, 2, 3))):
            times, keys, values = self._records(history)
            batches.append(encode_batch(offset, times, keys, values, partition_leader_epoch=epoch))
            offset += len(times)
        cut_off = bytes(batches[0][: self._random.randint(0, len(batches[0]) - 1)])
        self._written(log, history, batches, lambda: log.append_as_follower(b"".join(batches) + cut_off))

    def _written(self, log: Log, history: History, batches: list[bytearray], append: Callable[[], object]) -> None:
        """The history has them before the disk does, and forgets them when they are refused."""
        entries, end = list(history.entries), history.end
        history.wrote(list(batches))
        try:
            append()
        except KafkaError as refused:
            full = refused.code == ErrorCode.KAFKA_STORAGE_ERROR and not isinstance(refused, StorageFailure)
            if not full or self._machine.files.fault is None:
                raise
            self._machine.note(f"refused: {refused}")
            taken = [one for one in history.entries[len(entries) :] if one.last_offset < log.log_end_offset]
            history.entries = entries + taken  # a follower may have written some, each into a segment of its own
            history.end = taken[-1].last_offset + 1 if taken else end

    def _transact(self, key: PartitionKey, log: Log, history: History) -> None:
        """Write some data of a transaction, or its end."""
        producer = log.producers.producers.get(TRANSACTIONAL)
        if producer is None or producer.transaction_first_offset < 0 or self._random.random() < 0.5:
            batch = self._batch(log, history, transactional=True)
            self._append_as_leader(log, history, batch, Origin.CLIENT)
            return
        marker = EndTxnMarker(self._random.random() < 0.5, max(producer.coordinator_epoch, 0))
        batch = encode_end_txn_marker(marker, self._machine.clock.now_ms(), TRANSACTIONAL, producer.epoch)
        self._append_as_leader(log, history, bytearray(batch), Origin.COORDINATOR)

    # to the disk

    def _roll(self, key: PartitionKey, log: Log, history: History) -> None:
        try:
            log.roll()
        except OSError as error:
            if self._machine.files.fault is None:
                raise
            self._machine.note(f"refused: {error}")

    def _flush(self, key: PartitionKey, log: Log, history: History) -> None:
        log.flush()
        written = not log.epoch_file.waits_for_room and all(one.transactions.try_again() for one in log.segments)
        if log.recovery_point != log.log_end_offset and written:
            raise Violation(f"{log} was flushed, its recovery point is {log.recovery_point}")

    def _flush_in_background(self, key: PartitionKey, log: Log, history: History) -> None:
        log.flush_in_background()

    def _replicate(self, key: PartitionKey, log: Log, history: History) -> None:
        """The high watermark rises."""
        history.high_watermark = self._random.randint(history.high_watermark, log.log_end_offset)

    # taking away

    def _truncate(self, key: PartitionKey, log: Log, history: History) -> None:
        lowest = history.high_watermark if history.compacts else log.log_start_offset
        offset = max(lowest, log.log_end_offset - self._random.choice((1, 2, 4, 30)))
        history.before = [list(history.entries)]
        history.certain_end = min(log.recovery_point, max([
            log.log_start_offset, *(one.last_offset + 1 for one in history.entries if one.last_offset < offset)
        ]))  # fmt: skip
        begins_anew = offset < log.log_start_offset
        if begins_anew or self._would_cut_into(history, offset, log.log_start_offset):
            history.certain_end, history.target = 0, offset
        self._machine.note(f"  to {offset}")
        log.truncate_to(offset)
        if log.log_end_offset > offset:
            raise Violation(f"{log} was truncated to {offset}")
        history.cut_to(log.log_end_offset)
        if begins_anew:
            history.begin_anew(log.log_end_offset)
        history.before, history.target = [], 0
        self._epoch += 1

    @staticmethod
    def _would_cut_into(history: History, offset: int, start: int) -> bool:
        """Tell whether a batch that holds the offset begins before the log does: then nothing is left."""
        return any(one.base_offset < start <= offset <= one.last_offset for one in history.entries)

    def _start_over(self, key: PartitionKey, log: Log, history: History) -> None:
        offset = self._random.choice((log.log_end_offset + 10, log.log_start_offset, log.log_start_offset // 2))
        history.before = [list(history.entries)]
        history.certain_end = 0
        history.target = offset
        history.certain_start = min(history.certain_start, offset)
        self._machine.note(f"  at {offset}")
        log.truncate_fully_and_start_at(offset)
        history.begin_anew(offset)
        history.before, history.target = [], 0
        self._epoch += 1

    def _delete_records(self, key: PartitionKey, log: Log, history: History) -> None:
        offset = self._random.randint(log.log_start_offset, max(history.high_watermark, log.log_start_offset))
        log.advance_log_start_offset(offset)
        if self._random.random() < 0.5:
            delete_old_segments(log, history.high_watermark)

    def _checkpoint_starts(self, key: PartitionKey, log: Log, history: History) -> None:
        machine = self._machine
        assert machine.logs is not None
        starts = {one: machine.logs.get(*one) for one in self._keys}
        machine.logs.checkpoints.write_log_starts()
        machine.background.drain()
        for one, other in starts.items():
            if other is not None and not other.closed and machine.files.fault is None:
                machine.histories[one].certain_start = other.log_start_offset

    def _elect(self, key: PartitionKey, log: Log, history: History) -> None:
        """Make this broker the leader from now on."""
        self._epoch = max(self._epoch, log.epochs.latest) + 1
        log.assign_epoch(self._epoch, log.log_end_offset)

    def _delete_partition(self, key: PartitionKey, log: Log, history: History) -> None:
        machine = self._machine
        assert machine.logs is not None
        fresh = machine.histories[key] = History(history.topic, history.compacts)
        fresh.former = [list(history.entries), *history.former]
        fresh.former_end = max(history.end, history.former_end)
        fresh.highest_start = history.highest_start
        machine.last_logs.pop(key, None)
        machine.logs.delete(*key)
