"""`--verify`: everything that is wrong with a file, a partition's directory, or a whole log directory.

A log that is read as it should be has none of this: what a start after a crash repairs, and what only compaction or an
old Kafka leaves, is no damage as long as nobody can be served something wrong because of it.
"""

import errno
from collections.abc import Iterator

from odradek.broker.log.dump.check_entries import AGAINST_LOG, CHECKS
from odradek.broker.log.dump.check_log import check_log
from odradek.broker.log.dump.check_together import check_together
from odradek.broker.log.dump.internal_topics import decoder_for
from odradek.broker.log.dump.naming import base_offset_of, is_known, kind_of, log_of, settled, topic_of
from odradek.broker.log.dump.rows import Damage, Damaged, Row
from odradek.broker.log.segment import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX
from odradek.world.files import Files

OF_SEGMENTS = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)


def verify(files: Files, path: str, *, topic: str | None = None) -> Iterator[Damage]:
    """Find what is wrong with a file, or with every file of a partition's directory or a log directory, in order.

    Raises OSError; ValueError for a file that is none of a log.
    """
    if files.is_directory(path):
        yield from _verify_directory(files, path, topic)
        return
    if not files.exists(path):
        raise FileNotFoundError(errno.ENOENT, "there is no such file", path)
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
    """Check the files of a segment."""
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
        log_path = log_of(path)
        if not files.exists(log_path):
            log_path += path.removeprefix(settled(path))
        if not files.exists(log_path):
            yield 0, "its .log file is not there"
        else:
            yield from AGAINST_LOG[kind.name_end](entries, files.open(log_path))
