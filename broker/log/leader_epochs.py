"""Which leader epoch began at which offset (KIP-101, KIP-279), in memory and in `leader-epoch-checkpoint`.

Source: org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache of 3.9.
"""

import logging
from bisect import bisect_right
from collections.abc import Iterable

from odradek.broker.log.checkpoint_format import LEADER_EPOCHS, encode_epochs
from odradek.broker.log.failure import DISK_FULL
from odradek.world.files import Files

logger = logging.getLogger(__name__)

UNKNOWN = (-1, -1)


class LeaderEpochs:
    """Pure; both columns rise. The log writes `entries()` to its file whenever a method answers True."""

    __slots__ = ("_epochs", "_start_offsets")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    @property
    def latest(self) -> int:
        """-1 when there is none."""
        return self._epochs[-1] if self._epochs else -1

    def assign(self, epoch: int, start_offset: int) -> bool:
        """`epoch` begins at `start_offset`; older entries that contradict it go. Whether anything changed."""
        assert epoch >= 0 and start_offset >= 0, (epoch, start_offset)
        epochs, starts = self._epochs, self._start_offsets
        if epochs and epoch == epochs[-1] and start_offset >= starts[-1]:
            return False
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        return True

    def learn(self, epoch: int, offset: int) -> None:
        """A batch at `offset` says that it was written in `epoch`, -1 in an old format: what contradicts it goes."""
        if epoch < 0 or self.epoch_at(offset) == epoch:
            return
        self.truncate_from_end(offset)
        while self._epochs and self._epochs[-1] > epoch:
            self._epochs.pop()
            self._start_offsets.pop()
        if self.latest != epoch:
            self.assign(epoch, offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest known epoch not above `epoch`, where it ended); (-1, -1) when `epoch` is -1 or above all known.

        Below all known it is (`epoch`, where the first known begins): what came before has left the log.
        """
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return UNKNOWN
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        above = bisect_right(self._epochs, epoch)
        floor = self._epochs[above - 1] if above else epoch
        return floor, self._start_offsets[above]

    def epoch_at(self, offset: int) -> int:
        """The epoch whose leader wrote `offset`; -1 when unknown."""
        slot = bisect_right(self._start_offsets, offset) - 1
        return self._epochs[slot] if slot >= 0 else -1

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs that begin at or after `end_offset`. Whether anything changed."""
        before = len(self._epochs)
        while self._start_offsets and self._start_offsets[-1] >= end_offset:
            self._epochs.pop()
            self._start_offsets.pop()
        return len(self._epochs) != before

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget epochs that ended before `start_offset`; the one that covers it begins there now."""
        slot = bisect_right(self._start_offsets, start_offset) - 1
        if slot < 0 or (slot == 0 and self._start_offsets[0] == start_offset):
            return False
        del self._epochs[:slot]
        del self._start_offsets[:slot]
        self._start_offsets[0] = start_offset
        return True

    def clear(self) -> None:
        """Forget all."""
        self._epochs.clear()
        self._start_offsets.clear()


class EpochFile:
    """A partition's `leader-epoch-checkpoint`. Written at each change, synced with the next flush of the log."""

    __slots__ = ("_files", "_waiting", "path", "unsynced", "written")

    def __init__(self, files: Files, directory: str) -> None:
        self.path = f"{directory}/{LEADER_EPOCHS}"
        self.unsynced = False
        self.written = 0
        """Count of how often it was written."""
        self._files = files
        self._waiting: bytes | None = None

    @property
    def waits_for_room(self) -> bool:
        """True when the disk was too full for the newest epochs, so that an older file is there, or none."""
        return self._waiting is not None

    def write(self, entries: Iterable[tuple[int, int]]) -> None:
        """Replace the file. On a full disk that waits for the next change or flush. Raises OSError."""
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
            if error.errno not in DISK_FULL:
                raise
            self._waiting = data
            if waited is None:
                logger.error("%s: no room for the leader epochs: %s", self.path, error)
        self.written += 1
        self.unsynced = True

    def synced(self, written: int) -> None:
        """Note that the file is on the disk as it was when it had been written that often."""
        if written == self.written:
            self.unsynced = False

    def moved_to(self, directory: str) -> None:
        """Take the new name of the log's directory."""
        self.path = f"{directory}/{LEADER_EPOCHS}"
