"""Compaction of one log by one child: what is ready is swapped in, unless the log has changed meanwhile."""

import errno
import logging
from collections.abc import Callable
from contextlib import suppress

from odradek.broker.log.compaction.messages import Cleaned, Failed, Finished, Request, decode_answer
from odradek.broker.log.errors import NO_ROOM, OUT_OF_DESCRIPTORS, StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.log.segment import CLEANED, SUFFIXES, SWAP, Segment
from odradek.world.children import Child
from odradek.world.clock import Clock

logger = logging.getLogger(__name__)

SYNC_AGAIN_MS = 1_000.0
"""Pause before a directory that could not be opened is synced again."""


class Job:
    """Compaction of a log. `done(job)` is called once, when the child has ended and what was swapped in is on the disk.

    Then `end_offset` tells up to where the log is clean, or is None when the compaction was not completed: `damage`
    tells why it would fail the next time, too, and `hindered` that it may succeed then.
    """

    def __init__(self, log: Log, request: Request, done: Callable[["Job"], object], clock: Clock) -> None:
        self.log = log
        self.child: Child | None = None
        self.end_offset: int | None = None
        self.damage: str | None = None
        self.hindered = False
        self.finished: Finished | None = None
        """What the child has done, once `end_offset` is known; `took_ms` tells how long it took, all in all."""
        self.took_ms = 0.0
        self._request = request
        self._done = done
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._history_changes = log.history_changes
        self._segments = {one.base_offset: one for one in log.segments}
        """Segments as they were when it began, without those that were replaced since."""
        self._aborted = False
        self._finished: Finished | None = None
        self._syncing = 0
        self._ended = False
        """True when the child is no more."""
        self._reported = False

    def abort(self, reason: str) -> None:
        """End the child; nothing more is swapped in. Harmless twice."""
        if not self._aborted and not self._ended:
            self._aborted = True
            logger.info("%s: compaction is abandoned: %s", self.log, reason)
            if self.child is not None:
                self.child.kill()

    def heard(self, line: bytes) -> None:
        """Take in what the child has said."""
        if self._aborted:
            return
        match decode_answer(line):
            case Cleaned() as cleaned:
                self._swap(cleaned)
            case Finished() as finished:
                self._finished = finished
            case Failed() as failed:
                self._failed(failed)

    def _swap(self, cleaned: Cleaned) -> None:
        old = [self._segments[base_offset] for base_offset in cleaned.base_offsets]
        why_not = self._why_not(old)
        if why_not is not None:
            self.abort(why_not)
            return
        self._syncing += 1
        try:
            swap_in(self.log, old, self._synced)
        except StorageFailure:
            self.abort("the disk failed")
        except Exception:  # a fault of ours: the child ends, and nobody is to wait for more
            self._syncing -= 1
            raise
        else:
            for base_offset in cleaned.base_offsets:
                del self._segments[base_offset]

    def _why_not(self, old: list[Segment]) -> str | None:
        """Return how the log has changed under the child; None if it has not."""
        log = self.log
        if log.closed:
            return "the log is gone"
        if not log.config.compacts:
            return "its topic is not to be compacted any more"
        if log.history_changes != self._history_changes:
            return "the log was truncated"
        number = log.segment_number(old[0].base_offset)
        if number < 0 or log.segments[number : number + len(old)] != old:
            return "segments were deleted"
        return None

    def _synced(self) -> None:
        self._syncing -= 1
        self._finish()

    def _failed(self, failed: Failed) -> None:
        self._aborted = True
        left = [one for info in self._request.segments if (one := self._segments.get(info.base_offset)) is not None]
        if self._why_not(left[:1]) is not None:
            logger.info("%s: compaction is abandoned, the log has changed: %s", self.log, failed.reason)
        elif failed.errno == 0:
            self.damage = failed.reason
        elif failed.errno in NO_ROOM:
            self.hindered = True
            logger.warning("%s: no space for compacted segments: %s", self.log, failed.reason)
        elif failed.errno == errno.ENOENT:
            logger.warning("%s: a segment was deleted while it was compacted: %s", self.log, failed.reason)
        else:
            reason = failed.reason.removeprefix(f"[Errno {failed.errno}] ")  # which OSError says by itself
            self.log.give_up_directory(OSError(failed.errno, reason))

    def ended(self, well: bool) -> None:
        """Note that the child is no more."""
        self._ended = True
        if not self._aborted and self._finished is None:
            self.hindered = True
            logger.warning("%s: the child that compacted it has ended without a result", self.log)
        if self._aborted or self._finished is None:
            with suppress(StorageFailure):
                remove_cleaned(self.log)
        self._finish()

    def _finish(self) -> None:
        """Report once that the child has ended and what was swapped in is on the disk; not before."""
        if not self._ended or self._reported or (self._syncing and not self.log.closed):
            return
        self._reported = True
        finished, unchanged = self._finished, self.log.history_changes == self._history_changes
        if finished is not None and not self._aborted and unchanged:
            self.end_offset, self.finished = finished.end_offset, finished
            self.took_ms = self._clock.monotonic_ms() - self._began_ms
            logger.info(
                "%s: compacted before %d in %d ms, %d bytes became %d",
                self.log, finished.end_offset, self.took_ms, self.size_before(), finished.bytes_written,
            )  # fmt: skip
        self._done(self)

    def size_before(self) -> int:
        """Return the bytes of the segments that were to be compacted."""
        return sum(info.size_bytes for info in self._request.segments)


def swap_in(log: Log, old: list[Segment], done: Callable[[], object]) -> Segment:
    """Put the `.cleaned` files of `old[0]`'s base offset in the place of `old`, consecutive segments of the log.

    `done` is called when that will outlive a crash, or the directory has gone offline. Raises StorageFailure. After
    a crash this order leaves either the old segments or the new one:

        .cleaned → .swap    the .log last: once it has that name, a start completes the change (recovery/log_opening.py)
        old → .deleted      whoever still reads from them has them open; removed after file.delete.delay.ms
        .swap → live        the .log first

    While there is a `.log.cleaned` or a `.log.swap`, the other files are known not to be the live segment's; without
    this order a crash could leave a compacted log without its transaction index, and aborted data would be read. The
    compacted files are on the disk already. Source: LocalLog.replaceSegments of Kafka 3.9.
    """
    try:
        return _swap_in(log, old, done)
    except OSError as error:
        raise log.give_up_directory(error) from error


def _swap_in(log: Log, old: list[Segment], done: Callable[[], object]) -> Segment:
    environment, first = log.environment, old[0]
    fresh = Segment(environment.files, log.directory, first.base_offset, log.config, environment.clock.now_ms())
    _rename(log, first, CLEANED, SWAP, SUFFIXES[::-1])
    number = log.segments.index(first)
    assert log.segments[number : number + len(old)] == old and old[-1] is not log.active, (log, old)
    marked = []
    for segment in old:
        environment.open_segments.forget(segment)
        marked += segment.mark_deleted()
    _rename(log, first, SWAP, "", SUFFIXES)
    fresh.load_size()
    log.segments[number : number + len(old)] = [fresh]
    log.segments_changed()
    log.snapshots.remove_at([segment.base_offset for segment in old[1:]])
    _sync_directory(log, done)
    environment.remove_files_later(marked, log.config.file_delete_delay_ms)
    return fresh


def _rename(log: Log, segment: Segment, suffix: str, following: str, kinds: tuple[str, ...]) -> None:
    files = log.environment.files
    for kind in kinds:
        path = segment.path(kind)
        if files.exists(path + suffix):
            files.rename(path + suffix, path + following)


def _sync_directory(log: Log, done: Callable[[], object]) -> None:
    def synced(result: OSError | None) -> None:
        if isinstance(result, OSError) and result.errno in OUT_OF_DESCRIPTORS and not log.closed:
            log.environment.clock.call_later(SYNC_AGAIN_MS, lambda: _sync_directory(log, done))
            return
        if isinstance(result, OSError):
            log.give_up_directory(result)
        done()

    log.environment.background.run(lambda: log.environment.files.sync_directory(log.directory), synced)


def remove_cleaned(log: Log) -> None:
    """Remove what a child that was ended left behind. A failing disk is left to those who write to it."""
    files = log.environment.files
    try:
        for name in files.list_directory(log.directory):
            if name.endswith(CLEANED):
                files.remove(f"{log.directory}/{name}")
    except OSError as error:
        if not log.closed and error.errno not in OUT_OF_DESCRIPTORS:  # without one, they stay until the next start
            raise log.give_up_directory(error) from error
