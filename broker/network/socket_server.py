"""All listeners and connections of one broker: who is let in, and what is shared."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.broker.metrics.request_metrics import Sampling
from odradek.broker.network.buffers import ReceiveBuffer
from odradek.broker.network.connection import Connection
from odradek.broker.network.limits import (
    AUTHENTICATION_MS_MAX,
    BUFFER_REVIEW_MS,
    RECEIVE_BUFFER_BYTES,
    UNAUTHENTICATED_BYTES_MAX,
    UNAUTHENTICATED_MAX,
)
from odradek.broker.network.outcomes import Answer, Client, Dispatch
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.quotas.connection_rates import ConnectionRates, ListenerRates
from odradek.broker.quotas.rates import RateWindows
from odradek.broker.settings.network_settings import ConnectionSettings
from odradek.world.clock import Clock, Timer
from odradek.world.network import Endpoint, Listener, Network
from odradek.world.tasks import OnDeath, Tasks

if TYPE_CHECKING:
    from odradek.broker.network.entrance import Entrance

logger = logging.getLogger(__name__)

SHARED = ""
"""Name of all listeners together that share the broker's max.connection.creation.rate."""
FEW_BYTES = 4096
"""Size up to which an incomplete request is counted, but the sum of all is not looked at."""
TOO_EARLY_MAX = 1000
"""Connections that wait to be refused; more are refused at once."""


class SocketServer:
    """Accepts connections and has their requests handled. Everything runs on one loop.

    Ports are taken by `listen`; until `serve` says who handles requests, whoever connects waits in the backlog.
    `timers` serve idle connections and throttles; `purgatory` holds the requests that wait.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        tasks: Tasks,
        timers: TimingWheel,
        purgatory: Purgatory,
        settings: ConnectionSettings,
        windows: RateWindows,
    ) -> None:
        """Take the `windows` that the rates of new connections are measured over."""
        self.clock = clock
        self.timers = timers
        self.purgatory = purgatory
        self.dispatch: Dispatch = _nobody_serves
        self.settings = settings
        self.sampling = Sampling()
        self.idle_ms_max = settings.connections_max_idle_ms
        self.refusal_delay_ms = settings.connection_failed_authentication_delay_ms
        self.address_of: Callable[[str], Awaitable[str]] | None = None
        """Looks up the address of a host; None where hosts are addresses."""
        self._limits_of_addresses: dict[str, int] = {}
        """Limits of the hosts that max.connections.per.ip.overrides names, by their addresses."""
        self.entrance: Entrance | None = None
        """Entrance that connections have to pass first, where some listener is not PLAINTEXT."""
        self._entering: dict[Client, tuple[Connection, Timer]] = {}
        """Connections that have not passed the entrance yet, the oldest first."""
        self._entering_bytes: Counter[Connection] = Counter()
        """Bytes that these have sent and that are not handled."""
        self._network = network
        self._listeners: dict[str, Listener] = {}
        self._connections: dict[Connection, None] = {}
        self._by_address: Counter[str] = Counter()
        self._shared = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        self._with_own_buffer: set[Connection] = set()
        self._tasks = tasks
        self._serving = False
        self.accepted: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        """Connections accepted, and closed, since the start, by listener."""
        self.authentications: Counter[tuple[str, str]] = Counter()
        """Number of logins by listener and outcome, which has the name of Kafka's metric."""
        self.address_rates: ConnectionRates | None = None
        """Limits on how often an address may connect."""
        self._too_early: set[Endpoint] = set()
        """Connections above one of these limits: not served, and closed a little later, so that their clients wait."""
        self._rates = ListenerRates(clock, windows)
        self._too_fast: set[str] = set()
        """Listeners by which too many connections have come in, so that the next ones wait; SHARED for all clients'."""

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    @property
    def listeners(self) -> list[str]:
        """Names of the listeners."""
        return list(self._listeners)

    def connections_by_listener(self) -> Counter[str]:
        """Count the open connections."""
        return Counter(connection.client.listener for connection in self._connections)

    def held_connections(self) -> int:
        """Count the connections with requests that wait to be handled."""
        return sum(connection.is_backlogged for connection in self._connections)

    def unanswered_requests(self) -> int:
        """Count the requests that are under way, or answered and not sent."""
        return sum(connection.unanswered for connection in self._connections)

    def listen(self, name: str, host: str, port: int) -> int:
        """Take one more port, accept on it once `serve` has been called, and return it. Raises OSError."""
        assert name not in self._listeners, f"listener {name} twice"
        listener = self._network.listen(host, port, lambda endpoint: self._accepted(name, endpoint))
        self._listeners[name] = listener
        self._pause_or_resume()
        return listener.port

    def unlisten(self, name: str, *, close_connections: bool) -> None:
        """Give a listener's port back; the connections that have come in by it are closed, or go on."""
        self._listeners.pop(name).close()
        if close_connections:
            for connection in [one for one in self._connections if one.client.listener == name]:
                connection.close()

    def serve(self, dispatch: Dispatch) -> None:
        """Begin to let connections in and to handle their requests."""
        self.dispatch, self._serving = dispatch, True
        self._look_up_hosts()
        self._pause_or_resume()

    def configure(self, settings: ConnectionSettings) -> None:
        """Take other limits; of more connections than they allow, those that were idle longest are closed."""
        self.settings = settings
        self._look_up_hosts()
        for _ in range(len(self._connections) - settings.max_connections):
            self._make_place()
        self._pause_or_resume()

    def stop_listening(self) -> None:
        """Let nobody in any more; connections that exist go on."""
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()

    def close(self) -> None:
        """Stop listening, close all connections. Requests that run as tasks are left to the owner of the tasks."""
        self.stop_listening()
        for connection in list(self._connections):
            connection.close()
        for endpoint in self._too_early:
            endpoint.close()
        self._too_early.clear()

    # who is let in

    def _look_up_hosts(self) -> None:
        self._limits_of_addresses = {}
        if self.address_of is not None and self.settings.max_connections_per_ip_overrides:
            self._tasks.spawn("hosts with limits", self._follow_hosts, OnDeath.REPORT)

    async def _follow_hosts(self) -> None:
        """Look up the addresses of the hosts that have a limit of their own."""
        settings, found = self.settings, dict[str, int]()
        assert self.address_of is not None, "hosts are addresses"
        for host, limit in settings.max_connections_per_ip_overrides.items():
            try:
                found[await self.address_of(host)] = limit
            except OSError as error:
                logger.error("the limit of %s in max.connections.per.ip.overrides is not applied: %s", host, error)
        if settings is self.settings:
            self._limits_of_addresses = found

    def _limit_of_address(self, host: str) -> int:
        limit = self._limits_of_addresses.get(host)
        return self.settings.connections_of_address_max(host) if limit is None else limit

    def _accepted(self, listener: str, endpoint: Endpoint) -> None:
        host = endpoint.peer.rpartition(":")[0]
        if self.address_rates is not None and (throttle_ms := self.address_rates.throttle_ms(host)):
            self._close_later(endpoint, throttle_ms)
            return
        if self._by_address[host] >= self._limit_of_address(host):
            logger.warning(
                "refusing %s: its address has %d connections, the most that max.connections.per.ip allows",
                endpoint.peer, self._by_address[host],
            )  # fmt: skip
            endpoint.close()
            return
        if len(self._connections) >= self.settings.max_connections:
            self._make_place()
        self._by_address[host] += 1
        self.accepted[listener] += 1
        client = Client(endpoint.peer, listener, self.accepted.total())
        passage = self._passage(endpoint, client)
        if passage is None:
            buffer = ReceiveBuffer(self._shared, self.settings.socket_request_max_bytes)
            self._connections[Connection(self, endpoint, client, buffer)] = None
        else:
            self._enter(client, *passage)
        self._count(listener)
        self._pause_or_resume()

    def _passage(self, endpoint: Endpoint, client: Client) -> tuple[Endpoint, Dispatch] | None:
        """Return the endpoint of a client's requests, and what handles them first; None when it has nothing to pass."""
        if self.entrance is None:
            return None
        return self.entrance.enter(endpoint, client, self._dispatch_now, lambda: self._has_passed(client))

    def _dispatch_now(self, frame: memoryview, client: Client, /) -> Answer:
        return self.dispatch(frame, client)

    def _enter(self, client: Client, endpoint: Endpoint, dispatch: Dispatch) -> None:
        """Let a client begin to authenticate: in limited time, with small requests, and not too many at once."""
        assert self.entrance is not None, client.listener
        limit = self.entrance.request_bytes_max(client.listener, self.settings.socket_request_max_bytes)
        connection = Connection(self, endpoint, client, ReceiveBuffer(self._shared, limit), dispatch)
        self._connections[connection] = None
        reason = f"it has not authenticated within {AUTHENTICATION_MS_MAX // 1000} seconds"
        timer = self.timers.call_later(AUTHENTICATION_MS_MAX, lambda: self._give_up(connection, reason))
        self._entering[client] = connection, timer
        if len(self._entering) > UNAUTHENTICATED_MAX:
            oldest, _ = next(iter(self._entering.values()))
            self._give_up(oldest, f"of more than {UNAUTHENTICATED_MAX} that have not authenticated it is the oldest")

    def _count_bytes(self, connection: Connection) -> None:
        """Keep the clients that have not authenticated from filling the memory together."""
        counts = self._entering_bytes
        counts[connection] = connection.unhandled_bytes
        if counts[connection] > FEW_BYTES and counts.total() > UNAUTHENTICATED_BYTES_MAX:
            greediest = max(counts, key=counts.__getitem__)
            del counts[greediest]
            reason = f"it has sent most of more than {UNAUTHENTICATED_BYTES_MAX} bytes without authentication"
            # later, as it may be the connection that is being read
            self.clock.call_soon(lambda: self._give_up(greediest, reason))

    def _give_up(self, connection: Connection, reason: str) -> None:
        if connection.client not in self._entering:
            return
        logger.warning("closing the connection with %s: %s", connection.client.peer, reason)
        connection.close()

    def _has_passed(self, client: Client) -> None:
        kind = "authentication" if client.authentications == 1 else "reauthentication"
        self.authentications[client.listener, f"successful-{kind}-total"] += 1
        if connection := self._end_entering(client):
            connection.admit(self.settings.socket_request_max_bytes)

    def _end_entering(self, client: Client) -> Connection | None:
        """Stop to wait for a client's authentication; return its connection, None if nobody has waited."""
        connection, timer = self._entering.pop(client, (None, None))
        if connection is not None and timer is not None:
            timer.cancel()
            self._entering_bytes.pop(connection, None)
        return connection

    def _close_later(self, endpoint: Endpoint, delay_ms: int) -> None:
        if len(self._too_early) >= TOO_EARLY_MAX:
            endpoint.close()
            return

        def close() -> None:
            if endpoint in self._too_early:
                self._too_early.remove(endpoint)
                endpoint.close()

        self._too_early.add(endpoint)
        self.timers.call_later(delay_ms, close)

    def _count(self, listener: str) -> None:
        """Count a connection, and have the next ones wait if too many have come in (KIP-612)."""
        limits = {listener: self.settings.listener_limit(listener, "max.connection.creation.rate")}
        if not self._is_protected(listener):
            limits[SHARED] = self.settings.max_connection_creation_rate
        for name, limit in limits.items():
            if delay_ms := self._rates.throttle_ms(name, limit):
                self._too_fast.add(name)
                self.timers.call_later(delay_ms, partial(self._go_on, name))

    def _go_on(self, name: str) -> None:
        self._too_fast.discard(name)
        self._pause_or_resume()

    def _make_place(self) -> None:
        """Close the connection that was idle longest, but none of the protected listener (KIP-402)."""
        others = [connection for connection in self._connections if not self._is_protected(connection.client.listener)]
        if others:
            min(others, key=lambda connection: connection.last_active_s).close()

    def _pause_or_resume(self) -> None:
        """Leave new connections in the backlog while a limit is reached, except on the protected listener."""
        enough = SHARED in self._too_fast or len(self._connections) >= self.settings.max_connections
        for name, listener in self._listeners.items():
            if (
                not self._serving
                or (enough and not self._is_protected(name))
                or self._is_full(name)
                or name in self._too_fast
            ):
                listener.pause()
            else:
                listener.resume()

    def _is_protected(self, listener: str) -> bool:
        """Tell whether a listener is the brokers' own: they are let in at any time, where clients have another one."""
        return listener == self.settings.inter_broker_listener_name and len(self._listeners) > 1

    def _is_full(self, listener: str) -> bool:
        limit = self.settings.listener_limit(listener, "max.connections")
        return limit <= len(self._connections) and limit <= sum(
            connection.client.listener == listener for connection in self._connections
        )

    # what connections ask for

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._tasks.spawn("request", lambda: coroutine, OnDeath.REPORT)

    def connection_closed(self, connection: Connection) -> None:
        client = connection.client
        del self._connections[connection]
        self._end_entering(client)
        self._with_own_buffer.discard(connection)
        self.closed[client.listener] += 1
        if client.refused:
            kind = "reauthentication" if client.authentications else "authentication"
            self.authentications[client.listener, f"failed-{kind}-total"] += 1
        if client.expired:
            self.authentications[client.listener, "expired-connections-killed-count"] += 1
        host = client.peer.rpartition(":")[0]
        self._by_address[host] -= 1
        if not self._by_address[host]:
            del self._by_address[host]
        self._pause_or_resume()

    def buffer_taken(self, connection: Connection) -> None:
        if not self._with_own_buffer:
            self.timers.call_later(BUFFER_REVIEW_MS, self._review_buffers)
        self._with_own_buffer.add(connection)
        if self._entering and connection.client in self._entering:
            self._count_bytes(connection)

    def _review_buffers(self) -> None:
        self._with_own_buffer = {connection for connection in self._with_own_buffer if connection.review_buffer()}
        if self._with_own_buffer:
            self.timers.call_later(BUFFER_REVIEW_MS, self._review_buffers)


def _nobody_serves(frame: memoryview, client: Client, /) -> Answer:
    raise AssertionError("a request before the broker serves")
