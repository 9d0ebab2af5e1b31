"""Dirty part of a log: how large it is, whether compacting it pays, and the request to the child that does it.

A log has a clean part, compacted before, then dirty segments that may be compacted, then those that may not yet.
Source: LogCleanerManager.cleanableOffsets and LogToClean of Kafka 3.9.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from odradek.broker.log.batches import iterate_headers
from odradek.broker.log.compaction.messages import LastOfProducer, Request, SegmentInfo
from odradek.broker.log.log import Log
from odradek.broker.log.producer_entry import ProducerEntry
from odradek.broker.log.segment import OFFSET_INDEX, TIME_INDEX, Segment
from odradek.broker.settings.topic_settings import NO_LIMIT_MS
from odradek.world.files import Files


class LogToClean(NamedTuple):
    """Work to be done in one log. `overdue`: a record waits for longer than `max.compaction.lag.ms`."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    """Base offset of a segment; it and those after it are left alone."""
    clean_bytes: int
    cleanable_bytes: int
    overdue: bool = False

    @property
    def ratio(self) -> float:
        """Dirty share of the bytes that may be compacted."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def pays(self, least_ratio: float) -> bool:
        """Tell whether it is time to compact the log; `least_ratio` is `min.cleanable.dirty.ratio`."""
        return self.cleanable_bytes > 0 and (self.overdue or self.ratio > least_ratio)


def first_dirty_offset(cleaned_to: int, log_start_offset: int, log_end_offset: int) -> int:
    """Return `cleaned_to` of the checkpoint if it fits the log; when it does not, all of the log is dirty."""
    return cleaned_to if log_start_offset <= cleaned_to <= log_end_offset else log_start_offset


def containing(base_offsets: Sequence[int], offset: int) -> int:
    """Return the number of the segment that `offset` is in; the first when it is before all."""
    return max(0, bisect_right(base_offsets, offset) - 1)


def dirty_part(
    segments: Sequence[tuple[int, int]], first_dirty: int, last_stable_offset: int, too_young_from: int | None
) -> LogToClean:
    """Measure a log with these segments (base offset, bytes), the active one last.

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
    return LogToClean(first_dirty, base_offsets[stop], clean_bytes, cleanable_bytes)


def log_to_clean(log: Log, high_watermark: int, now_ms: int) -> LogToClean | None:
    """Measure a log; None when all of it is the active segment, or when it is too early to say.

    Raises OSError, CorruptBatch, KafkaError.
    """
    if len(log.segments) == 1:
        return None
    if high_watermark < min(log.end_at_open, log.log_end_offset):
        return None  # after a start it is not known which ends of transactions may still be truncated
    first_dirty = first_dirty_offset(log.cleaned_to, log.log_start_offset, log.log_end_offset)
    dirty = log.segments[containing([one.base_offset for one in log.segments], first_dirty) : -1]
    too_young = _too_young_from(dirty, now_ms - log.config.min_compaction_lag_ms) if _lags(log) else None
    sizes = [(segment.base_offset, segment.size_bytes) for segment in log.segments]
    found = dirty_part(sizes, first_dirty, _certain_end(log, first_dirty, high_watermark), too_young)
    if log.config.max_compaction_lag_ms == NO_LIMIT_MS or not found.cleanable_bytes:
        return found
    return found._replace(overdue=_is_overdue(log, dirty, now_ms - log.config.max_compaction_lag_ms))


def _certain_end(log: Log, first_dirty: int, high_watermark: int) -> int:
    """Return the offset up to which records may be removed. None may go because of a newer value, or of the end of a
    transaction, that is not on the disk yet: a power failure may take that away."""
    on_disk = log.recovery_point
    end = min(log.last_stable_offset(high_watermark), on_disk)
    aborted = log.aborted_transactions(first_dirty, end)
    return min([end, *(one.first_offset for one in aborted if one.last_offset >= on_disk)])


def _lags(log: Log) -> bool:
    return log.config.min_compaction_lag_ms > 0


def _too_young_from(dirty: list[Segment], latest_ms: int) -> int | None:
    for segment in dirty:
        if segment.retention_timestamp_ms() > latest_ms:
            return segment.base_offset
    return None


def _is_overdue(log: Log, dirty: list[Segment], until_ms: int) -> bool:
    """Tell whether a segment begins with a batch older than `until_ms` (LogCleanerManager.maxCompactionDelay)."""
    for segment in dirty:
        log.use(segment)
        first = next(iterate_headers(segment.file, 0, segment.size_bytes), None)
        if first is not None and 0 < first.max_timestamp_ms < until_ms:
            return True
    return False


def make_request(log: Log, dirty: LogToClean, now_ms: int, map_bytes: int, map_load_factor: float) -> Request:
    """Make the request that tells a child what to do with a log. Raises OSError, KafkaError."""
    config = log.config
    start, end = log.segments[0].base_offset, dirty.first_uncleanable_offset
    infos = [_info(log.environment.files, one) for one in log.segments if one.base_offset < end]
    clean = [info for info in infos if info.base_offset < dirty.first_dirty_offset]
    return Request(
        directory=log.directory,
        segments=infos,
        first_dirty_offset=dirty.first_dirty_offset,
        first_uncleanable_offset=end,
        producers=_last_of_producers(log, end),
        aborted=log.aborted_transactions(start, end),
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        old_tombstones_until_ms=clean[-1].modified_ms - config.delete_retention_ms if clean else 0,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        map_bytes=map_bytes,
        map_load_factor=map_load_factor,
    )


def _info(files: Files, segment: Segment) -> SegmentInfo:
    return SegmentInfo(
        segment.base_offset,
        segment.size_bytes,
        _size(files, segment.path(OFFSET_INDEX)),
        _size(files, segment.path(TIME_INDEX)),
        segment.modified_ms(),
    )


def _size(files: Files, path: str) -> int:
    """Return the size of a file; 0 when it is missing: it is rebuilt when somebody needs it."""
    try:
        return files.size(path)
    except FileNotFoundError:
        return 0


def _last_of_producers(log: Log, end_offset: int) -> list[LastOfProducer]:
    """Look before `end_offset` alone: a newer batch may not be replicated, and be cut off again."""
    return [
        LastOfProducer(one.producer_id, _last_before(one, end_offset), one.epoch)
        for one in log.producers.producers.values()
    ]


def _last_before(producer: ProducerEntry, end_offset: int) -> int:
    """Return the last offset of the newest remembered batch before that, else of the newest; -1 when there is none."""
    offsets = [batch.last_offset for batch in producer.batches]
    return max([one for one in offsets if one < end_offset] or offsets[-1:] or [-1])
