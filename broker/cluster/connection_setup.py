"""Timeouts of setting up connections to other brokers, which grow with each failure in a row (KIP-601)."""

import asyncio
from collections import Counter
from collections.abc import Callable

from odradek.broker.settings.network_settings import ConnectionSettings
from odradek.world.network import Endpoint, Listener, Network


class ConnectionSetup:
    """A network in which `connect` has a limit of time: a host that drops packets would else hold it for minutes.

    The limit begins at socket.connection.setup.timeout.ms and doubles with each failure in a row of one address, up to
    socket.connection.setup.timeout.max.ms. Source: ClusterConnectionStates of Kafka 3.9.
    """

    def __init__(self, network: Network, settings: ConnectionSettings) -> None:
        self._network, self._settings = network, settings
        self._failures: Counter[tuple[str, int]] = Counter()

    def listen(self, host: str, port: int, accepted: Callable[[Endpoint], object]) -> Listener:
        """Listen as the network beneath does."""
        return self._network.listen(host, port, accepted)

    async def connect(self, host: str, port: int) -> Endpoint:
        """Return an open connection. Raises OSError, also when it has not come up in time."""
        limit_ms = self._limit_ms(host, port)
        try:
            async with asyncio.timeout(limit_ms / 1000.0) as limit:
                endpoint = await self._network.connect(host, port)
        except OSError as error:  # a TimeoutError is one
            self._failures[host, port] += 1
            if limit.expired():
                reason = f"no connection within {limit_ms:.0f} ms (socket.connection.setup.timeout.ms)"
                raise OSError(reason) from error
            raise
        del self._failures[host, port]
        return endpoint

    def _limit_ms(self, host: str, port: int) -> float:
        settings, failures = self._settings, min(self._failures[host, port], 16)
        limit_ms = settings.socket_connection_setup_timeout_ms * 2**failures
        return float(max(1, min(limit_ms, settings.socket_connection_setup_timeout_max_ms)))
