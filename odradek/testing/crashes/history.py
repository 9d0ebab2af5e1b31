"""History of what was written to a partition: all batches since the log began, and what a stop may leave of them.

The rule is Kafka's. Everything before the recovery point is on the disk; what came after it may be lost from some batch
on. A log start that DeleteRecords has moved is certain once its checkpoint is written: until then a crash brings back
what it hid, and segments that retention has removed may come back as long as no directory was synced since.
"""

from typing import NamedTuple

from odradek.broker.log.batches import Batch
from odradek.broker.log.compaction.rewrite import header_of
from odradek.broker.log.producer_state import ProducerState
from odradek.protocol.records import decode_records


class Entry(NamedTuple):
    """A batch as it was written."""

    content: bytes
    header: Batch

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        return self.header.last_offset


def entry_of(content: bytes | bytearray) -> Entry:
    """Make an entry of the whole bytes of one batch."""
    return Entry(bytes(content), header_of(bytes(content)))


class Transaction(NamedTuple):
    """A that has ended."""

    producer_id: int
    first_offset: int
    marker_offset: int
    aborted: bool


class Replay(NamedTuple):
    """Result of reading all of a log from the beginning."""

    state: ProducerState
    ended: list[Transaction]


def replay(entries: list[Entry], end_offset: int) -> Replay:
    """Replay the batches before that offset."""
    state, ended = ProducerState(), []
    for entry in entries:
        if entry.last_offset >= end_offset:
            break
        completed = state.append(entry.header, entry.content)
        if completed is not None:
            ended.append(Transaction(*completed))
            state.complete(completed)
    state.map_end_offset = end_offset
    return Replay(state, ended)


class History:
    """History of a partition: what was written, and what may be there after a stop at any moment."""

    def __init__(self, topic: str, compacts: bool) -> None:
        self.topic = topic
        self.compacts = compacts
        self.entries: list[Entry] = []
        self.start = self.end = 0
        self.highest_start = 0
        """Epochs of what was hidden once may be forgotten, also when a crash brings it back."""
        self.certain_start = 0
        """Log start of a checkpoint that was written."""
        self.high_watermark = 0
        self.epochs: set[int] = set()
        self.certain_end = 0
        """What is on the disk when the operation under way is stopped."""
        self.before: list[list[Entry]] = []
        """What was there before the operation under way."""
        self.former: list[list[Entry]] = []
        """What deleted partitions of this name held: until the deletion is on the disk they may come back."""
        self.former_end = 0
        self.target = 0
        """Offset at which the operation under way wants the log to go on."""
        self.acknowledged_end = 0
        """Log end after the last operation that came to its end."""

    def wrote(self, contents: list[bytes | bytearray]) -> None:
        """Note batches that were written, or are about to be."""
        self.entries += [entry_of(content) for content in contents]
        self.end = self.entries[-1].last_offset + 1
        self.epochs |= {entry.header.leader_epoch for entry in self.entries[-len(contents) :]}

    def cut_to(self, end_offset: int) -> None:
        """Note that everything from an offset on is gone."""
        self.entries = [entry for entry in self.entries if entry.last_offset < end_offset]
        self.end = end_offset
        self.high_watermark = min(self.high_watermark, end_offset)

    def begin_anew(self, offset: int) -> None:
        """Note that the log is empty, and goes on at an offset."""
        self.entries = []
        self.start = self.end = self.high_watermark = self.highest_start = offset
        self.certain_start = min(self.certain_start, offset)

    def found(self, start: int, end: int, entries: list[Entry]) -> None:
        """Go on from what is left after a stop."""
        self.entries, self.start, self.end = entries, start, end
        self.acknowledged_end = end
        self.certain_end = 0
        self.certain_start = min(self.certain_start, start)
        self.high_watermark = min(self.high_watermark, end)
        self.before, self.former = [], []
        self.target = self.former_end = 0

    def records(self, end_offset: int) -> list[tuple[int, bytes | None, bytes | None]]:
        """List (offset, key, value) of all before an offset but markers and what was aborted, there or later."""
        ended = replay(self.entries, self.end).ended
        found: list[tuple[int, bytes | None, bytes | None]] = []
        for entry in self.entries:
            header = entry.header
            if entry.last_offset >= end_offset or header.is_control:
                continue
            aborted = header.is_transactional and any(
                one.aborted and one.producer_id == header.producer_id
                and one.first_offset <= header.base_offset < one.marker_offset
                for one in ended
            )  # fmt: skip
            if not aborted:
                columns = decode_records(entry.content)
                found += zip(columns.offsets, columns.keys, columns.values, strict=True)
        return found
