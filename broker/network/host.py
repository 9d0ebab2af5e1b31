"""What a connection needs of the server that it belongs to."""

from collections.abc import Coroutine
from typing import Any, Protocol

from odradek.broker.metrics.request_metrics import Sampling
from odradek.broker.network.outcomes import Dispatch
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.world.clock import Clock


class Host(Protocol):
    """Interface of the server that a connection belongs to."""

    clock: Clock
    timers: TimingWheel
    purgatory: Purgatory
    dispatch: Dispatch
    idle_ms_max: int
    refusal_delay_ms: int
    """Delay of the answer to a failed authentication (`connection.failed.authentication.delay.ms`)."""
    sampling: Sampling

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine as a task."""

    def connection_closed(self, connection: Any) -> None:
        """Forget a connection, which is closed."""

    def buffer_taken(self, connection: Any) -> None:
        """Call `review_buffer` of a connection from time to time: it has taken a receive buffer of its own."""
