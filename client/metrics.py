"""A client's metrics: sensors by Kafka's names, sampled over metrics.num.samples windows of metrics.sample.window.ms.

A sensor records once for a request, a batch or a poll, never for each record. Any thread may read.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from odradek.world.clock import Clock


class MetricName(NamedTuple):
    """Name and group of one figure."""

    name: str
    group: str


class Metric(NamedTuple):
    """One figure, as `metrics(raw=True)` returns it."""

    metric_name: MetricName
    measured: float

    def value(self) -> float:
        """Return the figure, as it was when `metrics` was called."""
        return self.measured


class Window:
    """Sum, count and maximum of the values that a sensor recorded in one window of time."""

    __slots__ = ("began_ms", "count", "highest", "total")

    def __init__(self, began_ms: float) -> None:
        self.began_ms = began_ms
        self.count = 0
        self.total = 0.0
        self.highest = float("-inf")


class Sensor:
    """Statistics of recorded values: a total of all, the others of the last windows. Without values they are NaN, as in
    Kafka, the rate is 0."""

    def __init__(self, clock: Clock, samples: int, window_ms: float) -> None:
        self._clock, self._samples, self._window_ms = clock, samples, window_ms
        self._windows = [Window(clock.monotonic_ms())]
        self.total = 0.0
        """Sum of all values that were ever recorded."""

    def record(self, value: float = 1.0) -> None:
        """Record a value; 1 to count an event."""
        now_ms = self._clock.monotonic_ms()
        current = self._windows[-1]
        if now_ms - current.began_ms >= self._window_ms:
            current = Window(now_ms)
            self._windows = [*self._live(now_ms), current]
        self.total += value
        current.count += 1
        current.total += value
        current.highest = max(current.highest, value)

    def _live(self, now_ms: float) -> list[Window]:
        """Return the windows that are not too old to count."""
        oldest_ms = now_ms - self._samples * self._window_ms
        return [window for window in self._windows[-self._samples :] if window.began_ms > oldest_ms]

    @property
    def rate(self) -> float:
        """Return the sum of values per second (Kafka's Rate: over a time never shorter than all windows but one)."""
        now_ms = self._clock.monotonic_ms()
        windows = self._live(now_ms)
        if not windows:
            return 0.0
        elapsed_ms = max(now_ms - windows[0].began_ms, (self._samples - 1) * self._window_ms, 1.0)
        return sum(window.total for window in windows) * 1000 / elapsed_ms

    @property
    def average(self) -> float:
        """Return the mean value."""
        windows = self._live(self._clock.monotonic_ms())
        count = sum(window.count for window in windows)
        return sum(window.total for window in windows) / count if count else float("nan")

    @property
    def highest(self) -> float:
        """Return the highest value."""
        windows = self._live(self._clock.monotonic_ms())
        return max((window.highest for window in windows if window.count), default=float("nan"))


STATISTICS: Mapping[str, Callable[[Sensor], float]] = {
    "rate": lambda sensor: sensor.rate,
    "total": lambda sensor: sensor.total,
    "avg": lambda sensor: sensor.average,
    "max": lambda sensor: sensor.highest,
}
Figures = dict[str, dict[str, float]]
"""Group → name → figure."""


class Metrics:
    """The sensors of one client."""

    def __init__(self, clock: Clock, samples: int, window_ms: float) -> None:
        self._clock, self._samples, self._window_ms = clock, samples, window_ms
        self._sensors: dict[MetricName, tuple[Sensor, tuple[str, ...]]] = {}

    def sensor(self, group: str, name: str, *statistics: str) -> Sensor:
        """Return the sensor of that name, made at the first call with these statistics: the figures `name-rate`,
        `name-total`, `name-avg`, `name-max`."""
        known = self._sensors.get(MetricName(name, group))
        if known is None:
            sensor = Sensor(self._clock, self._samples, self._window_ms)
            known = self._sensors[MetricName(name, group)] = (sensor, statistics)
        return known[0]

    def figures(self) -> Figures:
        """Return all figures by group."""
        found: Figures = {}
        for (name, group), (sensor, statistics) in list(self._sensors.items()):
            for statistic in statistics:
                found.setdefault(group, {})[f"{name}-{statistic}"] = STATISTICS[statistic](sensor)
        return found


def merged(parts: Iterable[Figures]) -> Figures:
    """Return the figures of several sources in one; where group and name are the same, the last counts."""
    found: Figures = {}
    for part in parts:
        for group, figures in part.items():
            found.setdefault(group, {}).update(figures)
    return found


def raw(figures: Figures) -> dict[MetricName, Metric]:
    """Return figures as kafka-python's `metrics(raw=True)` does: by MetricName, each with `value()`."""
    return {
        MetricName(name, group): Metric(MetricName(name, group), figure)
        for group, named in figures.items()
        for name, figure in named.items()
    }
