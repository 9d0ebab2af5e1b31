"""Message sets of producers of before Kafka 0.11: converted to a batch before they are appended.

So only batches are written, as in Kafka from inter.broker.protocol.version 3.0 on. How the readers of that time are
served is the business of replication/conversion.py.
"""

from odradek.protocol.compression import NONE
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from odradek.protocol.message_set import InvalidWrapper, add_records, messages
from odradek.protocol.primitives import Records
from odradek.protocol.record_batch import MAGIC_AT, MAGIC_V2
from odradek.protocol.records import Columns, encode_batch
from odradek.protocol.records_in_steps import encode_in_steps
from odradek.protocol.steps import STEP_RECORDS, Steps

FIRST_PRODUCE_VERSION_WITH_BATCHES = 3
DECOMPRESSED_BYTES_MAX = 16 * 1024 * 1024
"""Limit of what the compressed messages of a set may hold: a bomb of a few kilobytes would otherwise keep the broker
busy for minutes."""


def is_batch(records: Records) -> bool:
    """Tell whether these are batches already."""
    return records is not None and len(records) > MAGIC_AT and records[MAGIC_AT] == MAGIC_V2


def to_batch(records: Records) -> Steps[bytearray]:
    """Convert what a producer of version 0 to 2 sent to one batch in the codec of its last compressed message.

    Raises KafkaError: CORRUPT_MESSAGE for damaged bytes, INVALID_RECORD for wrappers that cannot be, and for an empty
    set. Kafka takes a set that is cut off, or empty, leaves out what is not whole, and says that all is well.
    """
    if records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no message set")
    columns, codec, room = Columns([], [], [], []), NONE, DECOMPRESSED_BYTES_MAX
    try:
        for message in messages(records):
            room -= yield from add_records(columns, message, room)
            codec = message.codec or codec
            if len(columns) % STEP_RECORDS == 0:
                yield
    except InvalidWrapper as bad:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(bad)) from bad
    except MalformedMessage as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(bad)) from bad
    if not len(columns):
        raise KafkaError(ErrorCode.INVALID_RECORD, "an empty message set")
    section = yield from encode_in_steps(columns, range(len(columns)), codec)
    return encode_batch(0, columns.timestamps, columns.keys, columns.values, codec=codec, section=section)
