"""Message sets of producers of before Kafka 0.11: converted to a batch before they are appended.

So only batches are written, as in Kafka from inter.broker.protocol.version 3.0 on. How the readers of that time are
served is the business of replication/conversion.py.
"""

from odradek.protocol.compression import NONE
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from odradek.protocol.message_set import InvalidWrapper, messages, up_convert
from odradek.protocol.primitives import Records
from odradek.protocol.record_batch import MAGIC_AT, MAGIC_V2
from odradek.protocol.records import encode_batch

FIRST_PRODUCE_VERSION_WITH_BATCHES = 3
DECOMPRESSED_BYTES_MAX = 16 * 1024 * 1024
"""Limit of what the compressed messages of a set may hold: decoding more would keep the loop busy for seconds."""


def to_batch(records: Records) -> bytearray:
    """Convert what a producer of version 0 to 2 sent to one batch in the codec of its last compressed message.

    Raises KafkaError: CORRUPT_MESSAGE for damaged bytes, INVALID_RECORD for wrappers that cannot be, and for an empty
    set. Kafka takes a set that is cut off, or empty, leaves out what is not whole, and says that all is well.
    """
    if records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no message set at all")
    try:
        if len(records) > MAGIC_AT and records[MAGIC_AT] == MAGIC_V2:
            return bytearray(records)
        columns = up_convert(records, decompressed_limit=DECOMPRESSED_BYTES_MAX)
        codecs = [message.codec for message in messages(records, check_crc=False) if message.codec != NONE]
    except InvalidWrapper as bad:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(bad)) from bad
    except MalformedMessage as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(bad)) from bad
    if not len(columns):
        raise KafkaError(ErrorCode.INVALID_RECORD, "an empty message set")
    return encode_batch(0, columns.timestamps, columns.keys, columns.values, codec=codecs[-1] if codecs else NONE)
