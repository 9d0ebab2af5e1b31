"""The checkpoint files of one log directory: read at the start, written beside the loop, at once when a log needs it.

A recovery point or a log start that is too low costs work; one that is too high costs data: recovery would take for
synced what is not, or drop what comes before the start. A cleaner's offset that is too high hides what is dirty, a high
watermark gives readers what is not replicated. They only rise, except for truncations and for topics that are deleted
and made anew. So before such a log is written to again, its checkpoints are written at once
(`CheckpointFiles.write_now`), all logs of the directory together.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from odradek.broker.log.checkpoint_format import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    Offsets,
    decode_offsets,
    encode_lines,
    encode_offsets,
    offset_line,
)
from odradek.broker.log.errors import NO_ROOM, CorruptFile
from odradek.broker.log.log_environment import Claims, LogEnvironment
from odradek.protocol.topic_names import PartitionKey
from odradek.world.time_slices import run_in_slices

logger = logging.getLogger(__name__)

Entries = Iterable[tuple[PartitionKey, int] | None]
"""Pairs of (topic, partition) and offset, one after the other; None for a log that is left out. The collecting may
pause after such a log, too: ten thousand logs may all begin at 0."""


class CheckpointFiles:
    """The files of one log directory. `is_offline` is asked before anything is begun.

    What goes into a file is collected in slices of the loop's time: 10,000 partitions are ten milliseconds of work.
    """

    def __init__(self, environment: LogEnvironment, path: str, is_offline: Callable[[], bool]) -> None:
        self._environment = environment
        self._path = path
        self._is_offline = is_offline
        self._waiting: dict[str, Callable[[], Entries]] = {}
        self._collecting: dict[str, Iterator[None]] = {}
        self._being_written: set[str] = set()
        """Files that are collected for, or written."""
        self._without_room: set[str] = set()
        """Files that the disk was too full for, until they are written again."""
        self._possible: dict[str, list[Offsets]] = {}
        """Contents that each file may have: what was written last, and what has been begun since."""
        self._then: dict[str, list[Callable[[], object]]] = {}
        """Calls to make when the file is written the next time; forgotten when that fails."""
        self._begun = 0
        self._newest: dict[str, int] = {}
        """Numbers of what is in the files; kept under the lock."""
        self._writing = threading.Lock()
        """Between the loop and the background: an older checkpoint must not replace a newer one."""

    def read(self, name: str) -> Offsets:
        """Return what the file says; empty when it is missing or damaged. Raises OSError."""
        try:
            offsets = decode_offsets(self._environment.files.read(f"{self._path}/{name}"))
        except FileNotFoundError:
            return {}
        except CorruptFile as error:
            logger.warning("%s/%s: %s; taken as empty", self._path, name, error)
            return {}
        self._possible.setdefault(name, [offsets])
        return offsets

    def write(self, name: str, entries: Callable[[], Entries], then: Callable[[], object] | None = None) -> None:
        """Replace the file in the background, one write at a time; only the newest of those that wait counts.

        `entries()` is asked when the write begins. An older file is never wrong, so on a full disk it stays until the
        next. `then` is called after the first write that ends from now on, perhaps of older entries; not when that
        fails.
        """
        self._waiting[name] = entries
        if then is not None:
            self._then.setdefault(name, []).append(then)
        if name not in self._being_written:
            self._write_next(name)

    def finish_collecting(self) -> None:
        """Collect the rest of what is being written without a pause: nothing runs on the loop after this."""
        for steps in list(self._collecting.values()):
            for _ in steps:
                pass

    def _write_next(self, name: str) -> None:
        entries = self._waiting.pop(name, None)
        if entries is None or self._is_offline():
            self._not_written(name)
            return
        self._being_written.add(name)
        steps = self._collecting[name] = self._collect(name, entries)
        run_in_slices(self._environment.clock, steps, at_once=True)

    def _not_written(self, name: str) -> None:
        self._being_written.discard(name)
        self._then.pop(name, None)

    def _collect(self, name: str, entries: Callable[[], Entries]) -> Iterator[None]:
        offsets: Offsets = {}
        number = self._begin(name, offsets)  # from now on it may come to be in the file, as far as it goes
        lines: list[str] = []
        try:
            for entry in entries():
                if entry is not None:
                    offsets[entry[0]] = entry[1]
                    lines.append(offset_line(*entry))
                yield
        except Exception:  # a fault of ours: the next write begins again
            self._not_written(name)
            raise
        finally:
            self._collecting.pop(name, None)
        self._write_in_background(name, number, offsets, encode_lines(lines))

    def _write_in_background(self, name: str, number: int, offsets: Offsets, data: bytes) -> None:
        def replace() -> Exception | None:
            try:
                self._replace(name, number, data)
            except Exception as error:  # noqa: BLE001 - `done` tells of each, and the next write begins again
                return error
            return None

        def done(error: Exception | None) -> None:
            waiting = self._then.pop(name, ())
            try:
                if error is None:
                    self._without_room.discard(name)
                    self._written(name, offsets)
                    for then in waiting:
                        then()
                elif not isinstance(error, OSError):
                    logger.error("%s/%s was not written", self._path, name, exc_info=error)
                elif error.errno in NO_ROOM:
                    self._note_no_room(name, error)
                else:
                    self._environment.failed(self._path, error)
            finally:
                self._write_next(name)

        if not self._environment.background.run(replace, done):
            self._not_written(name)

    def _begin(self, name: str, offsets: Offsets) -> int:
        self._possible.setdefault(name, [{}]).append(offsets)
        self._begun += 1
        return self._begun

    def _written(self, name: str, offsets: Offsets) -> None:
        """Forget what is older and cannot come back; `write_now` may have been quicker."""
        possible = self._possible[name]
        for number, one in enumerate(possible):
            if one is offsets:
                del possible[:number]
                return

    def _replace(self, name: str, number: int, data: bytes) -> None:
        """Replace a file, on any thread; blocks. Raises OSError.

        What is in the file already is written again, as by Kafka: so a directory that has failed is noticed.
        """
        with self._writing:
            if number > self._newest.get(name, 0):
                self._environment.files.write_atomically(f"{self._path}/{name}", data)
                self._newest[name] = number

    def _note_no_room(self, name: str, error: OSError) -> None:
        """Say so once, not each time."""
        if name not in self._without_room:
            self._without_room.add(name)
            logger.error("%s: no space for %s, the older one stays: %s", self._path, name, error)

    def certain(self, name: str, key: PartitionKey) -> int:
        """Return the least that a start will find there."""
        return min(offsets.get(key, 0) for offsets in self._possible.get(name, [{}]))

    def newest(self, name: str) -> Offsets:
        """Return what was last written there of each log, or is being written."""
        newest: Offsets = {}
        for offsets in self._possible.get(name, ()):
            newest |= offsets
        return newest

    def claim_more_than(self, claims: Claims) -> bool:
        """Tell whether a start might believe more of that log than is true."""
        key = claims.topic, claims.partition
        limits = {
            RECOVERY_POINTS: claims.recovery_point,
            LOG_START_OFFSETS: claims.log_start_offset,
            CLEANER_OFFSETS: claims.cleaned_to,
            HIGH_WATERMARKS: claims.log_end_offset,
        }
        return any(
            offsets.get(key, 0) > limit for name, limit in limits.items() for offsets in self._possible.get(name, ())
        )

    def write_now(self, checkpoints: Mapping[str, Offsets]) -> None:
        """Replace the files, and return when they are on the disk. Raises OSError."""
        for name, offsets in checkpoints.items():
            self._replace(name, self._begin(name, offsets), encode_offsets(offsets))
            self._written(name, offsets)
