"""Kafka's small text files of offsets: a version line, a count line, one line per entry.

One per log directory: `recovery-point-offset-checkpoint`, `replication-offset-checkpoint` (high watermarks),
`log-start-offset-checkpoint`, `cleaner-offset-checkpoint`. One per partition: `leader-epoch-checkpoint`.
Source: org.apache.kafka.server.common.CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile.
"""

from collections.abc import Iterable, Mapping

from odradek.broker.log.errors import CorruptFile
from odradek.protocol.record_batch import MAX_INT32, MAX_INT64
from odradek.protocol.topic_names import PartitionKey

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"

VERSION = 0

Offsets = dict[PartitionKey, int]


def encode_lines(lines: list[str]) -> bytes:
    """Return a checkpoint of these entries, none of which ends with a newline."""
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode()


def offset_line(key: PartitionKey, offset: int) -> str:
    """Return the entry of one partition."""
    return f"{key[0]} {key[1]} {offset}"


def _decode(data: bytes, fields: int) -> Iterable[list[str]]:
    """Split the entries; an empty file has none. Raises CorruptFile when version, count or a line is wrong."""
    if not data:
        return []
    try:
        lines = data.decode().splitlines()
        version, count = int(lines[0]), int(lines[1])
    except (ValueError, IndexError) as error:
        raise CorruptFile(f"not a checkpoint: {error}") from None
    if version != VERSION:
        raise CorruptFile(f"checkpoint version {version}, expected {VERSION}")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != count or not data.endswith(b"\n"):
        raise CorruptFile(f"{len(entries)} entries, expected {count}")
    if any(len(entry) != fields for entry in entries):
        raise CorruptFile(f"a line does not have {fields} fields")
    return entries


def encode_offsets(offsets: Mapping[PartitionKey, int]) -> bytes:
    """Return a checkpoint of offsets by partition."""
    return encode_lines([offset_line(key, offset) for key, offset in offsets.items()])


def _number(text: str, least: int, largest: int) -> int:
    """Read a number from `least` to `largest`, the range of a field in a batch. Raises ValueError."""
    number = int(text)
    if not least <= number <= largest:
        raise ValueError(f"{number} is not between {least} and {largest}")
    return number


def decode_offsets(data: bytes) -> Offsets:
    """Decode a checkpoint of offsets by partition; a negative one, which Kafka accepts, counts as 0. Raises
    CorruptFile."""
    try:
        entries = _decode(data, 3)
        return {
            (topic, int(partition)): max(_number(offset, -MAX_INT64, MAX_INT64), 0)
            for topic, partition, offset in entries
        }
    except ValueError as error:
        raise CorruptFile(f"not a number: {error}") from None


def encode_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """Return a checkpoint of (leader epoch, start offset)."""
    return encode_lines([f"{epoch} {start_offset}" for epoch, start_offset in epochs])


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    """Decode a checkpoint of (leader epoch, start offset). Raises CorruptFile."""
    try:
        return [(_number(epoch, 0, MAX_INT32), _number(start, 0, MAX_INT64)) for epoch, start in _decode(data, 2)]
    except ValueError as error:
        raise CorruptFile(f"not a number: {error}") from None
