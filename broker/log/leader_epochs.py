"""Leader epochs and the offsets at which they began (KIP-101, KIP-279), in memory and in `leader-epoch-checkpoint`.

Source: org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache of 3.9.
"""

import logging
from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter

from odradek.broker.log.checkpoint_format import LEADER_EPOCHS, encode_epochs
from odradek.broker.log.errors import NO_ROOM
from odradek.world.files import Files

logger = logging.getLogger(__name__)

UNKNOWN = (-1, -1)
EPOCH, START_OFFSET = itemgetter(0), itemgetter(1)


class LeaderEpochs:
    """Leader epochs of a log: (epoch, start offset), oldest first; both increase (Kafka: LeaderEpochFileCache).

    Pure: the log writes them whenever a method returns True."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: list[tuple[int, int]] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    def entries(self) -> list[tuple[int, int]]:
        """Copy all entries."""
        return self._entries.copy()

    @property
    def latest(self) -> int:
        """Newest epoch; -1 when there is none."""
        return self._entries[-1][0] if self._entries else -1

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Let `epoch` begin at `start_offset`; older entries that contradict it go. Tells whether anything changed."""
        assert epoch >= 0 and start_offset >= 0, (epoch, start_offset)
        if self._entries and epoch == self._entries[-1][0] and start_offset >= self._entries[-1][1]:
            return False
        while self._entries and (self._entries[-1][0] >= epoch or self._entries[-1][1] >= start_offset):
            self._entries.pop()
        self._entries.append((epoch, start_offset))
        return True

    def learn(self, epoch: int, offset: int) -> None:
        """Take in that a batch at `offset` was written in `epoch`, -1 in an old format: what contradicts it goes."""
        if epoch < 0 or self.epoch_at(offset) == epoch:
            return
        self.truncate_from_end(offset)
        while self.latest > epoch:
            self._entries.pop()
        self.assign(epoch, offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (largest known epoch not above `epoch`, where it ended); (-1, -1) for -1 and for one above all known.

        Below all known it is (`epoch`, where the first known begins): what came before has left the log.
        """
        if epoch < 0 or epoch > self.latest:
            return UNKNOWN
        if epoch == self.latest:
            return epoch, log_end_offset
        above = bisect_right(self._entries, epoch, key=EPOCH)
        floor = self._entries[above - 1][0] if above else epoch
        return floor, self._entries[above][1]

    def epoch_at(self, offset: int) -> int:
        """Return the epoch whose leader wrote `offset`; -1 when unknown."""
        number = self._number_at(offset)
        return self._entries[number][0] if number >= 0 else -1

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs that begin at or after `end_offset`. Tells whether anything changed."""
        before = len(self._entries)
        while self._entries and self._entries[-1][1] >= end_offset:
            self._entries.pop()
        return len(self._entries) != before

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget epochs that ended before `start_offset`; the one that covers it begins there now."""
        number = self._number_at(start_offset)
        if number < 0 or (number == 0 and self._entries[0][1] == start_offset):
            return False
        self._entries[: number + 1] = [(self._entries[number][0], start_offset)]
        return True

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()

    def _number_at(self, offset: int) -> int:
        return bisect_right(self._entries, offset, key=START_OFFSET) - 1


class EpochFile:
    """A partition's `leader-epoch-checkpoint`. Written at each change, synced with the next flush of the log."""

    __slots__ = ("_directory", "_files", "_waiting", "unsynced", "written")

    def __init__(self, files: Files, directory: str) -> None:
        self._directory = directory
        self.unsynced = False
        self.written = 0
        """Count of how often it was written."""
        self._files = files
        self._waiting: bytes | None = None

    @property
    def path(self) -> str:
        """Return where the file is."""
        return f"{self._directory}/{LEADER_EPOCHS}"

    @property
    def waits_for_room(self) -> bool:
        """True when the disk was too full for the newest epochs, so that an older file is there, or none."""
        return self._waiting is not None

    def write(self, entries: Iterable[tuple[int, int]]) -> None:
        """Replace the file; when the disk is full, at the next change or flush instead. Raises OSError."""
        self._replace(encode_epochs(entries))

    def try_again(self) -> None:
        """Write what has waited for room, if anything has. Raises OSError."""
        if self._waiting is not None:
            self._replace(self._waiting)

    def _replace(self, data: bytes) -> None:
        waited, self._waiting = self._waiting, None
        try:
            self._files.write_atomically(self.path, data, sync=False)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._waiting = data
            if waited is None:
                logger.error("%s: no space for the leader epochs: %s", self.path, error)
        self.written += 1
        self.unsynced = True

    def synced(self, written: int) -> None:
        """Note that the file is on the disk, as it was when it had been `written` so often."""
        if written == self.written:
            self.unsynced = False

    def moved_to(self, directory: str) -> None:
        """Take the new name of the log's directory."""
        self._directory = directory
