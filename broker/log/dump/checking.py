"""`--verify`: everything that is wrong with a file, a partition's directory, or a whole log directory.

A log that is read as it should be has none of this: what a start after a crash repairs, and what only compaction or an
old Kafka leaves, is no damage as long as nobody can be served something wrong because of it.
"""

import errno
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from odradek.broker.log.batches import iterate_headers
from odradek.broker.log.checkpoint_format import LEADER_EPOCHS, RECOVERY_POINTS
from odradek.broker.log.directories.directory_files import partition_name
from odradek.broker.log.dump.check_entries import AGAINST_LOG, CHECKS, last_offset_of, numbers
from odradek.broker.log.dump.check_log import check_log, missing_aborted
from odradek.broker.log.dump.file_kinds import base_offset_of, is_known, kind_of, log_of, settled, topic_of
from odradek.broker.log.dump.internal_topics import decoder_for
from odradek.broker.log.dump.rows import Damage, Damaged, Row
from odradek.broker.log.segment import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX
from odradek.protocol.record_batch import MAGIC_V2, CorruptBatch
from odradek.world.files import Files

OF_SEGMENTS = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)


def verify(files: Files, path: str, *, topic: str | None = None) -> Iterator[Damage]:
    """Find what is wrong with a file, or with every file of a partition's directory or a log directory, in order.

    Raises OSError; ValueError for a name that no file of a log has.
    """
    if files.is_directory(path):
        yield from _verify_directory(files, path, topic)
        return
    if not files.exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    for position, reason in _complaints(files, path, topic):
        yield Damage(path, position, reason)


def _verify_directory(files: Files, directory: str, topic: str | None) -> Iterator[Damage]:
    """Check a partition's directory: each of its files, and the files against each other."""
    names = sorted(files.list_directory(directory), key=_logs_first)
    for name in names:
        path = f"{directory}/{name}"
        if files.is_directory(path) or is_known(path):
            yield from verify(files, path, topic=topic)
    yield from check_together(files, directory, names)


def _logs_first(name: str) -> tuple[str, bool, str]:
    """Sort a `.log` before the other files of its segment."""
    return name.partition(".")[0], not name.endswith(LOG), name


def _complaints(files: Files, path: str, topic: str | None) -> Iterator[tuple[int, str]]:
    kind = kind_of(path)
    if kind is None:
        decode = decoder_for(topic_of(path) if topic is None else topic)
        yield from check_log(files.open(path), base_offset_of(path), decode)
        return
    entries: list[tuple[int, Row]] = []
    damaged: Damaged | None = None
    try:
        entries.extend(kind.read(files.read(path), base_offset_of(path)))
    except Damaged as bad:
        damaged = bad
    yield from CHECKS[kind.name_end](entries, base_offset_of(path))
    if damaged is not None:
        yield damaged.position, damaged.reason
    if kind.name_end in OF_SEGMENTS:
        log_path = log_of(path) + path.removeprefix(settled(path))
        if not files.exists(log_path):  # Kafka gives the compacted log its name before its indexes
            log_path = log_of(path)
        if not files.exists(log_path):
            yield 0, "its .log file is not there"
        else:
            yield from AGAINST_LOG[kind.name_end](entries, files.open(log_path))


def check_together(files: Files, directory: str, names: Sequence[str]) -> Iterator[Damage]:
    """Check the files of one directory, a partition's or an entry of `log.dirs`, against each other.

    Each may be right in itself, and not belong together. Damage of one file alone is passed over: it is said with the
    file.
    """
    logs = sorted(f"{directory}/{name}" for name in names if name.endswith(LOG))
    for before, after in pairwise(logs):
        last = last_offset_of(files.open(before))
        if last is not None and last >= base_offset_of(after):
            yield Damage(after, 0, f"begins at {base_offset_of(after)}, the segment before ends with {last}")
    for number, path in enumerate(logs):
        index = path.removesuffix(LOG) + TRANSACTION_INDEX
        entries = list(_entries(files, index))
        indexed = {numbers(row, "last_offset")[0] for _, row in entries}
        for position, reason in missing_aborted(files.open(path), indexed):
            yield Damage(path, position, reason)
        if entries:
            end = base_offset_of(logs[number + 1]) if number + 1 < len(logs) else _end(files, path)
            yield from _stable_after_the_end(index, entries, end)
    if LEADER_EPOCHS in names:
        yield from _other_epochs(files, f"{directory}/{LEADER_EPOCHS}", logs)
    if RECOVERY_POINTS in names:
        yield from _broken_promises(files, directory)


def _entries(files: Files, path: str) -> Iterator[tuple[int, Row]]:
    """Yield entries as far as the file can be read; none when it is not there."""
    kind = kind_of(path)
    assert kind is not None
    try:
        yield from kind.read(files.read(path), 0)
    except (Damaged, FileNotFoundError):
        return


def _stable_after_the_end(index: str, entries: Sequence[tuple[int, Row]], end: int | None) -> Iterator[Damage]:
    """Yield the last stable offsets that are after the end of their segment, which is None where that is damaged."""
    for position, row in entries:
        (stable,) = numbers(row, "last_stable_offset")
        if end is not None and stable > end:
            yield Damage(index, position, f"last stable offset {stable}, but the segment ends before {end}")


def _other_epochs(files: Files, checkpoint: str, logs: Sequence[str]) -> Iterator[Damage]:
    """Yield batches of another leader epoch than the checkpoint has for their offsets; the first one in each segment.

    A follower that believes a wrong one cuts off too little or too much.
    """
    known = [numbers(row, "leader_epoch", "start_offset") for _, row in _entries(files, checkpoint)]
    starts = [start for _, start in known]
    if starts != sorted(starts):
        return
    for path in logs:
        file = files.open(path)
        try:
            for batch in iterate_headers(file, 0, file.size()):
                number = bisect_right(starts, batch.base_offset) - 1
                if batch.magic == MAGIC_V2 and number >= 0 and batch.leader_epoch != known[number][0]:
                    said = f"leader epoch {batch.leader_epoch} at offset {batch.base_offset}"
                    yield Damage(path, batch.position, f"{said}, {LEADER_EPOCHS} says {known[number][0]}")
                    break
        except CorruptBatch:
            continue


def _broken_promises(files: Files, directory: str) -> Iterator[Damage]:
    """Yield logs that end before the offset up to which they were on the disk for certain."""
    path = f"{directory}/{RECOVERY_POINTS}"
    for position, row in _entries(files, path):
        partition, recovery_point = numbers(row, "partition", "offset")
        name = partition_name(str(row["topic"]), partition)
        if not files.is_directory(f"{directory}/{name}"):
            continue
        logs = [one for one in files.list_directory(f"{directory}/{name}") if one.endswith(LOG)]
        end = _end(files, f"{directory}/{name}/{max(logs)}") if logs else 0
        if end is not None and end < recovery_point:
            yield Damage(path, position, f"{name} was on the disk up to {recovery_point}, it ends at {end}")


def _end(files: Files, path: str) -> int | None:
    """Return the offset after the last batch of a segment; None when that is damaged."""
    file = files.open(path)
    if not file.size():
        return base_offset_of(path)
    last = last_offset_of(file)
    return None if last is None else last + 1
