"""Messages between the loop and the child that compacts: one line of JSON each."""

import json
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from odradek.broker.log.transaction_index import AbortedTransaction


class SegmentInfo(NamedTuple):
    """A segment to be compacted, sizes in bytes."""

    base_offset: int
    size_bytes: int
    index_bytes: int = 0
    time_index_bytes: int = 0
    modified_ms: int = 0


class LastOfProducer(NamedTuple):
    """Place of the newest batch of an active producer; -1 when all that is known of it are transaction markers."""

    producer_id: int
    last_data_offset: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Compact one log. Settings have Kafka's names; offsets are absolute, sizes in bytes, times in milliseconds."""

    directory: str
    segments: list[SegmentInfo]
    """Segments before `first_uncleanable_offset`, which is where the next one begins."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    producers: list[LastOfProducer]
    aborted: list[AbortedTransaction]
    """Aborted transactions whose data or marker may lie in the segments."""
    now_ms: int
    delete_retention_ms: int
    old_tombstones_until_ms: int
    """Tombstones of message formats 0 and 1 go with segments that were last changed before."""
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    map_load_factor: float

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> "Request":
        fields: dict[str, Any] = json.loads(data)
        fields["segments"] = [SegmentInfo(*one) for one in fields["segments"]]
        fields["producers"] = [LastOfProducer(*one) for one in fields["producers"]]
        fields["aborted"] = [AbortedTransaction(*one) for one in fields["aborted"]]
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A group is written as `.cleaned` files, safe on the disk, and may take the place of these segments."""

    base_offsets: list[int]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Message that all groups are written: the log is clean before `end_offset`."""

    end_offset: int
    bytes_read: int
    bytes_written: int
    keys: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Failure of the work. `errno`: of the disk, 0 when the data is damaged."""

    errno: int
    reason: str


Answer = Cleaned | Finished | Failed
ANSWERS: dict[str, type[Cleaned] | type[Finished] | type[Failed]] = {
    "cleaned": Cleaned,
    "finished": Finished,
    "failed": Failed,
}


def encode_answer(answer: Answer) -> bytes:
    """Encode an answer as one line."""
    kind = next(kind for kind, one in ANSWERS.items() if isinstance(answer, one))
    return json.dumps({kind: asdict(answer)}, separators=(",", ":")).encode() + b"\n"


def decode_answer(line: bytes) -> Answer:
    """Decode an answer of the child. Raises ValueError for what is not one."""
    try:
        ((kind, fields),) = json.loads(line).items()
        return ANSWERS[kind](**fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an answer: {line!r}") from error
