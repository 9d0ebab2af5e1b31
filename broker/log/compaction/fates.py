"""What becomes of each dirty record: known when the map is filled, so that few batches have to be decoded once more.

A byte for each offset from the first dirty one on, for as many as FATES_MAX; of others the keys are looked up.
"""

from collections.abc import Iterable

from odradek.broker.log.batches import Batch
from odradek.protocol.record_batch import MAGIC_V2
from odradek.protocol.record_filter import GONE

FATES_MAX = 16 * 1024 * 1024


class Fates:
    """Of the offsets from `start` to, not including, `end`."""

    __slots__ = ("_fates", "_start")

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._fates = bytearray(min(max(0, end - start), FATES_MAX))

    def _place(self, batch: Batch) -> slice | None:
        """Of a batch of which every offset has a record; the first offset of an old format's is not known."""
        begin, end = batch.base_offset - self._start, batch.last_offset + 1 - self._start
        complete = batch.magic == MAGIC_V2 and end - begin == batch.record_count
        return slice(begin, end) if complete and begin >= 0 and end <= len(self._fates) else None

    def learn(self, batch: Batch, fates: bytearray, superseded: Iterable[int]) -> None:
        """The next batch has come into the map, whereby the records at these offsets have to go."""
        place = self._place(batch)
        if place is not None:
            self._fates[place] = fates
        known, start, size = self._fates, self._start, len(self._fates)
        for offset in superseded:
            if start <= offset < start + size:
                known[offset - start] = GONE

    def of(self, batch: Batch) -> bytearray | None:
        """A byte for each record of a batch that has come into the map; None when that is not known from here."""
        place = self._place(batch)
        return None if place is None else self._fates[place]
