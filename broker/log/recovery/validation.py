"""Validation after an unclean stop: every batch from some segment on is checked, and what is damaged goes for good.

What has been cut off must not come back with the next power failure, beside what was written in its place.
Source: LogLoader.recoverLog, LogSegment.recover of Kafka 3.9.
"""

import logging
from collections.abc import Sequence

from odradek.broker.log.batches import Batch, iterate_headers, iterate_valid
from odradek.broker.log.index import LARGEST_RELATIVE_OFFSET
from odradek.broker.log.leader_epochs import LeaderEpochs
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.segment import LOG, SUFFIXES, Segment
from odradek.protocol.record_batch import CorruptBatch

logger = logging.getLogger(__name__)


def recover_segments(
    environment: LogEnvironment, segments: list[Segment], first: int, epochs: LeaderEpochs, *, gaps_before: int
) -> None:
    """Validate segments from number `first` on, rebuild their indexes, cut at the first damage. Raises OSError.

    Up to `gaps_before` a segment may begin later than the one before it ends, as in a compacted log. Elsewhere that
    means that the end of one was lost while the next was on the disk already. Up to there a segment before another one
    may also span more offsets than an index can name, as compaction in Kafka up to 1.1 left some (KAFKA-6264).
    """
    previous_offset = segments[first].base_offset - 1 if segments else -1
    for number in range(first, len(segments)):
        segment = segments[number]
        gap = segment.base_offset - previous_offset - 1
        if 0 < gap <= LARGEST_RELATIVE_OFFSET and segment.base_offset > gaps_before:
            logger.warning("%s: the records before it, from %d on, are lost", segment.path(LOG), previous_offset + 1)
            _end_with(environment, segments, number - 1, segments[number - 1].size_bytes)
            return
        previous_offset = max(previous_offset, segment.base_offset - 1)
        last = number + 1 == len(segments)
        far_before = 0 if last else min(gaps_before, segments[number + 1].base_offset)
        previous_offset, valid_bytes = _validate(segment, epochs, previous_offset, far_before)
        if valid_bytes < segment.size_bytes:
            _end_with(environment, segments, number, valid_bytes)
            return
    if segments:
        segments[-1].sync()  # a truncation that the stop interrupted may not be on the disk yet


def _end_with(environment: LogEnvironment, segments: list[Segment], number: int, size_bytes: int) -> None:
    """Remove the segments after that one for good, and only then cut it.

    The other way round a crash could leave a gap that nobody sees.
    """
    last, gone = segments[number], segments[number + 1 :]
    cut = last.size_bytes - size_bytes
    logger.warning("%s: cut %d bytes at its end, dropped %d later segments", last.path(LOG), cut, len(gone))
    del segments[number + 1 :]
    if gone:
        remove_segment_files(environment, gone)
        environment.files.sync_directory(last.path("").rpartition("/")[0])
    if cut:
        last.cut(size_bytes)
    last.write_indexes()
    last.sync()


def remove_segment_files(environment: LogEnvironment, segments: list[Segment]) -> None:
    """Remove the last segments first: whatever a crash leaves of them continues what is before. Raises OSError."""
    for segment in reversed(segments):
        for suffix in SUFFIXES:
            if environment.files.exists(segment.path(suffix)):
                environment.files.remove(segment.path(suffix))


def _validate(segment: Segment, epochs: LeaderEpochs, previous_offset: int, far_before: int) -> tuple[int, int]:
    """Return the last valid offset, and where its batch ends. The indexes are made anew.

    `far_before`: an offset before that may be further from the segment's base than an index can name."""
    _, times = segment.reset_indexes()
    position = 0
    try:
        for batch, _ in iterate_valid(segment.file, segment.size_bytes):
            _check_order(segment, batch, previous_offset, far_before)
            segment.note(batch.last_offset, batch.position, batch.size_bytes, batch.largest_timestamp_ms)
            epochs.learn(batch.leader_epoch, batch.base_offset)
            previous_offset, position = batch.last_offset, batch.next_position
    except CorruptBatch as bad:
        logger.warning(
            "%s: %s; cut from %d to %d bytes, the last valid offset is %d",
            segment.path(LOG), bad, segment.size_bytes, position, previous_offset,
        )  # fmt: skip
    times.append_if_larger(*segment.largest_timestamp)
    if position == segment.size_bytes:
        segment.write_indexes()
    return previous_offset, position


def _check_order(segment: Segment, batch: Batch, previous_offset: int, far_before: int) -> None:
    if batch.base_offset <= previous_offset:
        raise CorruptBatch(batch.position, f"offset {batch.base_offset} after {previous_offset}")
    if batch.last_offset - segment.base_offset > LARGEST_RELATIVE_OFFSET and batch.last_offset >= far_before:
        raise CorruptBatch(batch.position, f"offset {batch.last_offset} is too far from {segment.base_offset}")


def learn_epochs(segments: Sequence[Segment], epochs: LeaderEpochs) -> None:
    """Learn the leader epochs from the headers of all batches, when their file is lost or never was. Raises OSError.

    What damage hides is left out. Messages of format 0 and 1 have no epochs, and formats only rise: a segment before
    one that begins with such a message is not read, so an older Kafka's directory need not be read from end to end.
    """
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and segments[number + 1].begins_with_messages:
            segment.release()
            continue
        try:
            for batch in iterate_headers(segment.file, 0, segment.size_bytes):
                epochs.learn(batch.leader_epoch, batch.base_offset)
        except CorruptBatch as bad:
            logger.error("%s is damaged: %s", segment.path(LOG), bad)
        segment.release()


def learn_earlier_epochs(segments: Sequence[Segment], epochs: LeaderEpochs, start_offset: int) -> LeaderEpochs:
    """Learn the leader epochs from `start_offset` on, where the first known one begins later. Raises OSError.

    That happens when DeleteRecords or the leader's log start had moved that of the log, and the broker stopped before
    its checkpoint: what had been hidden is there again. Without its epoch a follower that is cut to the first known
    offset would know none at all.
    """
    known = epochs.entries()
    if not known or known[0][1] <= start_offset:
        return epochs
    end_offset = known[0][1]
    hidden = [one for one in segments if one.base_offset < end_offset]
    while len(hidden) > 1 and hidden[1].base_offset <= start_offset:
        del hidden[0]
    earlier = LeaderEpochs()
    if hidden and not _are_messages_before(hidden[-1], end_offset):
        learn_epochs(hidden, earlier)
    return LeaderEpochs([*(entry for entry in earlier.entries() if entry[1] < end_offset), *known])


def _are_messages_before(segment: Segment, offset: int) -> bool:
    """Tell whether a message of format 0 or 1, which has no epoch, comes before `offset`."""
    try:
        before = next(segment.batches_from(offset - 1), None)
    except CorruptBatch:
        return False
    return before is None or before.leader_epoch < 0
