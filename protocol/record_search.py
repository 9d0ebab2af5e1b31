"""Finding a record of a batch by its time, without a look at anything behind it."""

from odradek.protocol.conversion import records_of
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import SIGNED, Buffer
from odradek.protocol.record_batch import MAGIC_AT, MAGIC_V2, CorruptBatch, read_header
from odradek.protocol.records import read_wide, section_of


def find_record(batch: Buffer, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
    """Return (timestamp, offset) of the first record at or after a time and an offset; None when there is none.

    `batch`: the whole of one batch, or one message of an old format. Raises CorruptBatch.
    """
    if batch[MAGIC_AT] != MAGIC_V2:
        records = records_of(batch)
        found = zip(records.timestamps, records.offsets, strict=True)
        return next((one for one in found if one[0] >= timestamp_ms and one[1] >= start_offset), None)
    header = read_header(batch)
    data = section_of(batch, 0, header)
    base_offset, base_ms = header.base_offset, header.base_timestamp
    at = 0
    try:
        for _ in range(header.record_count):
            number = data[at]
            size, at = (SIGNED[number], at + 1) if number < 0x80 else read_wide(data, at, number)
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
    except (IndexError, MalformedMessage) as error:
        raise CorruptBatch(0, f"records: {error}") from None
    return None
