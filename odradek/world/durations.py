"""Distributions of durations: cheap to add to, read by whoever asks."""

from collections import deque
from collections.abc import Iterable
from typing import Final

BUCKETS: Final = 36
"""Number of buckets; the last one but one ends above nine hours."""
PERIODS: Final = 5
"""Periods before the present one that count as recent."""


class Durations:
    """Count, sum and distribution of durations, in powers of two of a microsecond.

    Bucket 0 holds those below a microsecond, bucket n those of at least 2**(n-1) and less than 2**n microseconds.
    """

    __slots__ = ("_before", "buckets", "count", "sum_s")

    def __init__(self) -> None:
        self.count = 0
        self.sum_s = 0.0
        self.buckets = [0] * BUCKETS
        self._before: deque[list[int]] = deque(maxlen=PERIODS)

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.count += 1
        self.sum_s += seconds
        at = int(seconds * 1e6).bit_length()
        self.buckets[at if at < BUCKETS else -1] += 1

    def begin_period(self) -> None:
        """Begin a period: what is older than the last PERIODS is not recent any more. Called each minute, say."""
        if self.count:
            self._before.append(self.buckets.copy())

    @classmethod
    def together(cls, parts: Iterable["Durations"]) -> "Durations":
        """Put distributions together: all that they count, and the recent durations of each."""
        whole = cls()
        for part in parts:
            whole.count += part.count
            whole.sum_s += part.sum_s
            whole.buckets = [one + other for one, other in zip(whole.buckets, part._recent(), strict=True)]
        return whole

    def _recent(self) -> list[int]:
        if not self._before:
            return self.buckets
        return [now - before for now, before in zip(self.buckets, self._before[0], strict=True)]

    def quantile_s(self, quantile: float) -> float:
        """Return the duration in seconds below which that share of the recent ones lies; 0.0 when there are none.

        It is interpolated within its bucket.
        """
        recent = self._recent()
        wanted = quantile * sum(recent)
        for at, count in enumerate(recent):
            if count and wanted <= count:
                least = 0.0 if at == 0 else 2.0 ** (at - 1)
                return (least + (2.0**at - least) * wanted / count) / 1e6
            wanted -= count
        return 0.0
