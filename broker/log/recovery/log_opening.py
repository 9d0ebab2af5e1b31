"""Opening a log, and repairing it after an unclean stop.

After a clean shutdown everything is taken as it is. Otherwise every batch from the segment of the recovery point on is
validated; the log is cut at the first byte that does not belong to a whole, valid batch, and later segments go.
Source: LogLoader.scala of Kafka 3.9.
"""

import logging
from bisect import bisect_right
from itertools import pairwise

from odradek.broker.log.checkpoint_format import LEADER_EPOCHS, decode_epochs
from odradek.broker.log.directories.directory_files import PARTITION_METADATA
from odradek.broker.log.errors import CorruptFile
from odradek.broker.log.leader_epochs import LeaderEpochs
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.producer_recovery import first_damaged_index, rebuild_producers
from odradek.broker.log.producer_snapshots import Snapshots
from odradek.broker.log.recovery.interrupted_changes import OF_A_SEGMENT, finish_interrupted_changes
from odradek.broker.log.recovery.validation import (
    learn_earlier_epochs,
    learn_epochs,
    recover_segments,
    remove_segment_files,
)
from odradek.broker.log.segment import LOG, OFFSET_INDEX, SUFFIXES, TIME_INDEX, Segment
from odradek.broker.log.time_index_check import check_last_time_entry
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.record_batch import MAX_INT64, CorruptBatch

logger = logging.getLogger(__name__)


def open_log(
    environment: LogEnvironment,
    directory: str,
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clean: bool = False,
    validated: bool = False,
    gaps_before: int = 0,
    names: list[str] | None = None,
) -> Log:
    """Open the log in `directory`, which is made when it is missing. Raises OSError.

    `recovery_point` and `log_start_offset` come from the checkpoints, 0 where they have none. `clean`: the directory
    had the marker of a clean shutdown. `validated`: it had none, but all has been repaired. `gaps_before`: up to there
    the log may have been compacted, though by its settings it is not now. `names`: what is in `directory`, where that
    is known already. No file of a log that has never held a record is opened.
    """
    names = _listed(environment, directory) if names is None else names
    names = finish_interrupted_changes(environment, directory, names)
    segments = _load_segments(environment, directory, config, names)
    epochs, epochs_in_file = _load_epochs(environment, directory, names, segments)
    trusted = clean or validated or _is_new(segments, names)
    doubtful = _first_doubtful(segments, None if trusted else recovery_point)
    if trusted and doubtful is not None:  # what was on the disk for certain has rotted there
        recovery_point = min(recovery_point, segments[doubtful].base_offset)
    if epochs_in_file is None:
        learn_epochs(segments[:doubtful], epochs)
    elif segments:
        epochs = learn_earlier_epochs(segments, epochs, max(log_start_offset, segments[0].base_offset))
    if doubtful is not None:
        gaps_before = MAX_INT64 if config.compacts else gaps_before
        recover_segments(environment, segments, doubtful, epochs, gaps_before=gaps_before)
    end_offset = _ensure_last_segment(environment, directory, config, segments, epochs, log_start_offset, names)
    start_offset = max(log_start_offset, segments[0].base_offset)
    lost = doubtful is not None or end_offset < recovery_point  # the disk may not have what was there at the end
    clean = clean and not lost
    recovery_point = min(recovery_point, end_offset)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)
    snapshots = Snapshots(environment.files, directory, names)
    anew_from = _derived_anew_from(segments, names, end_offset, recovery_point if lost else None)
    producers = rebuild_producers(environment, segments, snapshots, end_offset, anew_from)
    log = Log(
        environment, directory, topic, partition, config, segments=segments, epochs=epochs, producers=producers,
        snapshots=snapshots, log_start_offset=start_offset, log_end_offset=end_offset,
        recovery_point=end_offset if clean else recovery_point,
    )  # fmt: skip
    log.epoch_file.unsynced = not clean
    if epochs.entries() != epochs_in_file:  # the file says something else than what the log has
        log.epoch_file.write(epochs.entries())
    log.clean_end_offset = end_offset if clean else -1
    _release_files(segments)
    return log


def _listed(environment: LogEnvironment, directory: str) -> list[str]:
    """List the directory; make it when it is missing."""
    try:
        return environment.files.list_directory(directory)
    except FileNotFoundError:
        environment.files.make_directory(directory)
        return []


def _release_files(segments: list[Segment]) -> None:
    """Close the files of a log that is idle; the indexes of its last segment stay in memory as they were read."""
    for segment in segments[:-1]:
        segment.release()
    segments[-1].close_file()


def _ensure_last_segment(
    environment: LogEnvironment,
    directory: str,
    config: LogConfig,
    segments: list[Segment],
    epochs: LeaderEpochs,
    log_start_offset: int,
    names: list[str],
) -> int:
    """Give a log without segments, or with nothing after its start, an empty one there; return where the log ends."""
    if segments:
        end_offset = segments[-1].next_offset()
        if end_offset >= log_start_offset:
            return end_offset
        logger.warning(
            "%s: the log ends at %d, before its start %d in the checkpoint: it is emptied",
            directory, end_offset, log_start_offset,
        )  # fmt: skip
        remove_segment_files(environment, segments)
    segments[:] = [environment.new_segment(directory, log_start_offset, config, names)]
    epochs.clear()
    return log_start_offset


def _is_new(segments: list[Segment], names: list[str]) -> bool:
    """Tell whether nothing was ever appended to a log: the first record is preceded by the file of the leader epochs.

    Then nothing is to be validated, and nothing that was cut off can come back: the file need not be synced, which for
    10,000 new partitions takes a start ten seconds.
    """
    first, *indexes = (f"{0:020d}{suffix}" for suffix in (LOG, OFFSET_INDEX, TIME_INDEX))
    return first in names and not segments[0].size_bytes and {first, *indexes, PARTITION_METADATA}.issuperset(names)


def _first_doubtful(segments: list[Segment], recovery_point: int | None) -> int | None:
    """Return the number of the first segment whose batches are to be validated; None when none is.

    `recovery_point`: None for a log that is trusted, of which only the last segment is looked through. Raises OSError.
    """
    if recovery_point is not None:
        return _number_of(segments, recovery_point)
    if segments and not _readable_to_the_end(segments[-1]):
        return len(segments) - 1
    return None


def _number_of(segments: list[Segment], offset: int) -> int:
    """Return the number of the segment that holds an offset; the first when that is before all."""
    return max(0, bisect_right([one.base_offset for one in segments], offset) - 1)


def _derived_anew_from(
    segments: list[Segment], names: list[str], end_offset: int, recovered_from: int | None
) -> int | None:
    """Return the base offset from which on transaction indexes and snapshots are made anew: they may not be what the
    batches say. None when all are right."""
    trusted = segments
    doubtful = None
    if recovered_from is not None:
        number = _number_of(segments, recovered_from)
        doubtful, trusted = segments[number].base_offset, segments[:number]
    damaged = first_damaged_index(trusted, names, end_offset)
    return doubtful if damaged is None else damaged


def _load_segments(environment: LogEnvironment, directory: str, config: LogConfig, names: list[str]) -> list[Segment]:
    names = [name for name in names if OF_A_SEGMENT.match(name)]
    present = set(names)
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        if dot + suffix in SUFFIXES and dot + suffix != LOG and stem + LOG not in present:
            logger.warning("%s/%s: an index without its log is removed", directory, name)
            environment.files.remove(f"{directory}/{name}")
    segments = []
    for name in sorted(name for name in names if name.endswith(LOG)):
        base_offset = int(name.removesuffix(LOG))
        segment = Segment(environment.files, directory, base_offset, config, environment.clock.now_ms())
        segment.load_size()
        segments.append(segment)
    return segments


def _load_epochs(
    environment: LogEnvironment, directory: str, names: list[str], segments: list[Segment]
) -> tuple[LeaderEpochs, list[tuple[int, int]] | None]:
    """Load the leader epochs, and what their file says; None where it is lost: torn, empty or missing beside data.

    Nobody writes epochs that do not increase, or offsets that decrease: then bits of the file, which has no checksum,
    have flipped. Two epochs may have one offset, as Kafka 0.11 to 2.0 wrote them; the later one counts.
    """
    has_data = any(segment.size_bytes for segment in segments)
    if LEADER_EPOCHS not in names:
        return LeaderEpochs(), None if has_data else []
    try:
        data = environment.files.read(f"{directory}/{LEADER_EPOCHS}")
        in_file = decode_epochs(data)
        if any(epoch <= before or offset < former for (before, former), (epoch, offset) in pairwise(in_file)):
            raise CorruptFile("leader epochs do not increase")
        return LeaderEpochs(in_file), in_file if data or not has_data else None
    except CorruptFile as error:
        logger.warning("%s/%s: %s; it is rebuilt from the batches", directory, LEADER_EPOCHS, error)
        return LeaderEpochs(), None


def _readable_to_the_end(segment: Segment) -> bool:
    try:
        segment.next_offset()
        check_last_time_entry(segment)
    except CorruptBatch as bad:
        logger.warning("%s: damaged after a clean shutdown, %s", segment.path(LOG), bad)
        return False
    return True
