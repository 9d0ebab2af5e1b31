"""What one connection, and all together, may take (FEATURES N2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

RECEIVE_BUFFER_BYTES = 1 << 16
"""Size of the buffer that all connections share, and of a connection's own one at first."""
READ_AHEAD_BYTES = RECEIVE_BUFFER_BYTES
"""While a connection's requests may not be handled, so much is read ahead before reading stops."""
UNSENT_BYTES_MAX = 1 << 20
"""A connection with more unsent answers than this has none of its requests handled until it has read some."""
UNANSWERED_REQUESTS_MAX = 256
"""Requests of one connection that may be under way at once, where the one may overtake the other."""
BUFFER_REVIEW_MS = 10_000
"""How often buffers that are larger than what their connections used since the last time are given back."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits that are configured, with Kafka's defaults and, in brackets, Kafka's names."""

    request_bytes_max: int = 100 * 1024 * 1024
    """`socket.request.max.bytes`: larger ones, and negative sizes, close the connection."""
    idle_ms_max: int = 600_000
    """`connections.max.idle.ms`: no byte either way for so long, and nothing under way: closed. -1: never."""
    connections_max: int = 0x7FFF_FFFF
    """`max.connections`: beyond it newcomers wait, except on the listener between brokers."""
    connections_per_address_max: int = 0x7FFF_FFFF
    """`max.connections.per.ip`: beyond it newcomers are closed."""
    connections_per_address_overrides: Mapping[str, int] = field(default_factory=dict)
    """`max.connections.per.ip.overrides`, by address."""
    inter_broker_listener: str = ""
    """Name of the listener that always lets in; the longest unused connection of another one goes instead (KIP-402)."""

    def of_address(self, host: str) -> int:
        """How many connections that address may have."""
        return self.connections_per_address_overrides.get(host, self.connections_per_address_max)
