"""Records of a Produce that take long to append, and so are appended in slices of time (see produce.py).

These are message sets of producers before Kafka 0.11, which are converted to batches first, so that only batches are
written, as in Kafka from inter.broker.protocol.version 3.0 on (replication/conversion.py serves readers of that time);
batches of topics whose rules look at each record, when they are large or compressed; and whatever a request with very
many partitions writes to.
"""

from typing import NamedTuple

from odradek.broker.log.log import Log
from odradek.broker.log.rewriting import Rewritten, misdated, rewrite, takes_long
from odradek.protocol.compression import NONE
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from odradek.protocol.message_set import InvalidWrapper, add_records, messages
from odradek.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, TopicProduceData
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
    """Tell whether the records are batches already, and not a message set."""
    return records is not None and len(records) > MAGIC_AT and records[MAGIC_AT] == MAGIC_V2


def to_batch(records: Records) -> Steps[bytearray]:
    """Convert what a producer of version 0 to 2 sent to one batch in the codec of its last compressed message.

    Raises KafkaError: CORRUPT_MESSAGE for damaged bytes, INVALID_RECORD for impossible wrappers, and for an empty set.
    Kafka takes a set that is cut off, or empty, leaves out what is not whole, and says that all is well.
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


class SlowRecords(NamedTuple):
    """Records that are not appended at once, and the place of the answer to them."""

    topic: str
    data: PartitionProduceData
    """Entry of the request with a copy of its records, which outlive the call that handles the request."""
    answers: list[PartitionProduceResponse]
    position: int
    log: Log | None
    """Log whose topic's rules they must meet first."""


def put_off_topic(topic: TopicProduceData, slow: list[SlowRecords]) -> list[PartitionProduceResponse]:
    """Put off all partitions of a topic; return placeholders, which their answers will replace."""
    answers: list[PartitionProduceResponse] = []
    for data in topic.partition_data:
        answers.append(PartitionProduceResponse(index=data.index))
        slow.append(put_off(topic.name, data, answers, None))
    return answers


def put_off(
    topic: str, data: PartitionProduceData, answers: list[PartitionProduceResponse], log: Log | None
) -> SlowRecords:
    """Put off the partition whose answer is the last of these, with a copy of its records."""
    records = None if data.records is None else bytearray(data.records)
    return SlowRecords(topic, PartitionProduceData(index=data.index, records=records), answers, len(answers) - 1, log)


def are_slow(records: Records, log: Log) -> bool:
    """Tell whether `log` can have these records only after a look at each of them that takes long."""
    if records is None or not takes_long(records):
        return False
    return (log.rewrites or misdated(records)) and not isinstance(records, Rewritten)


def make_ready(records: Records, log: Log | None, version: int) -> Steps[Records]:
    """Turn records into what can be appended, and with a `log` into what its topic's rules allow. Raises KafkaError."""
    if version < FIRST_PRODUCE_VERSION_WITH_BATCHES and not is_batch(records):
        return (yield from to_batch(records))
    if log is not None and records is not None:
        now_ms = log.environment.clock.now_ms()
        return (yield from rewrite(log.config, f"{log.topic}-{log.partition}", memoryview(records), now_ms))
    return records
