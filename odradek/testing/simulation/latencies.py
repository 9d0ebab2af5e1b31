"""Latencies that faults set while they last, and that may overlap."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Latency = tuple[float, float]
"""Least and most, in ms."""


class Latencies:
    """Latency of the network, or of ZooKeeper: as usual, or what the fault wants which began last of those that go on.

    A fault that put back what it had found would leave another one's latency behind, which has ended meanwhile.
    """

    def __init__(self, usual: Latency, put: Callable[[Latency], object] = lambda latency_ms: None) -> None:
        """`put` is called with each latency that comes into force."""
        self._usual, self._put = usual, put
        self._wanted: dict[object, Latency] = {}

    @contextmanager
    def at(self, latency_ms: Latency) -> Iterator[None]:
        """Have this latency within the context, unless another fault wants one meanwhile."""
        fault = object()
        self._wanted[fault] = latency_ms
        self._put(self.now)
        try:
            yield
        finally:
            del self._wanted[fault]
            self._put(self.now)

    @property
    def now(self) -> Latency:
        """The latency in force."""
        return next(reversed(self._wanted.values()), self._usual)
