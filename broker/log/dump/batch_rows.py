"""The rows of a `.log` file: its batches, and the records in them."""

from collections.abc import Iterator

from odradek.broker.log.batches import Batch, checksum_of, iterate_headers
from odradek.broker.log.dump.internal_topics import Decoder
from odradek.broker.log.dump.rows import Row
from odradek.broker.log.producer_sequences import sequence_after
from odradek.protocol.compression import CODEC_NAMES
from odradek.protocol.control_records import decode_end_txn_marker
from odradek.protocol.conversion import records_of
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.record_batch import CODEC_MASK, LOG_APPEND_TIME_BIT, MAGIC_V2, CorruptBatch, read_header
from odradek.protocol.records import Columns
from odradek.world.files import File

CONTROL_NAMES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
"""Names by the type in a control record's key; those of a log of a ZooKeeper cluster are the first two."""
NONE = -1


def batch_rows(file: File, *, records: bool, decode: Decoder | None) -> Iterator[Row]:
    """Yield each batch, or message of the old formats, followed by its records when they are wanted.

    Raises CorruptBatch where the file does not go on with a batch, or where records do not decode.
    """
    for batch in iterate_headers(file, 0, file.size()):
        content = file.pread(batch.size_bytes, batch.position)
        valid = checksum_of(content) == batch.crc
        yield _batch_row(batch, content, valid)
        if records and not valid:
            raise CorruptBatch(batch.position, "its checksum is wrong, so its records are not shown")
        if records:
            yield from _record_rows(batch, content, decode)


def _batch_row(batch: Batch, content: bytes, valid: bool) -> Row:
    row: Row = {
        "position": batch.position,
        "size_bytes": batch.size_bytes,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "magic": batch.magic,
        "codec": codec_name(batch),
        "timestamp_type": "LogAppendTime" if batch.attributes & LOG_APPEND_TIME_BIT else "CreateTime",
        "max_timestamp_ms": batch.max_timestamp_ms,
        "crc": batch.crc,
        "valid": valid,
    }
    if batch.magic < MAGIC_V2:
        del row["base_offset"]  # not known without looking into the message
        return row
    base, count = batch.base_sequence, batch.last_offset - batch.base_offset
    return row | {
        "record_count": batch.record_count,
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": base,
        "last_sequence": sequence_after(base, count) if base >= 0 else NONE,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "delete_horizon_ms": read_header(content).delete_horizon_ms,
    }


def codec_name(batch: Batch) -> str:
    """Return a codec's name, `gzip`; its number where there is no such codec."""
    codec = batch.attributes & CODEC_MASK
    return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else str(codec)


def _record_rows(batch: Batch, content: bytes, decode: Decoder | None) -> Iterator[Row]:
    try:
        columns = records_of(content)
        for index in range(len(columns)):
            yield _record_row(batch, columns, index, decode)
    except CorruptBatch as bad:
        raise CorruptBatch(batch.position, bad.reason) from None


def _record_row(batch: Batch, columns: Columns, index: int, decode: Decoder | None) -> Row:
    offset, key, value = columns.offsets[index], columns.keys[index], columns.values[index]
    row: Row = {"offset": offset, "timestamp_ms": columns.timestamps[index]}
    if batch.base_sequence >= 0:
        row["sequence"] = sequence_after(batch.base_sequence, offset - batch.base_offset)
    if batch.is_control:
        return row | control_fields(key, value)
    row |= {"key": key, "value": value, "headers": columns.headers(index)}
    if decode is not None:
        try:
            row["key"], row["value"] = decode(key, value)
        except MalformedMessage as reason:
            row["undecodable"] = str(reason)
    return row


def control_fields(key: bytes | None, value: bytes | None) -> Row:
    """Return what a control record says. Raises CorruptBatch when that is nothing."""
    end = decode_end_txn_marker(key, value)
    number = int.from_bytes((key or b"")[2:4], "big", signed=True)
    name = CONTROL_NAMES[number] if 0 <= number < len(CONTROL_NAMES) else f"unknown ({number})"
    return {"control": name} if end is None else {"control": name, "coordinator_epoch": end.coordinator_epoch}
