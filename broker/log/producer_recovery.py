"""The producer state at an offset: the newest snapshot, and every batch since.

Source: UnifiedLog.rebuildProducerState of Kafka 3.9. Beyond Kafka, the last batches before the snapshot are looked at,
so that a producer that was interrupted by a restart is known by all of its last five batches.
"""

import logging
from collections.abc import Container

from odradek.broker.log.batches import iterate_headers_of_producers
from odradek.broker.log.errors import CorruptFile
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.producer_snapshots import Snapshots
from odradek.broker.log.producer_state import ProducerState
from odradek.broker.log.segment import LOG, TRANSACTION_INDEX, Segment
from odradek.broker.log.transaction_index import AbortedTransaction
from odradek.protocol.errors import KafkaError
from odradek.protocol.record_batch import CorruptBatch

logger = logging.getLogger(__name__)

RECALL_BYTES = 1024 * 1024
"""Bytes of a log's end that are looked at for batches that a snapshot does not name."""
LARGE_BATCHES_MAX = 64
RECALL_BYTES_OF_LARGE = 16 * RECALL_BYTES
"""Bytes that are looked at when batches are large: at most LARGE_BATCHES_MAX batches of producers fill half of
`RECALL_BYTES` or more. So few are looked at as quickly."""
RECALL_AGE_MS = 10 * 60 * 1000
"""Time since the last write to a log when nobody repeats batches any more (delivery.timeout.ms is 2 minutes)."""
RECALL_BYTES_OF_OLD = 128 * 1024
"""Bytes that are looked at all the same: a log that was written just now looks old after a leap of the clock, as when a
suspended machine goes on."""


def rebuild_producers(
    environment: LogEnvironment,
    segments: list[Segment],
    snapshots: Snapshots,
    end_offset: int,
    doubtful_from: int | None = None,
) -> ProducerState:
    """Return the state at `end_offset`, and snapshots at the last two segments and there. Raises OSError.

    It is learned from the first segment on, also before the log start offset: producers whose last batches are deleted
    are known after a restart as before it, so that a repeated batch is not written twice. (Kafka forgets them then.)

    What was derived from the segments from `doubtful_from` on, snapshots and transaction indexes, is made anew: they
    were recovered, so it may tell of batches that are not there any more.
    """
    first_offset = segments[0].base_offset
    snapshots.keep_of_segments([segment.base_offset for segment in segments])
    snapshots.remove_after(end_offset if doubtful_from is None else min(doubtful_from, end_offset))
    state = snapshots.load(first_offset, environment.clock.now_ms(), environment.producer_expiration_ms)
    _recall_batches(state, segments, environment.clock.now_ms())
    loaded_to = state.map_end_offset
    cleared: list[Segment] = []
    for number, segment in enumerate(segments):
        last = number + 1 == len(segments)
        if doubtful_from is not None and segment.base_offset >= doubtful_from and segment.transactions.clear():
            cleared.append(segment)
        if (end_offset if last else segments[number + 1].base_offset) <= loaded_to:
            continue
        state.map_end_offset = max(segment.base_offset, loaded_to)
        if segment.base_offset > max(first_offset, loaded_to) and number + 2 >= len(segments):
            snapshots.write(state)
        if last or not segments[number + 1].begins_with_messages:  # else it has messages alone, without producer ids
            _learn_what_is_good(state, segment)
        if not last:
            segment.release()
    for segment in cleared:  # no flush will come back to those before the recovery point
        segment.transactions.sync()
        environment.files.sync_directory(segment.path(TRANSACTION_INDEX).rpartition("/")[0])
    state.map_end_offset = end_offset
    if end_offset > max(first_offset, loaded_to):
        snapshots.write(state)
    return state


def first_damaged_index(segments: list[Segment], names: list[str], end_offset: int) -> int | None:
    """Return the base offset of the first segment whose transaction index makes no sense in a log that ends there.

    `names` are the files there are. A last stable offset may lie behind its marker: a follower of Kafka's takes several
    batches at once, and knows of a transaction that begins behind the marker when it writes the entry.
    """
    present = {name for name in names if name.endswith(TRANSACTION_INDEX)}
    for segment in segments:
        if segment.path(TRANSACTION_INDEX).rpartition("/")[2] not in present:
            continue
        try:
            for one in segment.transactions.entries():
                if one.last_stable_offset > end_offset or one.last_offset < segment.base_offset:
                    raise CorruptFile(f"transaction index with {one} in a log that ends at {end_offset}")
        except CorruptFile as bad:
            logger.warning("%s: %s; it is rebuilt from the batches", segment.path(TRANSACTION_INDEX), bad)
            return segment.base_offset
    return None


def _recall_batches(state: ProducerState, segments: list[Segment], now_ms: int) -> None:
    """Recall the batches of producers before their newest, which alone a snapshot names.

    A producer may repeat any of its last five. A broker that does not know those again answers
    OUT_OF_ORDER_SEQUENCE_NUMBER, and the producer numbers them anew: duplicates. So the last batches before the
    snapshot are looked at: more of them when a producer may still be repeating.
    """
    waiting = {producer_id: producer for producer_id, producer in state.producers.items() if len(producer.batches) == 1}
    if not waiting:
        return
    try:
        earlier, are_large = _last_batches(segments, waiting, state.map_end_offset, now_ms, RECALL_BYTES)
        if are_large:
            earlier, _ = _last_batches(segments, waiting, state.map_end_offset, now_ms, RECALL_BYTES_OF_LARGE)
    except CorruptBatch as bad:  # old damage: whoever reads there is told; the snapshot does for the producers
        logger.warning("%s: %s; earlier batches of its producers are not known", segments[-1].path(""), bad)
        return
    for producer_id, found in earlier.producers.items():
        producer = waiting[producer_id]
        if found.epoch == producer.epoch and found.batches[-1][:4] == producer.batches[0][:4]:
            producer.batches[:] = found.batches


def _last_batches(
    segments: list[Segment], wanted: Container[int], end_offset: int, now_ms: int, size_bytes: int
) -> tuple[ProducerState, bool]:
    """Return what the last bytes before `end_offset` tell of the `wanted` producers, and whether batches are large."""
    found, count, their_bytes = ProducerState(), 0, 0
    for segment, begin, end in _lately_written(segments, end_offset, now_ms, size_bytes):
        for batch in iterate_headers_of_producers(segment.file, begin, end):
            count, their_bytes = count + 1, their_bytes + batch.size_bytes
            if batch.producer_id in wanted and not batch.is_control:
                found.append(batch, b"")
    return found, count <= LARGE_BATCHES_MAX and their_bytes >= RECALL_BYTES // 2


def _lately_written(
    segments: list[Segment], end_offset: int, now_ms: int, size_bytes: int
) -> list[tuple[Segment, int, int]]:
    """Return the last bytes before `end_offset`, in order: segments with the positions where to begin and to end."""
    found: list[tuple[Segment, int, int]] = []
    found_bytes = 0
    for segment in reversed(segments):
        if segment.base_offset >= end_offset or not segment.size_bytes:
            continue
        if now_ms - segment.modified_ms() >= RECALL_AGE_MS:
            size_bytes = min(size_bytes, RECALL_BYTES_OF_OLD)
        if found_bytes >= size_bytes:
            break
        end = segment.locate(end_offset)
        begin = segment.position_before(segment.offset_index.offset_before(max(end - size_bytes + found_bytes, 0)))
        found.append((segment, begin, end))
        found_bytes += end - begin
    return found[::-1]


def _learn_what_is_good(state: ProducerState, segment: Segment) -> None:
    """Learn the producers of a segment up to its first damage, which is logged and does not keep the log closed."""
    try:
        _learn_segment(state, segment, state.map_end_offset)
    except (CorruptBatch, CorruptFile, KafkaError) as bad:
        logger.error("%s: %s; producers that wrote after that are not known from it", segment.path(LOG), bad)


def _learn_segment(state: ProducerState, segment: Segment, offset: int) -> None:
    """Learn from all batches from `offset` on; aborted transactions that the segment's index lacks are added."""
    if not segment.size_bytes:
        return
    known = {aborted.last_offset for aborted in segment.transactions.entries()}
    position = segment.locate(max(offset, segment.base_offset))
    for batch in iterate_headers_of_producers(segment.file, position, segment.size_bytes):
        content = segment.file.pread(batch.size_bytes, batch.position) if batch.is_control else b""
        completed = state.append(batch, content)
        if completed is None:
            continue
        if completed.aborted and completed.last_offset not in known:
            segment.transactions.append(AbortedTransaction(*completed[:3], state.stable_offset_after(completed)))
        state.complete(completed)
