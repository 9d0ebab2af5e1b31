"""Dropping the end of a log, or all of it: a follower that has to agree with its leader.

File and directory are synced before the next append, so that no crash can bring the dropped end, a segment or a
snapshot back beside the data that took its place.
"""

import logging
from typing import TYPE_CHECKING

from odradek.broker.log import listing
from odradek.broker.log.batches import iterate_headers, iterate_of_producers
from odradek.broker.log.control import learn
from odradek.broker.log.producer_state import ProducerState
from odradek.broker.log.retention import remove_segments
from odradek.broker.log.segment import LOG, Segment
from odradek.broker.log.snapshots import Snapshots
from odradek.broker.log.storage import Storage
from odradek.broker.log.transaction_index import AbortedTransaction
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import CorruptBatch

if TYPE_CHECKING:
    from odradek.broker.log.log import Log

logger = logging.getLogger(__name__)

RECALL_BYTES = 1024 * 1024
"""So much of a log's end is looked at for batches that a snapshot does not name."""
RECALL_AGE_MS = 10 * 60 * 1000
"""A producer that has been silent for longer has given up (delivery.timeout.ms is 2 minutes by default)."""


def truncate_to(log: "Log", offset: int) -> bool:
    """Drop all at or after `offset`, and what is left of a batch that it cuts. Whether there was anything."""
    assert offset >= 0, offset
    if offset >= log.log_end_offset:
        if log.epochs.truncate_from_end(log.log_end_offset):
            log.write_epochs()
        return False
    logger.info("%s: truncating to offset %d", log, offset)
    if offset <= log.log_start_offset:
        start_over(log, offset)
        return True
    try:
        remove_segments(log, [segment for segment in log.segments if segment.base_offset > offset])
        log.log_end_offset = log.active.truncate_to(offset, log.storage.clock.now_ms())
        log.segments_changed()
        log.storage.open_segments.forget(log.active)
        if log.log_end_offset < log.log_start_offset:
            start_over(log, log.log_start_offset)
            return True
        log.went_back_to(log.log_end_offset)
        log.producers = rebuild_producers(
            log.storage, log.segments, log.snapshots, log.log_start_offset, log.log_end_offset
        )
        log.active.sync()
        log.storage.files.sync_directory(log.directory)
    except CorruptBatch as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic}-{log.partition}: {bad}") from bad
    except OSError as error:
        raise log.failed(error) from error
    if log.epochs.truncate_from_end(log.log_end_offset):
        log.write_epochs()
    return True


def start_over(log: "Log", offset: int) -> None:
    """Drop everything; the log is empty and begins at `offset`."""
    logger.info("%s: starting over at offset %d", log, offset)
    try:
        remove_segments(log, list(log.segments))
        log.segments = [listing.new_segment(log.storage, log.directory, offset, log.config)]
        log.segments_changed()
        log.snapshots.remove_outside(offset, offset)
        log.storage.files.sync_directory(log.directory)
    except OSError as error:
        raise log.failed(error) from error
    log.log_start_offset = log.log_end_offset = offset
    log.went_back_to(0)
    log.recovery_point = offset
    log.producers = ProducerState(offset)
    log.epochs.clear()
    log.write_epochs()


def rebuild_producers(
    storage: Storage, segments: list[Segment], snapshots: Snapshots, start_offset: int, end_offset: int
) -> ProducerState:
    """The state at `end_offset`: the newest snapshot, and all batches since. Raises OSError, CorruptBatch."""
    snapshots.remove_outside(start_offset, end_offset)
    state = snapshots.load(start_offset, storage.clock.now_ms(), storage.producer_expiration_ms)
    _recall_batches(state, segments, storage.clock.now_ms())
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        if following > state.map_end_offset:
            _learn_segment(state, segment, state.map_end_offset)
            if number + 1 < len(segments):
                segment.release()
    state.map_end_offset = end_offset
    return state


def _recall_batches(state: ProducerState, segments: list[Segment], now_ms: int) -> None:
    """A snapshot names a producer's newest batch alone, but a producer may repeat any of its last five.

    A broker that does not know those again answers OUT_OF_ORDER_SEQUENCE_NUMBER, and the producer numbers them anew:
    duplicates. So the last batches before the snapshot are looked at, when a producer may still be repeating.
    """
    waiting = {
        producer_id: producer
        for producer_id, producer in state.producers.items()
        if len(producer.batches) == 1 and now_ms - producer.last_timestamp_ms < RECALL_AGE_MS
    }
    segment = next((s for s in reversed(segments) if s.base_offset < state.map_end_offset and s.size_bytes), None)
    if not waiting or segment is None:
        return
    earlier = ProducerState()
    try:
        end = segment.locate(state.map_end_offset)
        begin = segment.offset_index.batch_at_or_before(max(end - RECALL_BYTES, 0))
        for batch in iterate_headers(segment.file, begin, end):
            if batch.producer_id in waiting and not batch.is_control:
                learn(earlier, batch, b"")
    except CorruptBatch as bad:  # old damage: whoever reads there is told; the snapshot does for the producers
        logger.warning("%s: %s; earlier batches of its producers are not known", segment.path(LOG), bad)
        return
    for producer_id, found in earlier.producers.items():
        producer = waiting[producer_id]
        if found.epoch == producer.epoch and found.batches[-1][:4] == producer.batches[0][:4]:
            producer.batches[:] = found.batches


def _learn_segment(state: ProducerState, segment: Segment, offset: int) -> None:
    """All batches from `offset` on; aborted transactions that the segment's index has not are added to it."""
    known = {aborted.last_offset for aborted in segment.aborted_transactions()}
    position = segment.locate(max(offset, segment.base_offset)) if segment.size_bytes else 0
    for batch in iterate_of_producers(segment.file, position, segment.size_bytes) if segment.size_bytes else ():
        content = segment.file.pread(batch.size_bytes, batch.position) if batch.is_control else b""
        completed = learn(state, batch, content)
        if completed is None:
            continue
        if completed.aborted and completed.last_offset not in known:
            segment.append_aborted(AbortedTransaction(*completed[:3], state.stable_offset_after(completed)))
        state.complete(completed)
