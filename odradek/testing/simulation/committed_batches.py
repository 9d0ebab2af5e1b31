"""Batches below the high watermark: they never change, and each producer's are complete and in order.

Read by their headers, so that a whole log can be looked at again under each new leader.
"""

from dataclasses import dataclass

from odradek.protocol.control_records import decode_end_txn_marker
from odradek.protocol.record_batch import BatchHeader, batches
from odradek.protocol.records import decode_records
from odradek.testing.simulation.history import History

Where = tuple[str, int]
UNKNOWN = -2
"""Where a producer's sequence is not known: what it wrote before has been deleted."""
LARGEST_SEQUENCE = 2**31 - 1


@dataclass
class Written:
    """Latest of a producer's batches in a partition, and of the markers about it."""

    epoch: int
    sequence: int
    """Last sequence of the epoch; -1: none yet."""
    coordinator_epoch: int = -1


class CommittedBatches:
    """Batches of one cluster's partitions that are not compacted."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._checksums: dict[Where, dict[int, int]] = {}
        """By the offsets at which the batches begin."""
        self._ends: dict[Where, int] = {}
        self._written: dict[Where, dict[int, Written]] = {}

    def take(self, where: Where, data: bytes, log: object) -> list[int]:
        """Take in whole batches that `log` has below its high watermark; return the positions of those that are new."""
        new = []
        checksums = self._checksums.setdefault(where, {})
        end = self._ends.get(where, 0)
        for position, header in batches(data):
            known = checksums.get(header.base_offset)
            if known is None:
                checksums[header.base_offset] = header.crc
                new.append(position)
            elif known != header.crc:
                self._history.violated(f"{log}: another batch was committed at offset {header.base_offset}")
            if header.base_offset >= end:
                self._next(where, header, data, position, complete=header.base_offset == end)
                end = header.next_offset
        self._ends[where] = end
        return new

    def _next(self, where: Where, header: BatchHeader, data: bytes, position: int, *, complete: bool) -> None:
        producers = self._written.setdefault(where, {})
        if not complete:
            for one in producers.values():
                one.sequence = UNKNOWN
        if header.producer_id < 0:
            return
        written = producers.get(header.producer_id)
        if written is None:
            written = producers[header.producer_id] = Written(header.producer_epoch, UNKNOWN)
        what = f"{where} offset {header.base_offset}: producer {header.producer_id}"
        if header.producer_epoch < written.epoch:
            self._history.violated(f"{what} writes in epoch {header.producer_epoch}, fenced by {written.epoch}")
        elif header.producer_epoch > written.epoch:
            written.epoch = header.producer_epoch
            if written.sequence != UNKNOWN:  # else the epoch's first batches may lie where nobody has looked
                written.sequence = -1
        if header.is_control:
            self._marker(written, data, position, what)
            return
        expected = (written.sequence + 1) & LARGEST_SEQUENCE
        if written.sequence != UNKNOWN and header.base_sequence != expected:
            self._history.violated(f"{what} goes on with sequence {header.base_sequence}, {expected} was to come")
        written.sequence = header.last_sequence

    def _marker(self, written: Written, data: bytes, position: int, what: str) -> None:
        columns = decode_records(data, position)
        marker = decode_end_txn_marker(columns.keys[0], columns.values[0]) if columns.keys else None
        if marker is None:
            return
        if marker.coordinator_epoch < written.coordinator_epoch:
            self._history.violated(
                f"{what}: a marker of coordinator epoch {marker.coordinator_epoch} after {written.coordinator_epoch}"
            )
        written.coordinator_epoch = max(marker.coordinator_epoch, written.coordinator_epoch)
