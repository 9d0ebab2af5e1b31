"""The client's side of a connection to another broker: followers, the controller's channels and forwarders use it.

Requests may be pipelined; the answers come in the same order. A peer connects when there is something to send and no
connection. A connection that breaks, answers nonsense, or does not answer in time is closed, and everything under way
on it fails: whether the other broker has acted on those requests is unknown. Pauses between attempts are up to the
caller. A large answer is received straight into a buffer of its own, which the message's `records` are views of.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from functools import partial

from odradek.broker.network.boundary import Boundary
from odradek.broker.network.buffers import Output
from odradek.broker.settings.network_settings import ConnectionSettings
from odradek.protocol.connection import FrameReader, framed
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import Message
from odradek.protocol.headers import RequestHeader, decode_correlation_id, decode_response, encode_request
from odradek.protocol.primitives import Buffer
from odradek.world.clock import Clock
from odradek.world.network import Endpoint, Listener, Network
from odradek.world.tasks import OnDeath, Tasks

RECEIVE_BYTES = 1 << 16
"""Size of the reused buffer: answers that come whole within it are copied out of it."""
RESPONSE_BYTES_MAX = 128 * 1024 * 1024
"""Largest size of an answer that is believed, unless more was asked for."""
REQUESTS_MAX = 1000
"""Requests that may be under way or wait for the connection at once; more are refused."""
CORRELATION_IDS = 1 << 31


log = logging.getLogger(__name__)


class BrokerUnreachable(OSError):  # noqa: N818 - the state of a broker, as its users put it
    """Failure of a request to another broker: no connection, a broken one, a timeout, or the request was given up."""


class _Request:
    """A request that has no answer yet."""

    __slots__ = ("answer", "correlation_id", "message", "version")

    def __init__(self, message: Message, version: int, answer: asyncio.Future[Message]) -> None:
        self.message = message
        self.version = version
        self.answer = answer
        self.correlation_id = -1


class _Link:
    """A connection, from the moment it is open until it breaks."""

    def __init__(self, peer: "Peer", endpoint: Endpoint) -> None:
        self._peer = peer
        self._endpoint = endpoint
        self._output = Output(endpoint, self._flush)
        self._boundary = Boundary(endpoint.peer, partial(self.close, "the answer was not understood"))
        self._next_correlation_id = 0
        self._frames = FrameReader(peer.response_bytes_max, RECEIVE_BYTES)
        self.sent: deque[_Request] = deque()
        self.closed = False
        endpoint.on_readable(self._on_readable)

    def send(self, request: _Request) -> None:
        request.correlation_id = self._next_correlation_id
        self._next_correlation_id = (self._next_correlation_id + 1) % CORRELATION_IDS
        header = RequestHeader(request.message.API_KEY, request.version, request.correlation_id, self._peer.client_id)
        self._output.push(framed(encode_request(header, request.message)))
        self.sent.append(request)
        self._flush()

    def _flush(self) -> None:
        try:
            self._output.flush()
        except OSError as error:
            self.close(str(error))

    def _on_readable(self) -> None:
        try:
            received = self._endpoint.receive_into(self._frames.room())
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
            return
        if not received:
            self.close("closed by the other side")
            return
        with self._boundary:
            for frame in self._frames.filled(received):
                self._answered(frame)

    def _answered(self, frame: Buffer) -> None:
        if not self.sent:
            raise MalformedMessage("an answer without a request")
        request = self.sent.popleft()
        try:
            if decode_correlation_id(frame) != request.correlation_id:
                raise MalformedMessage(f"an answer to {decode_correlation_id(frame)}, not {request.correlation_id}")
            _, response = decode_response(request.message.API_KEY, request.version, frame)
        except MalformedMessage:
            self.sent.appendleft(request)
            raise
        if not request.answer.done():
            request.answer.set_result(response)

    def close(self, reason: str) -> None:
        """Fail every request without an answer, and keep those that have not arrived from arriving; harmless twice."""
        if self.closed:
            return
        self.closed = True
        self._endpoint.close(abandon=bool(self.sent))
        self._output.clear()
        self._frames.clear()
        self._peer._link_closed(self)
        self._peer._fail(self.sent, reason)


class Peer:
    """Requests to one address. Used on the loop only."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        host: str,
        port: int,
        client_id: str,
        tasks: Tasks | None = None,
        records_bytes_max: int = 0,
    ) -> None:
        """`tasks` are those of the broker that asks; None if it is no broker. `records_bytes_max`: most that it asks
        for, or that it may be sent as a single batch."""
        self.client_id = client_id
        self.response_bytes_max = RESPONSE_BYTES_MAX + records_bytes_max
        self._network = network
        self._clock = clock
        self._tasks = tasks or Tasks(clock, log.error)
        self.host = host
        self.port = port
        self._link: _Link | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._unsent: deque[_Request] = deque()
        """Requests that wait for the connection."""
        self._closed = False

    def __repr__(self) -> str:
        return f"Peer({self.host}:{self.port})"

    @property
    def connected(self) -> bool:
        """Tell whether there is a connection now."""
        return self._link is not None

    async def request(self, message: Message, version: int, timeout_ms: float) -> Message:
        """Send a request, connecting before if needed, and wait for its answer for `timeout_ms` in all.

        Raises BrokerUnreachable. The `records` of the answer are the caller's, for as long as it holds them.
        """
        under_way = len(self._unsent) + (len(self._link.sent) if self._link else 0)
        if self._closed or under_way >= REQUESTS_MAX:
            raise self._unreachable("closed here" if self._closed else f"{under_way} requests wait already")
        request = _Request(message, version, asyncio.get_running_loop().create_future())
        timer = self._clock.call_later(timeout_ms, partial(self._give_up, request, timeout_ms))
        try:
            if self._link is not None:
                self._link.send(request)
            else:
                self._unsent.append(request)
                if self._connecting is None:
                    self._connecting = self._tasks.spawn(f"connect to {self}", self._connect, OnDeath.REPORT)
            return await request.answer
        finally:
            timer.cancel()

    def close(self, reason: str = "closed here") -> None:
        """Drop the connection; what is under way fails with that reason, and so do later requests. Harmless twice."""
        self._closed = True
        self._stop_connecting()
        if self._link is not None:
            self._link.close(reason)
        self._fail(self._unsent, reason)

    async def _connect(self) -> None:
        try:
            endpoint = await self._network.connect(self.host, self.port)
        except OSError as error:
            self._connecting = None
            self._fail(self._unsent, str(error) or type(error).__name__)
            return
        self._connecting = None
        link = self._link = _Link(self, endpoint)
        while self._unsent and not link.closed:
            link.send(self._unsent.popleft())
        self._fail(self._unsent, "the connection broke")

    def _give_up(self, request: _Request, timeout_ms: float) -> None:
        """End a request whose time is up. A connection on which an answer is missing is of no use any more."""
        if request.answer.done():
            return
        reason = f"no answer within {timeout_ms:.0f} ms"
        request.answer.set_exception(self._unreachable(reason))
        if self._link is not None and request.correlation_id >= 0:
            self._link.close(reason)
            return
        self._unsent.remove(request)
        if not self._unsent:
            self._stop_connecting()

    def _stop_connecting(self) -> None:
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()

    def _link_closed(self, link: _Link) -> None:
        if self._link is link:
            self._link = None

    def _fail(self, requests: deque[_Request], reason: str) -> None:
        while requests:
            answer = requests.popleft().answer
            if not answer.done():
                answer.set_exception(self._unreachable(reason))

    def _unreachable(self, reason: str) -> BrokerUnreachable:
        return BrokerUnreachable(f"{self.host}:{self.port}: {reason}")


class ConnectionSetup:
    """A network whose `connect` has a time limit (KIP-601): a host that drops packets would hold it for minutes.

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
