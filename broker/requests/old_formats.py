"""Message sets for clients of before Kafka 0.11: converted to a batch when they produce, from batches when they fetch.

The log holds batches only (as Kafka does from inter.broker.protocol.version 3.0 on).
"""

from odradek.protocol.compression import NONE, ZSTD, UnknownCodec
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from odradek.protocol.message_set import MAGIC_V0, MAGIC_V1, down_convert, messages, up_convert
from odradek.protocol.messages.fetch import PartitionData
from odradek.protocol.primitives import Records
from odradek.protocol.record_batch import MAGIC_AT, MAGIC_V2, batches
from odradek.protocol.records import Columns, decode_records, encode_batch
from odradek.world.files import FileRange

FIRST_PRODUCE_VERSION_WITH_BATCHES = 3
FIRST_FETCH_VERSION_WITH_BATCHES = 4
FIRST_FETCH_VERSION_WITH_TIMESTAMPS = 2
DECOMPRESSED_BYTES_MAX = 16 * 1024 * 1024
"""What the compressed messages of a set may hold: decoding more would keep the loop busy for seconds."""
LAST_FETCH_VERSION_WITH_HARD_LIMIT = 2
"""Up to this one an answer is cut at the limit: an old client sees from the cut message that it is too large."""


def to_batch(records: Records) -> bytearray:
    """What a producer of version 0 to 2 sent, as one batch in the codec it used.

    Raises KafkaError: CORRUPT_MESSAGE for damaged bytes, INVALID_RECORD for an empty set.
    """
    if records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no message set at all")
    try:
        if len(records) > MAGIC_AT and records[MAGIC_AT] == MAGIC_V2:
            return bytearray(records)
        columns = up_convert(records, decompressed_limit=DECOMPRESSED_BYTES_MAX)
        codec = next((message.codec for message in messages(records, check_crc=False)), NONE)
    except MalformedMessage as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(bad)) from bad
    if not len(columns):
        raise KafkaError(ErrorCode.INVALID_RECORD, "an empty message set")
    return encode_batch(0, columns.timestamps, columns.keys, columns.values, codec=codec)


def convert_answer(answer: PartitionData, fetch_offset: int, max_bytes: int, version: int) -> None:
    """Put message sets in place of the batches of one partition's answer; zstd and damage become its error."""
    stored = answer.records
    data = stored.file.pread(stored.length, stored.position) if isinstance(stored, FileRange) else stored
    magic = MAGIC_V1 if version >= FIRST_FETCH_VERSION_WITH_TIMESTAMPS else MAGIC_V0
    try:
        converted = _to_message_set(data, fetch_offset, magic)
    except UnknownCodec:
        refuse(answer, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    except MalformedMessage:
        refuse(answer, ErrorCode.CORRUPT_MESSAGE)
    else:
        answer.records = converted[:max_bytes] if version <= LAST_FETCH_VERSION_WITH_HARD_LIMIT else converted


def refuse(answer: PartitionData, error: ErrorCode) -> None:
    """No records, and why."""
    answer.error_code, answer.records, answer.high_watermark = error, b"", -1


def _to_message_set(data: bytes, fetch_offset: int, magic: int) -> bytes:
    """Headers, control batches and producer ids are dropped; offsets stay."""
    out = bytearray()
    for at, header in batches(data, allow_partial_tail=True):
        if header.codec == ZSTD:
            raise UnknownCodec("zstd does not exist in message sets")
        if header.is_control:
            continue
        columns = decode_records(data, at)
        if header.codec == NONE:
            columns = _from_offset(columns, fetch_offset)
        out += down_convert(columns, magic, header.codec, log_append_time=header.is_log_append_time)
    return bytes(out)


def _from_offset(columns: Columns, offset: int) -> Columns:
    """Records before the one that is asked for need not travel; in a compressed batch they must."""
    skip = sum(1 for one in columns.offsets if one < offset)
    return Columns(columns.offsets[skip:], columns.timestamps[skip:], columns.keys[skip:], columns.values[skip:])
