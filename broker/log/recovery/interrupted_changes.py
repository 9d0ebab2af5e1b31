"""Changes of a log's directory that a stop has interrupted: taken back, or brought to their end, before it is opened.

Source: LogLoader.removeTempFilesAndCollectSwapFiles of Kafka 3.9.
"""

import logging
import re

from odradek.broker.log.batches import iterate_headers
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.segment import CLEANED, DELETED, LOG, SUFFIXES, SWAP
from odradek.protocol.record_batch import CorruptBatch

logger = logging.getLogger(__name__)

TEMPORARY = ".tmp"
OF_A_SEGMENT = re.compile(r"[0-9]{20}\.")
"""Names of the files of a segment begin so; any other is somebody else's, and left alone."""


def finish_interrupted_changes(environment: LogEnvironment, directory: str, names: list[str]) -> list[str]:
    """Remove what was marked deleted or not finished, complete a compaction that was about to swap; return the names
    that are left of `names`, those in the directory.

    A `.swap` segment is whole when none of its files is `.cleaned` any more: the log is renamed last here (see
    compaction/job.py), and first by Kafka. It replaces all segments from its base offset to its end. Raises OSError.
    """
    files = environment.files
    unfinished = {name.partition(".")[0] for name in names if name.endswith(CLEANED)}
    swapped: list[str] = []
    gone: list[str] = []
    for name in names:
        if name.endswith(SWAP) and OF_A_SEGMENT.match(name):
            (gone if name.partition(".")[0] in unfinished else swapped).append(name)
        elif name.endswith((DELETED, CLEANED, TEMPORARY)):
            gone.append(name)
    # the .cleaned files go last, their .log after the others: they tell that the rest is unfinished
    for name in sorted(gone, key=lambda name: (name.endswith(CLEANED), LOG in name)):
        logger.info("%s/%s: removed, a change was not finished", directory, name)
        files.remove(f"{directory}/{name}")
    for name in swapped:
        if name.endswith(LOG + SWAP):
            _remove_replaced(environment, directory, name, names)
    for name in swapped:
        logger.info("%s/%s: taking the compacted segment", directory, name)
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    if not gone and not swapped:
        return names
    files.sync_directory(directory)
    return files.list_directory(directory)


def _remove_replaced(environment: LogEnvironment, directory: str, name: str, names: list[str]) -> None:
    base_offset = int(name.removesuffix(LOG + SWAP))
    end_offset = _end_of_file(environment, f"{directory}/{name}", base_offset)
    for other in names:
        inside = OF_A_SEGMENT.match(other) and base_offset <= int(other.partition(".")[0]) < end_offset
        if inside and other.endswith(SUFFIXES) and environment.files.exists(f"{directory}/{other}"):
            environment.files.remove(f"{directory}/{other}")


def _end_of_file(environment: LogEnvironment, path: str, base_offset: int) -> int:
    """Return the offset after the last batch of a segment file."""
    file = environment.files.open(path)
    end = base_offset + 1
    try:
        for batch in iterate_headers(file, 0, file.size()):
            end = batch.last_offset + 1
    except CorruptBatch as bad:
        logger.error("%s is damaged: %s", path, bad)
    return end
