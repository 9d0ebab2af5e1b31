"""The child process that compacts one log: what is asked comes on stdin, answers go to stdout.

It fills the map from the dirty segments, then writes each group of segments anew as `.cleaned` files.

It works on paths alone; it reads files that no longer change and writes names that nobody else uses.
"""

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from odradek.broker.log.batches import Batch, decode_header, iterate_valid
from odradek.broker.log.compaction.filter import Filter, WalkedTransactions, end_mark, keys_of_any
from odradek.broker.log.compaction.messages import Cleaned, Failed, Finished, Request, SegmentInfo, encode_answer
from odradek.broker.log.compaction.offset_map import OffsetMap, RecordVerdicts
from odradek.broker.log.index import LARGEST_RELATIVE_OFFSET
from odradek.broker.log.segment import CLEANED, LOG, SUFFIXES, TRANSACTION_INDEX, Segment
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import KafkaError, MalformedMessage
from odradek.protocol.record_batch import HEADER_BYTES
from odradek.world.child_process import main
from odradek.world.files import Files

WRITE_BUFFER_BYTES = 256 * 1024

Moved = Callable[[int], None]
"""Listener to the bytes read or written as they add up; may wait, or raise when nobody wants the result any more."""


class CleanedSegment(Segment):
    """A segment whose files are called `.cleaned`."""

    __slots__ = ()

    def path(self, suffix: str) -> str:
        return super().path(suffix) + CLEANED


class Compactor:
    """Worker for one request. `run` yields each group when its files are on the disk."""

    def __init__(self, files: Files, request: Request, moved: Moved) -> None:
        self._files = files
        self._request = request
        self._moved = moved
        self._config = LogConfig(
            segment_bytes=request.segment_bytes,
            segment_index_bytes=request.segment_index_bytes,
            index_interval_bytes=request.index_interval_bytes,
        )
        span = request.first_uncleanable_offset - request.first_dirty_offset
        self._map = OffsetMap(request.map_bytes, request.map_load_factor, span)
        self._verdicts = RecordVerdicts(request.first_dirty_offset, request.first_uncleanable_offset)
        self._read_bytes = self._written_bytes = 0

    def run(self) -> Iterator[Cleaned | Finished]:
        """Compact the log; yield each group that is ready, then the end.

        Raises OSError, CorruptBatch, and KafkaError for a damaged transaction marker.
        """
        request = self._request
        fill_map(self._map, self._verdicts, self._batches, request)
        end_offset = self._map.latest_offset + 1
        reached = [info for info in request.segments if info.base_offset < end_offset]
        following = len(reached)
        end = request.first_uncleanable_offset
        if following < len(request.segments):
            end = request.segments[following].base_offset
        kept = Filter(request, self._map, self._verdicts)
        for group in group_segments(reached, request.segment_bytes, request.segment_index_bytes, end):
            size = self._write_group(group, kept)
            yield Cleaned([info.base_offset for info in group], size)
        yield Finished(end_offset, self._read_bytes, self._written_bytes, self._map.entries)

    def _batches(self, info: SegmentInfo) -> Iterator[tuple[Batch, bytes]]:
        """Yield all batches of a segment, checked, with their bytes."""
        segment = self._segment(info)
        told = 0
        for batch, content in iterate_valid(segment.file, info.size_bytes) if info.size_bytes else ():
            yield batch, content
            if batch.next_position - told >= WRITE_BUFFER_BYTES:
                self._moved(batch.next_position - told)
                told = batch.next_position
        self._moved(info.size_bytes - told)
        self._read_bytes += info.size_bytes

    def _segment(self, info: SegmentInfo) -> Segment:
        segment = Segment(self._files, self._request.directory, info.base_offset, self._config, 0)
        segment.load_size()
        return segment

    def _write_group(self, group: Sequence[SegmentInfo], kept: Filter) -> int:
        """Write the cleaned segment of a group; return its size in bytes."""
        writer = Writer(self._files, self._request.directory, group[0].base_offset, self._config, self._moved)
        last: Batch | None = None
        for info in group:
            kept.keep_old_tombstones = info.modified_ms > self._request.old_tombstones_until_ms
            for batch, content in self._batches(info):
                left = kept.keep(batch, content)
                if left is not None:
                    writer.write(left, batch if left is content else header_of(left))
                last = batch
            writer.note_aborted(kept)
        if len(group) > 1 and last is not None and writer.last_offset < min(last.last_offset, group[-1].base_offset):
            mark = end_mark(last)  # what replaces several segments reaches into the last of them: see recovery
            writer.write(mark, header_of(mark))
        size = writer.finish(group[-1].modified_ms)
        self._written_bytes += size
        return size


def fill_map(
    offset_map: OffsetMap,
    verdicts: RecordVerdicts,
    batches: Callable[[SegmentInfo], Iterator[tuple[Batch, bytes]]],
    request: Request,
) -> None:
    """Put the dirty records into the map until all are in or it is full (Cleaner.buildOffsetMap)."""
    start, segments = request.first_dirty_offset, request.segments
    transactions = WalkedTransactions(request.aborted, start)
    for number, info in enumerate(segments):
        last = number + 1 == len(segments)
        end = request.first_uncleanable_offset if last else segments[number + 1].base_offset
        if end <= start:
            continue
        for batch, content in batches(info):
            if batch.last_offset < start:
                continue
            if batch.is_control:
                transactions.marker(batch, content)
            elif not transactions.data(batch) and not _put(offset_map, verdicts, batch, content, start):
                return
            offset_map.latest_offset = batch.last_offset
        offset_map.latest_offset = end - 1


def _put(offset_map: OffsetMap, verdicts: RecordVerdicts, batch: Batch, content: bytes, start: int) -> bool:
    """Put the keys of a batch into the map; tell whether all of them found room."""
    records = keys_of_any(batch, content)
    first = bisect_left(records.offsets, start)
    superseded = offset_map.put(records.offsets[first:], records.keys[first:])
    verdicts.learn(batch, records.verdicts, superseded)
    return first + len(superseded) == len(records.keys)


def header_of(content: bytes | bytearray) -> Batch:
    """Decode the header of a batch of any message format."""
    return decode_header(content if len(content) >= HEADER_BYTES else content + bytes(HEADER_BYTES), 0, 0)


class Writer:
    """The `.cleaned` files of one group."""

    def __init__(self, files: Files, directory: str, base_offset: int, config: LogConfig, moved: Moved) -> None:
        self.last_offset = -1
        self._files = files
        self._moved = moved
        self._segment = CleanedSegment(files, directory, base_offset, config, 0)
        self._buffer = bytearray()
        for suffix in SUFFIXES:
            if files.exists(self._segment.path(suffix)):
                files.remove(self._segment.path(suffix))
        _ = self._segment.file

    def write(self, content: bytes | bytearray, batch: Batch) -> None:
        """Write a whole batch, of which `batch` is the header."""
        position = self._segment.size_bytes + len(self._buffer)
        self._segment.note(batch.last_offset, position, len(content), batch.largest_timestamp_ms)
        self._buffer += content
        self.last_offset = batch.last_offset
        if len(self._buffer) >= WRITE_BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._segment.append(self._buffer)
        self._moved(len(self._buffer))
        self._buffer = bytearray()

    def note_aborted(self, kept: Filter) -> None:
        """Take over what the transaction index has to say of the segment that was just read."""
        for aborted in kept.aborted:
            self._segment.transactions.append(aborted)
        kept.aborted.clear()

    def finish(self, modified_ms: int) -> int:
        """Bring all files to the disk, dated as the newest of the old ones; return the size in bytes."""
        segment = self._segment
        if self._buffer:
            self._flush()
        segment.sync()
        segment.time_index.append_if_larger(*segment.largest_timestamp)
        segment.write_indexes(sync=True)
        if self._files.exists(segment.path(TRANSACTION_INDEX)):
            self._files.open(segment.path(TRANSACTION_INDEX)).sync()
        self._files.set_modified_ms(segment.path(LOG), modified_ms)
        return segment.size_bytes


def group_segments(
    infos: Sequence[SegmentInfo], segment_bytes: int, index_bytes: int, end_offset: int
) -> list[list[SegmentInfo]]:
    """Group consecutive segments that fit into one, by size, by the sizes of their indexes, and by the span of offsets.

    `end_offset` is where the last info ends. What is alone too large stays alone.
    """
    groups: list[list[SegmentInfo]] = []
    for number, info in enumerate(infos):
        end = infos[number + 1].base_offset if number + 1 < len(infos) else end_offset
        if groups and _fits(groups[-1], info, end, segment_bytes, index_bytes):
            groups[-1].append(info)
        else:
            groups.append([info])
    return groups


def _fits(group: list[SegmentInfo], info: SegmentInfo, end_offset: int, segment_bytes: int, index_bytes: int) -> bool:
    return (
        sum(one.size_bytes for one in group) + info.size_bytes <= segment_bytes
        and sum(one.index_bytes for one in group) + info.index_bytes <= index_bytes
        and sum(one.time_index_bytes for one in group) + info.time_index_bytes <= index_bytes
        and end_offset - 1 - group[0].base_offset <= LARGEST_RELATIVE_OFFSET
    )


def work(files: Files, request: bytes, moved: Moved) -> Iterator[bytes]:
    """Do what is asked, and yield answers, one line each; the last is Finished or Failed."""
    asked = Request.decode(request)
    try:
        for answer in Compactor(files, asked, moved).run():
            yield encode_answer(answer)
    except OSError as error:
        yield encode_answer(Failed(error.errno or 0, f"{error}"))
    except (MalformedMessage, KafkaError) as error:
        yield encode_answer(Failed(0, f"{asked.directory}: {error}"))


if __name__ == "__main__":
    sys.exit(main(work, gives_way=True))
