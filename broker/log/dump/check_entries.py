"""Checks of the entries of the small files, in themselves and beside the log they belong to."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from odradek.broker.log.batches import Batch, decode_end_of_transaction, iterate_headers, iterate_headers_of_producers
from odradek.broker.log.checkpoint_format import LEADER_EPOCHS
from odradek.broker.log.directories.directory_files import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    MetaProperties,
    OtherMode,
    decode_meta,
    decode_partition_metadata,
)
from odradek.broker.log.dump.check_log import Complaint
from odradek.broker.log.dump.rows import Row
from odradek.broker.log.errors import CorruptFile
from odradek.broker.log.producer_snapshots import SNAPSHOT
from odradek.broker.log.segment import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX
from odradek.protocol.errors import KafkaError
from odradek.protocol.record_batch import MAGIC_V2, CorruptBatch
from odradek.world.files import File

Entries = Sequence[tuple[int, Row]]


def numbers(row: Row, *names: str) -> tuple[int, ...]:
    """Return values of a row that are known to be numbers."""
    values = tuple(row[name] for name in names)
    assert all(isinstance(value, int) for value in values), row
    return values  # type: ignore[return-value]


def rising(*names: str) -> Callable[[Entries, int], Iterator[Complaint]]:
    """Return a check that each of these is larger than in the entry before."""

    def check(entries: Entries, _: int) -> Iterator[Complaint]:
        for (_, before), (at, row) in pairwise(entries):
            for name in names:
                (first,), (second,) = numbers(before, name), numbers(row, name)
                if second <= first:
                    yield at, f"{name} {second} after {first}"

    return check


def producers(entries: Entries, snapshot_offset: int) -> Iterator[Complaint]:
    """Check the producers of a snapshot, which is named after the offset up to which it was made."""
    seen: set[int] = set()
    for at, row in entries:
        producer_id, epoch, last, first = numbers(
            row, "producer_id", "epoch", "last_offset", "transaction_first_offset"
        )
        if producer_id in seen:
            yield at, f"producer {producer_id} a second time"
        seen.add(producer_id)
        if producer_id < 0 or epoch < 0:
            yield at, f"producer {producer_id} of epoch {epoch}"
        if max(last, first) >= snapshot_offset:
            yield at, f"producer {producer_id} wrote {max(last, first)}, the snapshot was made at {snapshot_offset}"


def aborted(entries: Entries, base_offset: int) -> Iterator[Complaint]:
    """Check the aborted transactions of a segment, whose markers must lie in it."""
    yield from rising("last_offset")(entries, base_offset)
    for at, row in entries:
        first, last = numbers(row, "first_offset", "last_offset")
        if not 0 <= first < last or last < base_offset:
            yield at, f"a transaction from {first} to {last} in a segment that begins at {base_offset}"


def epochs(entries: Entries, _: int) -> Iterator[Complaint]:
    """Check leader epochs, and where they began."""
    yield from rising("leader_epoch", "start_offset")(entries, 0)
    for at, row in entries[:1]:
        if min(numbers(row, "leader_epoch", "start_offset")) < 0:
            yield at, "a negative number"


def partitions(entries: Entries, _: int) -> Iterator[Complaint]:
    """Check that a checkpoint has no partition twice, and no negative number."""
    seen: set[tuple[object, object]] = set()
    for at, row in entries:
        key = row["topic"], row["partition"]
        if key in seen:
            yield at, f"{row['topic']}-{row['partition']} a second time"
        seen.add(key)
        if min(numbers(row, "partition", "offset")) < 0:
            yield at, "a negative number"


def owner(entries: Entries, _: int) -> Iterator[Complaint]:
    """Check `meta.properties`."""
    try:
        yield from _decoded(entries, "=", _owner)
    except OtherMode as other:
        yield 0, str(other)


def _owner(data: bytes) -> MetaProperties:
    found, _ = decode_meta(data)
    if found == MetaProperties():
        raise CorruptFile("it does not say of which broker and cluster it is")
    return found


def topic_id(entries: Entries, _: int) -> Iterator[Complaint]:
    """Check `partition.metadata`."""
    yield from _decoded(entries, ": ", decode_partition_metadata)


def _decoded(entries: Entries, colon: str, decode: Callable[[bytes], object]) -> Iterator[Complaint]:
    try:
        decode("".join(f"{row['property']}{colon}{row['value']}\n" for _, row in entries).encode())
    except CorruptFile as bad:
        yield 0, str(bad)


def nothing(_: Entries, __: int) -> Iterator[Complaint]:
    """Check nothing beyond that the file can be read."""
    return iter(())


def positions(entries: Entries, file: File) -> Iterator[Complaint]:
    """Check that every entry of an offset index leads to a batch that is not after the offset."""
    batches = _Batches(file)
    for at, row in entries:
        offset, position = numbers(row, "offset", "position")
        batch = batches.from_position(position)
        if batches.damaged:
            return  # said with the log itself
        if batch is None or batch.position != position or batch.base_offset > offset:
            yield at, f"offset {offset} is not at byte {position} of the log"


def timestamps(entries: Entries, file: File) -> Iterator[Complaint]:
    """Check that every entry of a time index has the largest timestamp of the log up to its offset."""
    batches = _Batches(file)
    for at, row in entries:
        timestamp, offset = numbers(row, "timestamp_ms", "offset")
        batch = batches.up_to_offset(offset)
        if batches.damaged:
            return
        if batch is None or (batch.magic == MAGIC_V2 and batch.base_offset > offset):
            yield at, f"no batch has the offset {offset}"
        elif timestamp not in (batches.largest_ms, batches.largest_of_records_ms):
            yield at, f"timestamp {timestamp} up to offset {offset}, the log has {batches.largest_ms}"


class _Batches:
    """The batches of a log, walked once alongside an index that rises with them."""

    def __init__(self, file: File) -> None:
        self.damaged = False
        self.largest_ms = self.largest_of_records_ms = -1
        """Largest timestamps so far: with and without the batches that compaction has emptied."""
        self._left = iterate_headers(file, 0, file.size())
        self._batch: Batch | None = None
        self._go_on()

    def _go_on(self) -> None:
        try:
            self._batch = next(self._left, None)
        except CorruptBatch:
            self._batch, self.damaged = None, True
        if self._batch is not None:
            time = self._batch.max_timestamp_ms
            self.largest_ms = max(self.largest_ms, time)
            if self._batch.record_count:
                self.largest_of_records_ms = max(self.largest_of_records_ms, time)

    def from_position(self, position: int) -> Batch | None:
        """Return the first batch that does not begin before `position`; None at the end."""
        while self._batch is not None and self._batch.position < position:
            self._go_on()
        return self._batch

    def up_to_offset(self, offset: int) -> Batch | None:
        """Return the first batch that does not end before `offset`; None at the end."""
        while self._batch is not None and self._batch.last_offset < offset:
            self._go_on()
        return self._batch


class Transaction(NamedTuple):
    """What the batches of one segment tell of a transaction that ends in it."""

    producer_id: int
    aborted: bool
    after: int
    """Offset of the producer's marker before; -1 when that is not in this segment."""
    data_from: int
    """Offset of its first batch; -1 when this segment has none."""


def _transactions(file: File) -> dict[int, Transaction]:
    """Collect the transactions that end in a segment, by the offset of the marker. Raises CorruptBatch, KafkaError."""
    found: dict[int, Transaction] = {}
    ended: dict[int, int] = {}
    begun: dict[int, int] = {}
    for batch in iterate_headers_of_producers(file, 0, file.size()):
        producer_id = batch.producer_id
        if not batch.is_control:
            if batch.is_transactional and batch.record_count:
                begun.setdefault(producer_id, batch.base_offset)
        elif batch.record_count:
            end = decode_end_of_transaction(file.pread(batch.size_bytes, batch.position))
            found[batch.last_offset] = Transaction(
                producer_id, end is not None and end.aborted, ended.get(producer_id, -1), begun.pop(producer_id, -1)
            )
            ended[producer_id] = batch.last_offset
    return found


def transactions(entries: Entries, file: File) -> Iterator[Complaint]:
    """Check the entries of a transaction index against the batches."""
    yield from _markers(entries, file)
    yield from _stable_offsets(entries, file)


def _markers(entries: Entries, file: File) -> Iterator[Complaint]:
    """Check that every entry of a transaction index has its marker, and covers what that ends and no more."""
    try:
        found = _transactions(file)
    except (CorruptBatch, KafkaError):
        return  # said with the log itself
    for at, row in entries:
        producer_id, first, last = numbers(row, "producer_id", "first_offset", "last_offset")
        said = found.get(last)
        if said is None or (said.producer_id, said.aborted) != (producer_id, True):
            yield at, f"at offset {last} of the log, producer {producer_id} aborts no transaction"
        elif first <= said.after or first > said.data_from >= 0:
            begins = f"at {said.data_from}" if said.data_from >= 0 else f"after {said.after}"
            yield at, f"producer {producer_id}'s transaction up to {last} begins {begins}, not at {first}"


def _stable_offsets(entries: Entries, file: File) -> Iterator[Complaint]:
    """Check the last stable offsets behind their markers: there a transaction must begin.

    A follower of Kafka's writes them: it takes several batches at once, and knows of a transaction that begins behind
    the marker when it writes the entry. Where compaction has taken the batch away nothing can be said.
    """
    behind = []
    for at, row in entries:
        last, stable = numbers(row, "last_offset", "last_stable_offset")
        if stable > last + 1:
            behind.append((stable, at, last))
    batches = _Batches(file)
    for stable, at, last in sorted(behind):
        batch = batches.up_to_offset(stable)
        if batches.damaged:
            return  # said with the log itself
        if batch is not None and batch.base_offset <= stable:
            begins = batch.base_offset == stable and batch.is_transactional and not batch.is_control
            if not begins:
                yield at, f"last stable offset {stable} after a transaction that ended at {last}: none begins there"


def last_offset_of(file: File) -> int | None:
    """Return the last offset of the last batch; None when there is none, or the log is damaged before it."""
    last = None
    try:
        for batch in iterate_headers(file, 0, file.size()):
            last = batch.last_offset
    except CorruptBatch:
        return None
    return last


CHECKS: dict[str, Callable[[Entries, int], Iterator[Complaint]]] = {
    OFFSET_INDEX: rising("offset", "position"),
    TIME_INDEX: rising("timestamp_ms", "offset"),
    TRANSACTION_INDEX: aborted,
    SNAPSHOT: producers,
    LEADER_EPOCHS: epochs,
    "-offset-checkpoint": partitions,
    META_PROPERTIES: owner,
    PARTITION_METADATA: topic_id,
    CLEAN_SHUTDOWN: nothing,
}
AGAINST_LOG: dict[str, Callable[[Entries, File], Iterator[Complaint]]] = {
    OFFSET_INDEX: positions,
    TIME_INDEX: timestamps,
    TRANSACTION_INDEX: transactions,
}
