"""Which leader epoch began at which offset (KIP-101, KIP-279).

Source: org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache of 3.9.
"""

from bisect import bisect_right
from collections.abc import Iterable

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
