"""One direction of a connection of virtual_network.py: bytes travel, arrive in order, and wait to be received."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.world.clock import Timer

if TYPE_CHECKING:
    from odradek.testing.virtual_network import VirtualNetwork

PIPE_BYTES = 256 * 1024
"""Most bytes that may be sent before the other side has received any of them (a socket's two buffers)."""


class Pipe:
    """Direction of a connection: sent bytes travel, arrive, and are received."""

    def __init__(self, network: "VirtualNetwork", source: str, target: str) -> None:
        self.network = network
        self.source, self.target = source, target
        self.travelling: deque[tuple[float, bytes]] = deque()
        """Arrival time and bytes; the empty bytes are the end of the stream."""
        self.arrived = bytearray()
        self.unreceived_bytes = 0
        self.tap: Callable[[bytes], object] | None = None
        """Shown all that is sent."""
        self.back: Pipe | None = None
        """The other direction of the connection; set when it is made."""
        self.ended = False
        self.stalled = False
        self.changed: Callable[[], object] = lambda: None
        """Called when something has arrived."""
        self._last_arrival_ms = 0.0
        self._alarm: Timer | None = None

    @property
    def room_bytes(self) -> int:
        return max(0, PIPE_BYTES - self.unreceived_bytes)

    def put(self, data: bytes) -> None:
        network = self.network
        arrival_ms = network.clock.monotonic_ms() + network.draw_latency_ms(self.source)
        arrival_ms = self._last_arrival_ms = max(arrival_ms, self._last_arrival_ms)
        self.unreceived_bytes += len(data)
        network.sent[self.source, self.target] += 1
        self.travelling.append((arrival_ms, data))
        if self.tap is not None:
            self.tap(data)
        self.arrange()

    def stall(self) -> None:
        """Let nothing arrive by this connection, as when a packet is lost again and again; others go on."""
        self.stalled = True

    def go_on(self) -> None:
        """End a stall; what was held back arrives. Harmless when there was none."""
        self.stalled = False
        self.arrange()

    def arrange(self) -> None:
        """Plan the arrival of what travels, unless the way is cut."""
        if not self.travelling or self._alarm is not None:
            return
        if not self._is_held():
            delay_ms = self.travelling[0][0] - self.network.clock.monotonic_ms()
            self._alarm = self.network.clock.call_later(max(delay_ms, 0.0), self._arrive)

    def _is_held(self) -> bool:
        return self.stalled or self.network.is_cut(self.source, self.target)

    def _arrive(self) -> None:
        self._alarm = None
        if self._is_held():
            return
        now_ms = self.network.clock.monotonic_ms()
        while self.travelling and self.travelling[0][0] <= now_ms:
            data = self.travelling.popleft()[1]
            self.arrived += data
            self.ended = self.ended or not data
        self.arrange()
        self.changed()
