"""Opening a log, and repairing it after an unclean stop.

After a clean shutdown everything is taken as it is. Otherwise every batch from the segment of the recovery point on is
validated; the log is cut at the first byte that does not belong to a whole, valid batch, and later segments go.
Source: LogLoader.scala of Kafka 3.9.
"""

import logging
from bisect import bisect_right
from typing import NamedTuple

from odradek.broker.log.batches import Batch, iterate_headers, iterate_valid
from odradek.broker.log.checkpoints import LEADER_EPOCHS, decode_epochs, encode_epochs
from odradek.broker.log.config import LogConfig
from odradek.broker.log.failure import CorruptFile
from odradek.broker.log.index import LARGEST_RELATIVE_OFFSET
from odradek.broker.log.leader_epochs import LeaderEpochs
from odradek.broker.log.listing import new_segment
from odradek.broker.log.log import Log
from odradek.broker.log.producer_replay import first_damaged_index, rebuild_producers
from odradek.broker.log.segment import CLEANED, DELETED, LOG, SUFFIXES, SWAP, Segment
from odradek.broker.log.snapshots import Snapshots
from odradek.broker.log.storage import Storage
from odradek.protocol.record_batch import CorruptBatch

logger = logging.getLogger(__name__)


class Recovered(NamedTuple):
    """What was found damaged in one log."""

    bytes_cut: int
    segments_dropped: int


def open_log(
    storage: Storage,
    directory: str,
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clean: bool = False,
    validated: bool = False,
) -> Log:
    """Open the log in `directory`, which is made when it is missing.

    `recovery_point` and `log_start_offset` come from the checkpoints, 0 when they have none; `clean`: the directory
    had the marker of a clean shutdown; `validated`: it had not, but all has been repaired. Raises OSError.
    """
    storage.files.make_directory(directory)
    names = finish_interrupted_changes(storage, directory)
    segments = _load_segments(storage, directory, config, names)
    epochs, epochs_lost = _load_epochs(storage, directory, bool(segments))
    epochs_in_file = epochs.entries()
    doubtful = not clean and not validated
    if not clean and not validated:
        _recover(storage, segments, epochs, 0 if epochs_lost else recovery_point, directory)
    elif segments and not _readable_to_the_end(segments[-1]):
        recover_segments(storage, segments, len(segments) - 1, epochs)
        recovery_point = min(recovery_point, segments[-1].base_offset)
        doubtful = True
    end_offset = segments[-1].next_offset() if segments else log_start_offset
    if end_offset < log_start_offset:
        logger.warning("%s: ends at %d before its start %d: dropped", directory, end_offset, log_start_offset)
        _remove(storage, segments)
        segments = []
        end_offset = log_start_offset
    if not segments:
        segments.append(new_segment(storage, directory, end_offset, config))
        epochs.clear()
    start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)
    if epochs.entries() != epochs_in_file or epochs_lost:
        path = f"{directory}/{LEADER_EPOCHS}"
        storage.files.write_atomically(path, encode_epochs(epochs.entries()), sync=False)
    snapshots = Snapshots(storage.files, directory, names)
    doubtful_from = _doubtful_from(segments, names, min(recovery_point, end_offset) if doubtful else None)
    producers = rebuild_producers(storage, segments, snapshots, start_offset, end_offset, doubtful_from)
    log = Log(
        storage,
        directory,
        topic,
        partition,
        config,
        segments=segments,
        epochs=epochs,
        producers=producers,
        snapshots=snapshots,
        log_start_offset=start_offset,
        log_end_offset=end_offset,
        recovery_point=end_offset if clean else min(recovery_point, end_offset),
    )
    log.epochs_unsynced = not clean
    log.clean_end_offset = end_offset if clean else -1
    for segment in segments[:-1]:
        segment.release()
    return log


def _doubtful_from(segments: list[Segment], names: list[str], recovered_from: int | None) -> int | None:
    """The first segment whose transaction index may not be what its batches say; None when all are right."""
    trusted = segments
    doubtful = None
    if recovered_from is not None:
        number = max(0, bisect_right([one.base_offset for one in segments], recovered_from) - 1)
        doubtful, trusted = segments[number].base_offset, segments[:number]
    damaged = first_damaged_index(trusted, names)
    return doubtful if damaged is None else damaged


def finish_interrupted_changes(storage: Storage, directory: str) -> list[str]:
    """Remove what was marked deleted or not finished, complete a compaction that was about to swap; the names left.

    A `.swap` segment is whole and replaces all segments from its base offset to its end.
    """
    files = storage.files
    names = files.list_directory(directory)
    for name in names:
        if name.endswith((DELETED, CLEANED, ".tmp")):
            logger.info("%s/%s: removed, a change was not finished", directory, name)
            files.remove(f"{directory}/{name}")
    swapped = [name for name in names if name.endswith(LOG + SWAP)]
    for name in swapped:
        base_offset = int(name.removesuffix(LOG + SWAP))
        end_offset = _end_of_file(storage, f"{directory}/{name}", base_offset)
        for other in names:
            number = other.partition(".")[0]
            inside = number.isdigit() and base_offset <= int(number) < end_offset
            if inside and other.endswith(SUFFIXES) and files.exists(f"{directory}/{other}"):
                files.remove(f"{directory}/{other}")
    for name in names:
        if name.endswith(SWAP):
            logger.info("%s/%s: taking the compacted segment", directory, name)
            files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    return files.list_directory(directory)


def _end_of_file(storage: Storage, path: str, base_offset: int) -> int:
    """The offset after the last batch of a segment file."""
    file = storage.files.open(path)
    end = base_offset + 1
    for batch in iterate_headers(file, 0, file.size()):
        end = batch.last_offset + 1
    return end


def _load_segments(storage: Storage, directory: str, config: LogConfig, names: list[str]) -> list[Segment]:
    present = set(names)
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        if dot + suffix in SUFFIXES and dot + suffix != LOG and stem + LOG not in present:
            logger.warning("%s/%s: an index without its log is removed", directory, name)
            storage.files.remove(f"{directory}/{name}")
    segments = []
    for name in sorted(name for name in names if name.endswith(LOG) and name.removesuffix(LOG).isdigit()):
        base_offset = int(name.removesuffix(LOG))
        segment = Segment(storage.files, directory, base_offset, config, storage.clock.now_ms())
        segment.load_size()
        segments.append(segment)
    return segments


def _load_epochs(storage: Storage, directory: str, has_segments: bool) -> tuple[LeaderEpochs, bool]:
    """And whether they were lost: torn by a crash, or missing beside data."""
    try:
        return LeaderEpochs(decode_epochs(storage.files.read(f"{directory}/{LEADER_EPOCHS}"))), False
    except FileNotFoundError:
        return LeaderEpochs(), has_segments
    except CorruptFile as error:
        logger.warning("%s/%s: %s; it is made anew from the batches", directory, LEADER_EPOCHS, error)
        return LeaderEpochs(), True


def _readable_to_the_end(segment: Segment) -> bool:
    try:
        segment.next_offset()
    except CorruptBatch as bad:
        logger.warning("%s: damaged after a clean shutdown, %s", segment.path(LOG), bad)
        return False
    return True


def _recover(
    storage: Storage, segments: list[Segment], epochs: LeaderEpochs, recovery_point: int, directory: str
) -> None:
    first = 0
    while first + 1 < len(segments) and segments[first + 1].base_offset <= recovery_point:
        first += 1
    recovered = recover_segments(storage, segments, first, epochs)
    if recovered.bytes_cut or recovered.segments_dropped:
        logger.warning("%s: cut %d bytes at the end and dropped %d later segments", directory, *recovered)


def recover_segments(storage: Storage, segments: list[Segment], first: int, epochs: LeaderEpochs) -> Recovered:
    """Validate segments from number `first` on, rebuild their indexes, cut at the first damage. Raises OSError."""
    previous_offset = segments[first].base_offset - 1 if segments else -1
    for number in range(first, len(segments)):
        segment = segments[number]
        size = segment.size_bytes
        previous_offset = _recover_segment(segment, epochs, max(previous_offset, segment.base_offset - 1))
        cut = size - segment.size_bytes
        if cut:
            later = segments[number + 1 :]
            del segments[number + 1 :]
            _remove(storage, later)
            return Recovered(cut, len(later))
    return Recovered(0, 0)


def _recover_segment(segment: Segment, epochs: LeaderEpochs, previous_offset: int) -> int:
    """The last valid offset; everything after it is cut off."""
    _, times = segment.reset_indexes()
    position = 0
    try:
        for batch, _ in iterate_valid(segment.file, 0, segment.size_bytes):
            _check_order(segment, batch, previous_offset)
            segment.note(batch.last_offset, batch.position, batch.size_bytes, batch.max_timestamp_ms)
            if batch.leader_epoch > epochs.latest:
                epochs.assign(batch.leader_epoch, batch.base_offset)
            previous_offset, position = batch.last_offset, batch.next_position
    except CorruptBatch as bad:
        logger.warning(
            "%s: %s; cut from %d to %d bytes, the last valid offset is %d",
            segment.path(LOG), bad, segment.size_bytes, position, previous_offset,
        )  # fmt: skip
        segment.cut(position)
    times.append_if_larger(*segment.largest_timestamp)
    segment.write_indexes()
    return previous_offset


def _check_order(segment: Segment, batch: Batch, previous_offset: int) -> None:
    if batch.base_offset <= previous_offset:
        raise CorruptBatch(batch.position, f"offset {batch.base_offset} after {previous_offset}")
    if batch.last_offset - segment.base_offset > LARGEST_RELATIVE_OFFSET:
        raise CorruptBatch(batch.position, f"offset {batch.last_offset} is too far from {segment.base_offset}")


def _remove(storage: Storage, segments: list[Segment]) -> None:
    for segment in segments:
        for suffix in SUFFIXES:
            if storage.files.exists(segment.path(suffix)):
                storage.files.remove(segment.path(suffix))
