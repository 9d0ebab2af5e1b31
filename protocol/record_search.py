"""Finding a record of a batch by its time, without a look at anything behind it."""

from typing import Final

from odradek.protocol import compression
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.message_set import add_records, read_message
from odradek.protocol.primitives import SIGNED, Buffer
from odradek.protocol.record_batch import MAGIC_AT, MAGIC_V2, BatchHeader, CorruptBatch, read_header
from odradek.protocol.records import Columns, read_wide, stored_section
from odradek.protocol.steps import STEP_RECORDS, Steps

Found = tuple[int, int] | None
"""(timestamp, offset) of a record; None when there is none."""
HEAD_BYTES: Final = 5 + 1 + 10 + 5
"""Most that comes before a record's key: its length, attributes, and the differences of timestamp and offset."""


def find_record(batch: Buffer, timestamp_ms: int, start_offset: int) -> Steps[Found]:
    """Return the first record at or after a time and an offset.

    `batch`: the whole of one batch, or one message of an old format. Of what a batch decompresses to only a piece is in
    memory at a time. Raises CorruptBatch.
    """
    if batch[MAGIC_AT] == MAGIC_V2:
        try:
            return (yield from _find(batch, read_header(batch), timestamp_ms, start_offset))
        except (IndexError, MalformedMessage) as error:
            raise CorruptBatch(0, f"records: {error}") from None
    columns = Columns([], [], [], [])
    yield from add_records(columns, read_message(batch, 0, len(batch)))
    found = zip(columns.timestamps, columns.offsets, strict=True)
    return next((one for one in found if one[0] >= timestamp_ms and one[1] >= start_offset), None)


def _find(batch: Buffer, header: BatchHeader, timestamp_ms: int, start_offset: int) -> Steps[Found]:
    """Raises IndexError, MalformedMessage."""
    base_offset, base_ms = header.base_offset, header.base_timestamp
    left = header.record_count
    pieces = compression.pieces(header.codec, stored_section(batch, 0, header))
    data, at, more = b"", 0, True
    while left:
        piece = next(pieces, None)
        if piece is None:
            more = False
        elif at < len(data):
            data, at = data[at:] + piece, 0
        else:  # within the value of a record that is passed over
            data, at = piece, at - len(data)
        last = len(data) - HEAD_BYTES if more else len(data)
        while left and at <= last:
            number = data[at]
            size, at = (SIGNED[number], at + 1) if number < 0x80 else read_wide(data, at, number)
            if size < 0:
                raise MalformedMessage(f"a record of {size} bytes")
            end = at + size
            number = data[at + 1]  # behind the attributes
            delta_ms, at = (SIGNED[number], at + 2) if number < 0x80 else read_wide(data, at + 1, number)
            at_ms = header.max_timestamp if header.is_log_append_time else base_ms + delta_ms
            if at_ms >= timestamp_ms:
                number = data[at]
                delta, at = (SIGNED[number], at + 1) if number < 0x80 else read_wide(data, at, number)
                if base_offset + delta >= start_offset:
                    return at_ms, base_offset + delta
            at = end
            left -= 1
            if left % STEP_RECORDS == 0:
                yield
        if left and not more:
            raise MalformedMessage(f"{left} records of {header.record_count} are not there")
        yield
    return None
