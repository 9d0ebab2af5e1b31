"""Looking into the files of a log without a broker: for `odradek dump-log`, which prints what these generators give.

Nothing is changed or locked, so the newest batch of a running broker may look cut off.
"""

from collections.abc import Iterator
from typing import NamedTuple

from odradek.broker.log.batches import Batch, iterate_headers, iterate_valid
from odradek.broker.log.checkpoints import LEADER_EPOCHS, decode_epochs, decode_offsets
from odradek.broker.log.failure import CorruptFile
from odradek.broker.log.index import OffsetIndex, TimeIndex
from odradek.broker.log.producer_snapshot import decode_snapshot
from odradek.broker.log.segment import LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX
from odradek.broker.log.transaction_index import decode_aborted
from odradek.protocol.conversion import records_of
from odradek.protocol.record_batch import CorruptBatch
from odradek.protocol.records import Columns
from odradek.world.files import Files

Row = dict[str, object]
"""One line of output: names and plain values, in order."""


class Damage(NamedTuple):
    """What is wrong, and the byte from which on."""

    path: str
    position: int
    reason: str


def dump(files: Files, path: str, *, records: bool = False) -> Iterator[Row]:
    """The entries of any file of a log. Raises OSError, CorruptFile, CorruptBatch, ValueError for an unknown name.

    With `records` each batch of a `.log` is followed by its records.
    """
    name = path.rpartition("/")[2]
    for suffix, dumper in DUMPERS.items():
        if name.endswith(suffix):
            yield from dumper(files, path, _base_offset(name))
            return
    if not name.endswith(LOG):
        raise ValueError(f"{path}: not a file of a log")
    file = files.open(path)
    for batch in iterate_headers(file, 0, file.size()):
        yield batch._asdict() | {"transactional": batch.is_transactional, "control": batch.is_control}
        if records:
            yield from _record_rows(records_of(file.pread(batch.size_bytes, batch.position)))


def _base_offset(name: str) -> int:
    number = name.partition(".")[0]
    return int(number) if number.isdigit() else 0


def _record_rows(records: Columns) -> Iterator[Row]:
    for index, offset in enumerate(records.offsets):
        yield {
            "offset": offset,
            "timestamp_ms": records.timestamps[index],
            "key": records.keys[index],
            "value": records.values[index],
            "headers": records.headers(index),
        }


def _dump_offset_index(files: Files, path: str, base_offset: int) -> Iterator[Row]:
    for offset, position in OffsetIndex.decode(files.read(path), base_offset, 2**32).entries():
        yield {"offset": offset, "position": position}


def _dump_time_index(files: Files, path: str, base_offset: int) -> Iterator[Row]:
    for entry in TimeIndex.decode(files.read(path), base_offset).entries():
        yield entry._asdict()


def _dump_transactions(files: Files, path: str, _: int) -> Iterator[Row]:
    for aborted in decode_aborted(files.read(path)):
        yield aborted._asdict()


def _dump_snapshot(files: Files, path: str, _: int) -> Iterator[Row]:
    for producer in decode_snapshot(files.read(path)):
        newest = producer.batches[-1] if producer.batches else None
        yield {
            "producer_id": producer.producer_id,
            "epoch": producer.epoch,
            "first_sequence": newest.first_sequence if newest else -1,
            "last_sequence": newest.last_sequence if newest else -1,
            "last_offset": newest.last_offset if newest else -1,
            "timestamp_ms": producer.last_timestamp_ms,
            "coordinator_epoch": producer.coordinator_epoch,
            "transaction_first_offset": producer.transaction_first_offset,
        }


def _dump_epochs(files: Files, path: str, _: int) -> Iterator[Row]:
    for epoch, start_offset in decode_epochs(files.read(path)):
        yield {"leader_epoch": epoch, "start_offset": start_offset}


def _dump_offsets(files: Files, path: str, _: int) -> Iterator[Row]:
    for (topic, partition), offset in decode_offsets(files.read(path)).items():
        yield {"topic": topic, "partition": partition, "offset": offset}


DUMPERS = {
    OFFSET_INDEX: _dump_offset_index,
    TIME_INDEX: _dump_time_index,
    TRANSACTION_INDEX: _dump_transactions,
    SNAPSHOT: _dump_snapshot,
    LEADER_EPOCHS: _dump_epochs,
    "-offset-checkpoint": _dump_offsets,
}


def verify(files: Files, path: str) -> Iterator[Damage]:
    """What is wrong with a file, or with every file of a partition's directory. Raises OSError."""
    if files.is_directory(path):
        for name in files.list_directory(path):
            if name.endswith((LOG, *DUMPERS)):
                yield from verify(files, f"{path}/{name}")
        return
    try:
        if path.endswith(LOG):
            _verify_batches(files, path)
        else:
            for _ in dump(files, path):
                pass
        if path.endswith((OFFSET_INDEX, TIME_INDEX)):
            yield from _verify_against_log(files, path)
    except CorruptBatch as bad:
        yield Damage(path, bad.position, bad.reason)
    except CorruptFile as bad:
        yield Damage(path, 0, str(bad))


def _verify_batches(files: Files, path: str) -> None:
    """Every batch whole, its checksum right, its records decodable, offsets rising. Raises CorruptBatch."""
    file = files.open(path)
    previous = _base_offset(path.rpartition("/")[2]) - 1
    for batch, content in iterate_valid(file, 0, file.size()):
        if batch.base_offset <= previous:
            raise CorruptBatch(batch.position, f"offset {batch.base_offset} after {previous}")
        try:
            records_of(content)
        except CorruptBatch as bad:
            raise CorruptBatch(batch.position, bad.reason) from None
        previous = batch.last_offset


def _verify_against_log(files: Files, path: str) -> Iterator[Damage]:
    """Every index entry has to point at a batch: by position, or by the offset of its last record."""
    suffix = OFFSET_INDEX if path.endswith(OFFSET_INDEX) else TIME_INDEX
    file = files.open(path.removesuffix(suffix) + LOG)
    batches: list[Batch] = []
    try:
        batches.extend(iterate_headers(file, 0, file.size()))
    except CorruptBatch:
        return  # reported with the log itself
    base_offset = _base_offset(path.rpartition("/")[2])
    if suffix == OFFSET_INDEX:
        places = {batch.position: batch for batch in batches}
        index = OffsetIndex.decode(files.read(path), base_offset, file.size())
        for number, (offset, position) in enumerate(index.entries()):
            found = places.get(position)
            if found is None or offset < found.base_offset:
                yield Damage(path, number * index.ENTRY.size, f"offset {offset} is not at position {position}")
        return
    largest = -1
    times = TimeIndex.decode(files.read(path), base_offset)
    left = iter(batches)
    for number, entry in enumerate(times.entries()):
        for batch in left:
            largest = max(largest, batch.max_timestamp_ms)
            if batch.last_offset >= entry.offset:
                break
        if largest != entry.timestamp_ms:
            reason = f"timestamp {entry.timestamp_ms} up to offset {entry.offset}, the log has {largest}"
            yield Damage(path, number * times.ENTRY.size, reason)
