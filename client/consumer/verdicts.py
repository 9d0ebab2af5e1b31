"""What a fetch's answer means for one partition. Pure: who has asked, consumer, connector or Spark source, obeys."""

from dataclasses import dataclass

from odradek.client.config import READ_COMMITTED
from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.fetching import Asked
from odradek.client.errors import ClientError, CorruptRecords
from odradek.client.records import TopicPartition
from odradek.protocol.errors import RETRIABLE, ErrorCode, KafkaError, MalformedMessage, error_code
from odradek.protocol.messages.fetch import PartitionData

ASK_AGAIN = RETRIABLE - {ErrorCode.CORRUPT_MESSAGE} | {ErrorCode.UNKNOWN_SERVER_ERROR}
"""After a pause and a look at the metadata. A batch that a broker finds damaged will be damaged the next time too; an
unexpected error, or one that is newer than our table, need not come again (Java's FetchCollector asks again too)."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """Records."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class NothingNew:
    """There is nothing there yet: the log ends at `high_watermark`, as far as consumers are told."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """What was asked for is not in the log, or not any more."""


@dataclass(frozen=True, slots=True)
class Diverged:
    """The leader's history is another one from `offset` on; before that stands the leader's epoch `epoch`."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """The leader names a replica to read from (KIP-392)."""

    replica: int


@dataclass(frozen=True, slots=True)
class AskAgain:
    """After a pause, when the metadata is fresh."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Refused:
    """For the application: asking again brings the same."""

    error: Exception


Verdict = Arrived | NothingNew | OutOfRange | Diverged | ReadFrom | AskAgain | Refused


def judge(topic_partition: TopicPartition, asked: Asked, data: PartitionData, isolation: int, limit: str) -> Verdict:
    """Return what one partition's part of an answer means. `limit`: the setting that bounds it, with its value."""
    error = error_code(data.error_code)
    diverging = data.diverging_epoch
    if error == ErrorCode.NONE and diverging is not None and diverging.end_offset >= 0:
        return Diverged(diverging.end_offset, diverging.epoch)
    if error == ErrorCode.NONE and data.preferred_read_replica >= 0:
        return ReadFrom(data.preferred_read_replica)
    if error == ErrorCode.NONE:
        return _arrived(topic_partition, asked, data, isolation, limit)
    if error == ErrorCode.OFFSET_OUT_OF_RANGE:
        return OutOfRange()
    if error in ASK_AGAIN:
        return AskAgain(error)
    return Refused(KafkaError(error, f"{topic_partition}: cannot be read at offset {asked.offset}"))


def _arrived(topic_partition: TopicPartition, asked: Asked, data: PartitionData, isolation: int, limit: str) -> Verdict:
    records = memoryview(data.records or b"")
    aborted = None
    if isolation == READ_COMMITTED:
        aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
    end = data.high_watermark if data.high_watermark > asked.offset else None
    try:
        chunk = Chunk(topic_partition, records, asked.offset, asked.version, aborted, end)
    except MalformedMessage as error:
        return Refused(CorruptRecords(f"{topic_partition} from offset {asked.offset}: damaged records: {error}"))
    if not chunk.empty:
        return Arrived(chunk)
    if not len(records):
        return NothingNew(data.high_watermark)
    return Refused(ClientError(f"{topic_partition} at offset {asked.offset}: the batch there is larger than {limit}"))
