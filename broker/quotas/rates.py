"""Rates as Kafka measures them: over a number of windows, the youngest of which is not over yet.

Source: Rate, SampledStat and TokenBucket of Kafka 3.9's metrics, and QuotaUtils.
"""

from math import inf, isnan
from typing import Final, NamedTuple

THROTTLE_MS_MAX: Final = 2**31 - 1
"""Longest throttle time that an answer can name; a limit of 0 asks for it."""


def parse_limit(text: str) -> float:
    """Read a quota as ZooKeeper has it. Raises ValueError."""
    limit = float(text)
    if isnan(limit):
        raise ValueError("not a number")
    return limit


def _whole_ms(duration_ms: float) -> int:
    """Return a time that an answer can name, also when a tiny limit makes it infinite."""
    return round(min(duration_ms, THROTTLE_MS_MAX))


class RateWindows(NamedTuple):
    """Windows of time that a rate is measured over: `quota.window.num` and `quota.window.size.seconds`, or those of
    replication, of directory moves or of the controller."""

    number: int
    length_ms: float

    @property
    def span_seconds(self) -> float:
        """Return the time over which a burst is evened out: all windows but the youngest."""
        return (self.number - 1) * self.length_ms / 1000.0


class _Window:
    """Sum of what was counted since `began_ms`."""

    __slots__ = ("began_ms", "last_ms", "value")

    def __init__(self, now_ms: float) -> None:
        self.began_ms = self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """A sum per second, over the last windows; what is older is forgotten."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: RateWindows) -> None:
        self._windows = windows
        self._samples: list[_Window] = []

    def record(self, value: float, now_ms: float) -> None:
        """Count an amount, or, if it is negative, take it back."""
        samples, windows = self._samples, self._windows
        if not samples or now_ms - samples[-1].began_ms >= windows.length_ms:
            samples.append(_Window(now_ms))
            self._forget(now_ms)
        samples[-1].value += value
        samples[-1].last_ms = now_ms

    def _forget(self, now_ms: float) -> None:
        """Drop windows in which nothing happened for as long as all of them last; one more than their number is kept,
        which overlaps the oldest."""
        samples, windows = self._samples, self._windows
        span_ms = windows.number * windows.length_ms
        while samples and (len(samples) > windows.number + 1 or now_ms - samples[0].last_ms >= span_ms):
            del samples[0]

    @property
    def last_ms(self) -> float:
        """Time of the last count, as `now_ms` of `record`; minus infinity when there was none, or it is forgotten."""
        return self._samples[-1].last_ms if self._samples else -inf

    def measure(self, now_ms: float) -> tuple[float, float]:
        """Return the rate per second, and the milliseconds that it was measured over: at least all windows but one."""
        self._forget(now_ms)
        samples, windows = self._samples, self._windows
        elapsed_ms = now_ms - samples[0].began_ms if samples else 0.0
        missing = windows.number - 1 - int(elapsed_ms / windows.length_ms)
        if missing > 0:
            elapsed_ms += missing * windows.length_ms
        elapsed_ms = max(elapsed_ms, 1.0)
        return sum(sample.value for sample in samples) * 1000.0 / elapsed_ms, elapsed_ms

    def throttle_ms(self, limit: float, now_ms: float) -> int:
        """Return how long nothing must happen until the rate is at its limit; 0 when it is not above."""
        rate, elapsed_ms = self.measure(now_ms)
        if rate <= limit:
            return 0
        if limit <= 0:
            return THROTTLE_MS_MAX
        return _whole_ms((rate - limit) / limit * elapsed_ms)


class SampledMean:
    """Mean of what was counted in the last windows; what is older is forgotten."""

    __slots__ = ("_numbers", "_sums")

    def __init__(self, windows: RateWindows) -> None:
        self._sums, self._numbers = SampledRate(windows), SampledRate(windows)

    def record(self, value: float, now_ms: float) -> None:
        """Count a value."""
        self._sums.record(value, now_ms)
        self._numbers.record(1, now_ms)

    def measure(self, now_ms: float) -> float:
        """Return the mean; 0 when nothing was counted."""
        number, _ = self._numbers.measure(now_ms)
        return self._sums.measure(now_ms)[0] / number if number else 0.0


class TokenBucket:
    """Tokens that come at a rate and are taken in bursts: full at first, below zero while somebody owes some."""

    __slots__ = ("_tokens", "_windows", "last_ms")

    def __init__(self, windows: RateWindows) -> None:
        self._windows = windows
        self._tokens: float | None = None
        self.last_ms = -inf
        """Time of the last look at it."""

    @property
    def owes(self) -> bool:
        """Tell whether something was owed at the last look."""
        return self._tokens is not None and self._tokens < 0

    def _refill(self, limit: float, now_ms: float) -> float:
        burst = self._windows.number * self._windows.length_ms / 1000.0 * limit
        passed = (now_ms - self.last_ms) / 1000.0
        self._tokens = burst if self._tokens is None else min(burst, self._tokens + passed * limit)
        self.last_ms = now_ms
        return self._tokens

    def take(self, tokens: float, limit: float, now_ms: float) -> None:
        """Take tokens, also those that are not there."""
        self._tokens = self._refill(limit, now_ms) - tokens

    def throttle_ms(self, limit: float, now_ms: float) -> int:
        """Return how long it takes until nothing is owed."""
        tokens = self._refill(limit, now_ms)
        if tokens >= 0:
            return 0
        return THROTTLE_MS_MAX if limit <= 0 else _whole_ms(-tokens / limit * 1000.0)
