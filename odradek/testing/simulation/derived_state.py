"""What a replica knows of its producers and leader epochs is what its batches say.

A broker keeps both beside the log: in memory as it appends, in snapshots and a checkpoint for the next start, and makes
them anew from these and the batches when it starts, and at each cut. What is wrong there shows late, and only if that
replica comes to lead while a producer repeats something, or while its followers' histories part. So each log is
looked at when it has been opened or cut, and again when all is at rest. Of the logs that are compacted nothing is said:
they have lost batches.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from odradek.broker.log.errors import StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.log.producer_entry import BATCHES_REMEMBERED, ProducerEntry
from odradek.protocol.control_records import decode_end_txn_marker
from odradek.protocol.record_batch import BatchHeader, batches
from odradek.protocol.records import decode_records
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.history import History
from odradek.testing.simulation.inspection import bytes_of

EXPIRES_MS = 86_400_000
"""`producer.id.expiration.ms`: one whose last batch is so old, by a clock that may be wrong, need not be known."""


@dataclass
class Told:
    """What batches tell of a producer."""

    epoch: int = -1
    coordinator_epoch: int = -1
    opened: int = -1
    """Offset at which its open transaction begins; -1 when none is open."""
    timestamp_ms: int = -1
    latest: deque[tuple[int, int, int, int]] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))
    """First and last sequence, first and last offset of the last batches of the epoch."""

    def take(self, header: BatchHeader, data: bytes, position: int) -> None:
        """Take in its next batch."""
        if header.producer_epoch != self.epoch:
            self.epoch = header.producer_epoch
            self.latest.clear()
        self.timestamp_ms = header.max_timestamp
        if not header.is_control:
            self.latest.append((header.base_sequence, header.last_sequence, header.base_offset, header.next_offset - 1))
            if header.is_transactional and self.opened < 0:
                self.opened = header.base_offset
            return
        columns = decode_records(data, position)
        marker = decode_end_txn_marker(columns.keys[0], columns.values[0]) if columns.keys else None
        if marker is not None:
            self.opened, self.coordinator_epoch = -1, marker.coordinator_epoch


class DerivedState:
    """Watches the logs of one cluster's brokers."""

    def __init__(self, cluster: EmbeddedCluster, history: History) -> None:
        self._cluster, self._history = cluster, history
        self._seen: dict[tuple[int, str, int], tuple[Log, int]] = {}
        """Each log as it was looked at last, and how often it had been cut."""

    def look(self, *, at_all: bool = False) -> None:
        """Look at logs that were opened or cut since the last look, or at all of them."""
        for broker in self._cluster.brokers:
            if not broker.running or broker.broker_id in self._history.rotten:
                continue
            for where, partition in broker.server.services.replicas.partitions.items():
                log = partition.log
                now = (log, log.history_changes)
                if partition.offline or (self._seen.get((broker.broker_id, *where)) == now and not at_all):
                    continue
                self._seen[broker.broker_id, *where] = now
                if not log.config.compacts and (wrong := self._wrong(broker, log)) is not None:
                    self._history.violated(f"{broker.host}: {partition}: {wrong}")

    def _wrong(self, broker: EmbeddedBroker, log: Log) -> str | None:
        try:
            data = bytes_of(log, log.log_start_offset, log.log_end_offset)
        except (OSError, StorageFailure):  # its disk has failed, and perhaps it does not know it yet
            return None
        headers = list(batches(data))
        told: dict[int, Told] = {}
        for position, header in headers:
            if header.producer_id >= 0:
                told.setdefault(header.producer_id, Told()).take(header, data, position)
        now_ms = broker.clock.now_ms()
        epochs = _wrong_epochs(log, [header for _, header in headers])
        wrong = [*epochs, *_wrong_producers(log, told, now_ms)]
        return wrong[0] if wrong else None


def _wrong_epochs(log: Log, headers: list[BatchHeader]) -> Iterator[str]:
    """Tell of batches that are of another epoch than is known, and of epochs that begin where no batch is.

    An epoch may begin with the batch in which the log begins: a new follower copies that whole (KAFKA-6975).
    """
    entries, start = log.epochs.entries(), log.log_start_offset
    begins = {header.base_offset for header in headers} | {start, log.log_end_offset}
    for header in headers:
        if header.base_offset < start:
            continue
        known = next((epoch for epoch, begin in reversed(entries) if begin <= header.base_offset), -1)
        if known != header.leader_epoch:
            yield f"offset {header.base_offset} is of leader epoch {header.leader_epoch}, {known} is known: {entries}"
    for epoch, begin in entries:
        if begin not in begins:
            yield f"no batch begins at {begin}, as leader epoch {epoch} does"


def _wrong_producers(log: Log, told: dict[int, Told], now_ms: int) -> Iterator[str]:
    """Tell of producers that are known otherwise than by the batches that are left of them."""
    start, known = log.log_start_offset, log.producers.producers
    for producer_id, one in told.items():
        entry = known.get(producer_id)
        if entry is None:
            if now_ms - one.timestamp_ms < EXPIRES_MS:
                yield f"producer {producer_id} is not known: {one}"
        elif not _agree(entry, one, start):
            yield f"producer {producer_id}: {_text(entry)} is known, its batches tell {one}"
    for producer_id, entry in known.items():
        if producer_id not in told and any(batch.last_offset >= start for batch in entry.batches):
            yield f"producer {producer_id}: {_text(entry)} is known, and has no batch"


def _agree(entry: ProducerEntry, one: Told, start: int) -> bool:
    """Compare what is known with what the batches from `start` on tell, before which a transaction may have begun."""
    known, latest = [tuple(batch[:4]) for batch in entry.batches], list(one.latest)
    count = min(len(known), len(latest))  # a snapshot has the newest alone
    began = entry.transaction_first_offset
    return (
        entry.epoch == one.epoch
        and (began == one.opened or (one.opened >= 0 and 0 <= began < start))
        and one.coordinator_epoch in (-1, entry.coordinator_epoch)
        and bool(known) == bool(latest)
        and known[len(known) - count :] == latest[len(latest) - count :]
    )


def _text(entry: ProducerEntry) -> str:
    return str({name: getattr(entry, name) for name in entry.__slots__})
