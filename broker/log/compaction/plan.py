"""What of a log is dirty, whether compacting it pays, and which segments become one: numbers in, numbers out.

A log has a clean part, compacted before, then dirty segments that may be compacted, then those that may not yet.
Source: LogCleanerManager.cleanableOffsets, LogToClean, Cleaner.groupSegmentsBySize of Kafka 3.9.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from odradek.broker.log.index import LARGEST_RELATIVE_OFFSET


class Piece(NamedTuple):
    """A segment as the plan sees it, sizes in bytes."""

    base_offset: int
    size_bytes: int
    index_bytes: int = 0
    time_index_bytes: int = 0
    modified_ms: int = 0


class Dirty(NamedTuple):
    """What there is to do in one log. `overdue`: a record waits for longer than `max.compaction.lag.ms`."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    """Where a segment begins; it and those after it are left alone."""
    clean_bytes: int
    cleanable_bytes: int
    overdue: bool = False

    @property
    def ratio(self) -> float:
        """How much of what may be compacted is dirty."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def pays(self, least_ratio: float) -> bool:
        """Whether it is time to compact; `least_ratio` is `min.cleanable.dirty.ratio`."""
        return self.cleanable_bytes > 0 and (self.overdue or self.ratio > least_ratio)


def first_dirty_offset(cleaned_to: int, log_start_offset: int, log_end_offset: int) -> int:
    """`cleaned_to` of the checkpoint, as far as it fits the log; when it does not, all of the log is dirty."""
    return cleaned_to if log_start_offset <= cleaned_to <= log_end_offset else log_start_offset


def containing(base_offsets: Sequence[int], offset: int) -> int:
    """The number of the segment that `offset` is in; the first when it is before all."""
    return max(0, bisect_right(base_offsets, offset) - 1)


def dirty_part(
    segments: Sequence[tuple[int, int]], first_dirty: int, last_stable_offset: int, too_young_from: int | None
) -> Dirty:
    """Of a log with these segments (base offset, bytes), the active one last.

    `too_young_from`: base offset of the first dirty segment that `min.compaction.lag.ms` still protects.
    """
    base_offsets = [base_offset for base_offset, _ in segments]
    limits = [last_stable_offset, base_offsets[-1]]
    if too_young_from is not None:
        limits.append(too_young_from)
    stop = containing(base_offsets, max(first_dirty, min(limits)))
    start = min(stop, containing(base_offsets, first_dirty))
    clean_bytes = sum(size for base_offset, size in segments[:stop] if base_offset < first_dirty)
    cleanable_bytes = sum(size for _, size in segments[start:stop])
    return Dirty(first_dirty, base_offsets[stop], clean_bytes, cleanable_bytes)


def group_segments(pieces: Sequence[Piece], segment_bytes: int, index_bytes: int, end_offset: int) -> list[list[Piece]]:
    """Consecutive segments that fit into one, by size, by the sizes of their indexes, and by the span of offsets.

    `end_offset` is where the last piece ends. What is alone too large stays alone.
    """
    groups: list[list[Piece]] = []
    for number, piece in enumerate(pieces):
        end = pieces[number + 1].base_offset if number + 1 < len(pieces) else end_offset
        if groups and _fits(groups[-1], piece, end, segment_bytes, index_bytes):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _fits(group: list[Piece], piece: Piece, end_offset: int, segment_bytes: int, index_bytes: int) -> bool:
    return (
        sum(one.size_bytes for one in group) + piece.size_bytes <= segment_bytes
        and sum(one.index_bytes for one in group) + piece.index_bytes <= index_bytes
        and sum(one.time_index_bytes for one in group) + piece.time_index_bytes <= index_bytes
        and end_offset - 1 - group[0].base_offset <= LARGEST_RELATIVE_OFFSET
    )
