"""Conversion of fetched messages and batches into a format that the reader of the answer is certain to know.

    Fetch 0, 1      magic 0
    Fetch 2, 3      magic 0 and 1
    Fetch 4 to 17   record batches for consumers; for followers the bytes as they are

Kafka 3.9 converts downwards only (KafkaApis.maybeConvertFetchedData): from version 4 on a reader gets what is stored.
Here old messages become batches, for which version 4 was made, because today's clients do not read messages well: in
flexible answers (from version 12) librdkafka 2.5.0 to 2.15.0 takes their keys and values for null, which is loss of
data (librdkafka#5504); aiokafka 0.14, which fetches with version 4, refuses the lz4 of magic 0; kafka-python needs one
more package for it; others know batches alone. All of them read batches.

Messages lie only in segments that an older Kafka has begun. A conversion is long work: it is done in steps, and begun
when there is enough for an answer. It ends after CONVERTED_BYTES_MAX, but not within a batch; the reader asks for the
rest with its next fetch.
"""

from collections.abc import Callable, Iterator

from odradek.broker.log.local_log import LogSlice, slice_of
from odradek.broker.log.rewriting import EXPANSION_MAX
from odradek.broker.replication.partition import Partition
from odradek.protocol.compression import UnknownCodec
from odradek.protocol.conversion import batches_in_steps, end_offset, messages_in_steps
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from odradek.protocol.message_set import MAGIC_V0, MAGIC_V1
from odradek.protocol.messages.fetch import FIRST_VERSION_WITH_TIMESTAMPS, LAST_VERSION_WITH_HARD_LIMIT
from odradek.protocol.primitives import Buffer
from odradek.protocol.record_batch import MAGIC_AT, MAGIC_V2
from odradek.protocol.steps import Steps
from odradek.world.files import FileRange

CONVERTED_BYTES_MAX = 256 * 1024
"""Limit of one answer; the first batch of a partition is converted whole even if it is larger."""
SKIPPED_BYTES_MAX = 16 * 1024 * 1024
"""Limit for what an old reader cannot be given (markers of transactions) and is passed over in one answer."""


class Unconverted:
    """Records of a partition, read and not converted yet. Their length is the one that they have in the log."""

    __slots__ = ("convert", "data")

    def __init__(self, data: bytes, convert: Callable[[], Steps[bytes]]) -> None:
        self.data = data
        self.convert = convert
        """Begins the conversion. Raises KafkaError."""

    def __len__(self) -> int:
        return len(self.data)


def needs_batches(partition: Partition, found: LogSlice, *, as_follower: bool) -> bool:
    """Tell whether this must be converted for a reader of version 4 or later. As formats rise, no message comes after
    a batch. Raises StorageFailure."""
    segment, records = found.segment, found.records
    if segment is None or as_follower or isinstance(records, bytes):
        return False
    try:
        if not segment.begins_with_messages:
            return False
        head = records.file.pread(MAGIC_AT + 1, records.position)
    except OSError as error:
        raise partition.log.unreadable(error) from error
    return len(head) > MAGIC_AT and head[MAGIC_AT] < MAGIC_V2


def as_batches(partition: Partition, found: LogSlice) -> Unconverted:
    """Have what was found converted to record batches. Raises StorageFailure; the conversion CORRUPT_MESSAGE."""
    data = _bytes_of(partition, found)
    return Unconverted(data, lambda: _gathered(batches_in_steps(data, compressed=True), CONVERTED_BYTES_MAX))


def as_messages(
    partition: Partition, found: LogSlice, offset: int, max_bytes: int, version: int, *, to_the_end: bool
) -> Unconverted:
    """Have what was found converted to messages of an old format, from `offset` on.

    Where nothing of it is left, what comes behind it is converted: so a reader gets past control batches, of which it
    never hears. Raises StorageFailure. The conversion raises that too, and KafkaError: UNSUPPORTED_COMPRESSION_TYPE
    when what comes next is compressed with zstd, CORRUPT_MESSAGE.
    """
    data = _bytes_of(partition, found)
    return Unconverted(data, lambda: _messages(partition, data, offset, max_bytes, version, to_the_end))


def _messages(
    partition: Partition, data: bytes, offset: int, max_bytes: int, version: int, to_the_end: bool
) -> Steps[bytes]:
    magic = MAGIC_V0 if version < FIRST_VERSION_WITH_TIMESTAMPS else MAGIC_V1
    position, skipped = offset, 0
    while True:
        # a batch may have been larger than today's max.message.bytes, or come from a leader that allows more
        limit = EXPANSION_MAX * max(partition.log.config.max_message_bytes, len(data))
        messages = yield from _gathered(messages_in_steps(data, magic, offset, limit), max_bytes)
        if messages:
            return messages[:max_bytes] if version <= LAST_VERSION_WITH_HARD_LIMIT else messages
        following = _end_offset(data, position)
        skipped += len(data)
        if following == position or skipped > SKIPPED_BYTES_MAX or partition.log.closed:
            return b""
        position = following
        found = partition.read(position, CONVERTED_BYTES_MAX, to_the_end=to_the_end, whole_first_batch=True)
        data = _bytes_of(partition, found)


def _bytes_of(partition: Partition, found: LogSlice) -> bytes:
    """Read at most CONVERTED_BYTES_MAX of what was found, but at least one whole batch."""
    records = found.records
    if isinstance(records, bytes):
        return records
    try:
        if records.length > CONVERTED_BYTES_MAX and found.segment is not None:
            less = slice_of(found.segment, records.position, records.length, CONVERTED_BYTES_MAX, True).records
            return less.read() if isinstance(less, FileRange) else less
        return records.read()
    except OSError as error:
        raise partition.log.unreadable(error) from error


def _gathered(pieces: Iterator[Buffer | None], max_bytes: int) -> Steps[bytes]:
    """Gather as many pieces as the limit allows, at least one. One that cannot be converted is an error if first."""
    gathered = bytearray()
    try:
        for piece in pieces:
            yield
            if piece is None:
                continue
            if gathered and len(gathered) + len(piece) > max_bytes:
                break
            gathered += piece
    except UnknownCodec as refused:
        if not gathered:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(refused)) from refused
    except MalformedMessage as bad:
        if not gathered:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(bad)) from bad
    return bytes(gathered)


def _end_offset(data: bytes, default: int) -> int:
    try:
        return end_offset(data, default)
    except MalformedMessage as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(bad)) from bad
