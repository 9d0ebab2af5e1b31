"""A compacted segment takes the place of those it was made from, so that a crash leaves the old ones or the new one.

    .cleaned → .swap    the .log last: once it has that name, a start completes the change (recovery/interrupted.py)
    old → .deleted      whoever still reads from them has them open; removed after file.delete.delay.ms
    .swap → live        the .log first

While there is a `.log.cleaned` or a `.log.swap`, the other files are known not to be the live segment's; without this
order a crash could leave a compacted log without its transaction index, and aborted data would be read. The compacted
files are on the disk already. Source: LocalLog.replaceSegments of Kafka 3.9.
"""

from collections.abc import Callable

from odradek.broker.log.log import Log
from odradek.broker.log.segment import CLEANED, SUFFIXES, SWAP, Segment


def swap_in(log: Log, old: list[Segment], done: Callable[[], object]) -> Segment:
    """Put the `.cleaned` files of `old[0]`'s base offset in the place of `old`, consecutive segments of the log.

    `done` when that will outlive a crash, or the directory has gone offline. Raises StorageFailure.
    """
    try:
        return _swap_in(log, old, done)
    except OSError as error:
        raise log.failed(error) from error


def _swap_in(log: Log, old: list[Segment], done: Callable[[], object]) -> Segment:
    storage, first = log.storage, old[0]
    fresh = Segment(storage.files, log.directory, first.base_offset, log.config, storage.clock.now_ms())
    _rename(log, first, CLEANED, SWAP, SUFFIXES[::-1])
    number = log.segments.index(first)
    assert log.segments[number : number + len(old)] == old and old[-1] is not log.active, (log, old)
    marked = []
    for segment in old:
        storage.open_segments.forget(segment)
        marked += segment.mark_deleted()
    _rename(log, first, SWAP, "", SUFFIXES)
    fresh.load_size()
    log.segments[number : number + len(old)] = [fresh]
    log.segments_changed()
    log.snapshots.remove_at([segment.base_offset for segment in old[1:]])
    _sync_directory(log, done)
    storage.remove_files_later(marked, log.config.file_delete_delay_ms)
    return fresh


def _rename(log: Log, segment: Segment, suffix: str, following: str, kinds: tuple[str, ...]) -> None:
    files = log.storage.files
    for kind in kinds:
        path = segment.path(kind)
        if files.exists(path + suffix):
            files.rename(path + suffix, path + following)


def _sync_directory(log: Log, done: Callable[[], object]) -> None:
    def synced(result: OSError | None) -> None:
        if isinstance(result, OSError):
            log.failed(result)
        done()

    log.storage.background.run(lambda: log.storage.files.sync_directory(log.directory), synced)


def remove_cleaned(log: Log) -> None:
    """What a child that was ended left behind. A failing disk is left to those who write to it."""
    files = log.storage.files
    try:
        for name in files.list_directory(log.directory):
            if name.endswith(CLEANED):
                files.remove(f"{log.directory}/{name}")
    except OSError as error:
        if not log.closed:
            raise log.failed(error) from error
