"""Connection to one broker, on an event loop: negotiates versions when it opens, then carries pipelined requests.

It does the I/O for `protocol.connection.ClientConnection`. All methods are for the loop's thread only.
"""

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Mapping
from typing import Any, TypeVar

from odradek.client.config import SecurityConfig
from odradek.client.errors import BrokerUnreachable, ConfigError, RequestTimedOut, UnsupportedByBroker
from odradek.client.needed_versions import check_version, drop_bad_epochs
from odradek.protocol.connection import DEFAULT_MAX_RESPONSE_BYTES, ClientConnection
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage, TextTooLong, error_code
from odradek.protocol.fields import Message
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.primitives import Part
from odradek.security.errors import BadSecuritySetting, LoginRefused
from odradek.world.clock import Clock, Timer
from odradek.world.network import Endpoint, Network
from odradek.world.tasks import Tasks

SOFTWARE_NAME = "odradek"
SOFTWARE_VERSION = "0.1.0"
UNSENT_BYTES_LIMIT = 512 * 1024 * 1024
"""Most bytes that may wait for the operating system to take them. If there are more, the broker has stopped reading."""
UNANSWERED_LIMIT = 100_000
"""Most unanswered requests on one connection: a program may ask about all its topics or groups in one gather."""
WAKE_AT_BYTES = 1 << 20
"""Bytes of a large answer for which the loop is woken, as long as so many are missing. Each wake-up costs; and after it
the loop's thread waits up to 5 ms for Python's lock while the application's thread works."""

Response = TypeVar("Response", bound=Message)


class Connection:
    """An open connection. After `close`, or when it breaks, every open request fails with BrokerUnreachable."""

    def __init__(
        self, endpoint: Endpoint, clock: Clock, address: str, client_id: str, records_bytes_max: int = 0
    ) -> None:
        """`records_bytes_max`: the most bytes of records that an answer is asked to have."""
        self.address = address
        self.closed = False
        self.last_used_ms = clock.monotonic_ms()
        self.served: Ranges = {}
        self._clock = clock
        self._endpoint = endpoint
        most = DEFAULT_MAX_RESPONSE_BYTES + records_bytes_max
        self._protocol = ClientConnection(client_id, max_response_bytes=most, max_in_flight=UNANSWERED_LIMIT)
        self._waiting: deque[tuple[asyncio.Future[Message], Timer]] = deque()
        self._unsent: deque[tuple[memoryview, asyncio.Future[None] | None]] = deque()
        """Bytes that the operating system has not taken yet, and futures of callers that wait until it has."""
        self._unsent_bytes = 0
        self._writing = False
        self._muted_until_ms = 0.0
        """Time until which the broker reads nothing from this client, since a quota was exceeded (KIP-219)."""
        self._told = False
        """True if a request was sent that is not answered: it counts as delivered, and must not be taken back."""
        endpoint.on_readable(self._readable)

    @property
    def idle(self) -> bool:
        """True when no request waits for its answer and nothing is left to send."""
        return not self._waiting and not self._unsent

    @property
    def unanswered(self) -> int:
        """Requests that wait for their answers."""
        return len(self._waiting)

    async def request(
        self, message: Message, response: type[Response], timeout_ms: float, *, highest_version: int | None = None
    ) -> Response:
        """Send a request in the highest common version, and return the answer; `timeout_ms` is for the answer.

        Raises BrokerUnreachable, RequestTimedOut, UnsupportedByBroker; ConfigError for a text that is too long.
        """
        version = common_version(type(message), self.served, self.address, highest_version)
        if highest_version is None:  # else the caller has chosen the version for what it asks
            check_version(message, version, self.address)
        answer = await self.ask(message, version, timeout_ms)
        drop_bad_epochs(answer, version)
        assert isinstance(answer, response), f"{type(answer).__name__} where {response.__name__} was due"
        return answer

    async def ask(self, message: Message, version: int, timeout_ms: float) -> Message:
        """Send a request in the given version, and return the answer. Raises BrokerUnreachable, RequestTimedOut,
        ConfigError."""
        if self.closed:
            raise BrokerUnreachable(self.address, "the connection is closed")
        if not self._protocol.may_send():
            raise BrokerUnreachable(self.address, f"{self._protocol.max_in_flight} requests are unanswered")
        parts = self._encoded(message, version)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        name = type(message).__name__
        muted_ms = max(0.0, self._muted_until_ms - self._clock.monotonic_ms())
        timer = self._clock.call_later(muted_ms + timeout_ms, lambda: self._timed_out(name, timeout_ms))
        self._waiting.append((answer, timer))
        self._send(parts)
        return await answer

    async def send_unanswered(self, message: Message, timeout_ms: float) -> None:
        """Send a request that brokers do not answer (Produce with acks=0); return when the operating system has it.

        From then on it is sent, even if this client closes the connection. Raises as `request`.
        """
        version = common_version(type(message), self.served, self.address)
        if self.closed:
            raise BrokerUnreachable(self.address, "the connection is closed")
        parts = self._encoded(message, version, answered=False)
        self._told = True
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        said = f"{type(message).__name__} was not read within {timeout_ms:.0f} ms"
        timer = self._clock.call_later(timeout_ms, lambda: self._break(RequestTimedOut(self.address, said)))
        try:
            self._send(parts, taken)
            await taken
        finally:
            timer.cancel()

    def close(self, reason: str = "closed by the client") -> None:
        """Close; every open request fails with BrokerUnreachable for this reason. Calling it again does nothing."""
        self._break(BrokerUnreachable(self.address, reason))

    def _encoded(self, message: Message, version: int, *, answered: bool = True) -> list[Part]:
        try:
            return self._protocol.request(message, version, answered=answered)[1]
        except TextTooLong as error:
            raise ConfigError(f"{type(message).__name__}: {error}") from error

    def _send(self, parts: list[Part], taken: "asyncio.Future[None] | None" = None) -> None:
        self.last_used_ms = self._clock.monotonic_ms()
        *rest, last = parts
        self._unsent.extend((memoryview(part), None) for part in rest)
        self._unsent.append((memoryview(last), taken))
        self._unsent_bytes += sum(map(len, parts))
        if self._unsent_bytes > UNSENT_BYTES_LIMIT:
            self.close(f"the broker has not read {self._unsent_bytes} bytes that were sent to it")
        elif not self._writing:
            self._writable()

    def _writable(self) -> None:
        try:
            while self._unsent:
                data, taken = self._unsent[0]
                sent = self._endpoint.send(data, more=len(self._unsent) > 1)
                self._unsent_bytes -= sent
                if sent < len(data):
                    self._unsent[0] = data[sent:], taken
                    continue
                self._unsent.popleft()
                if taken is not None and not taken.done():
                    taken.set_result(None)
        except BlockingIOError:
            self._write_later(True)
        except OSError as error:
            self._break(BrokerUnreachable(self.address, f"sending failed: {error}"))
        else:
            self._write_later(False)

    def _write_later(self, wanted: bool) -> None:
        if wanted != self._writing and not self.closed:
            self._writing = wanted
            self._endpoint.on_writable(self._writable if wanted else None)

    def _readable(self) -> None:
        try:
            count = self._endpoint.receive_into(self._protocol.room())
        except BlockingIOError:
            return
        except OSError as error:
            self._break(BrokerUnreachable(self.address, f"receiving failed: {error}"))
            return
        if not count:
            self._break(BrokerUnreachable(self.address, "the broker closed the connection"))
            return
        try:
            received = self._protocol.filled(count)
        except MalformedMessage as error:
            self._break(BrokerUnreachable(self.address, f"sent something that is not Kafka's protocol: {error}"))
            return
        self.last_used_ms = self._clock.monotonic_ms()
        self._endpoint.wake_at(min(self._protocol.lacking, WAKE_AT_BYTES) or 1)
        for one in received:
            throttle_ms: int = getattr(one.message, "throttle_time_ms", 0)
            if throttle_ms > 0:
                self._muted_until_ms = self.last_used_ms + throttle_ms
            answer, timer = self._waiting.popleft()
            timer.cancel()
            if not answer.done():
                answer.set_result(one.message)

    def _timed_out(self, name: str, timeout_ms: float) -> None:
        error = RequestTimedOut(self.address, f"no answer to {name} within {timeout_ms:.0f} ms")
        self._break(error, abandon=not self._told)

    def _break(self, error: BrokerUnreachable, *, abandon: bool = False) -> None:
        if self.closed:
            return
        self.closed = True
        self._endpoint.close(abandon=abandon)
        for _, taken in self._unsent:
            if taken is not None and not taken.done():
                taken.set_exception(error)
        self._unsent.clear()
        for answer, timer in self._waiting:
            timer.cancel()
            if not answer.done():
                answer.set_exception(error)
        self._waiting.clear()


class Link:
    """The connection to one node for one purpose, or the attempt to open it."""

    __slots__ = ("attempt", "connection", "failures", "login_refused", "reason", "retry_at_ms")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.attempt: asyncio.Task[Connection] | None = None
        self.failures = 0
        self.reason = ""
        self.login_refused = False
        self.retry_at_ms = 0.0

    @property
    def open_connection(self) -> Connection | None:
        """The connection while it is open; None without one."""
        connection = self.connection
        return None if connection is None or connection.closed else connection


async def connect(
    network: Network,
    clock: Clock,
    tasks: Tasks,
    host: str,
    port: int,
    client_id: str,
    timeout_ms: float,
    records_bytes_max: int = 0,
) -> Connection:
    """Open a connection and ask which API versions the broker serves. Raises BrokerUnreachable."""
    address = f"{host}:{port}"
    newest, oldest = API_VERSIONS_TRIED

    async def opened() -> Connection:
        endpoint = await _opened(network, clock, tasks, host, port, timeout_ms)
        return Connection(endpoint, clock, address, client_id, records_bytes_max)

    connection = await opened()
    try:
        try:
            answer = await _ask_versions(connection, newest, timeout_ms)
        except RequestTimedOut:
            raise
        except BrokerUnreachable:  # it closed the connection, as a broker may that does not know the version
            connection = await opened()
            answer = await _ask_versions(connection, oldest, timeout_ms)
        if answer.error_code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST):
            answer = await _ask_versions(connection, oldest, timeout_ms)
        if answer.error_code != ErrorCode.NONE:
            said = KafkaError(error_code(answer.error_code))
            raise BrokerUnreachable(address, f"refused ApiVersions: {said}")
    except BaseException:  # also when the caller is cancelled
        connection.close()
        raise
    connection.served = ranges_of(answer)
    return connection


async def _ask_versions(connection: Connection, version: int, timeout_ms: float) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
    answer = await connection.ask(request, version, timeout_ms)
    assert isinstance(answer, ApiVersionsResponse), type(answer).__name__
    return answer


async def _opened(network: Network, clock: Clock, tasks: Tasks, host: str, port: int, timeout_ms: float) -> Endpoint:
    address = f"{host}:{port}"
    attempt = tasks.result_of(f"connect to {address}", lambda: network.connect(host, port))
    timer = clock.call_later(timeout_ms, attempt.cancel)
    try:
        return await attempt
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            if attempt.done() and not attempt.cancelled() and attempt.exception() is None:
                attempt.result().close()  # it has just opened, and nobody gets it
            raise
        raise BrokerUnreachable(address, f"no connection within {timeout_ms:.0f} ms") from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)
        refused = isinstance(error, LoginRefused)
        raise BrokerUnreachable(address, f"cannot connect: {reason}", login_refused=refused) from error
    finally:
        timer.cancel()


Ranges = Mapping[int, tuple[int, int]]
"""API key → lowest and highest version that a broker serves."""

API_VERSIONS_TRIED = (3, 0)
"""The version asked first on each connection, and the one to fall back to when the broker refuses it (KIP-511)."""


def ranges_of(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    """Return the versions in an ApiVersions answer, by API key."""
    return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}


def common_version(message: type[Message], served: Ranges, address: str, highest: int | None = None) -> int:
    """Return the highest version of a request that both sides know, at most `highest`. Raises UnsupportedByBroker."""
    own_lowest, own_highest = message.VERSIONS
    name = message.__name__.removesuffix("Request")
    if message.API_KEY not in served:
        raise UnsupportedByBroker(f"broker {address} does not serve {name} (API key {message.API_KEY})")
    lowest, served_highest = served[message.API_KEY]
    if highest is not None:
        own_highest = min(own_highest, highest)
    version = min(own_highest, served_highest)
    if version < max(own_lowest, lowest):
        raise UnsupportedByBroker(
            f"broker {address} serves {name} {lowest}-{served_highest}, this client {own_lowest}-{own_highest}"
        )
    return version


def secured(network: Network, clock: Clock, config: SecurityConfig) -> Network:
    """Return the network on which to open connections, with TLS and login as configured. Reads files of keys and
    certificates. Raises ConfigError."""
    if config.security_protocol == "PLAINTEXT":
        return network
    from odradek.security.secure_network import ClientSecurity, SecureNetwork

    if config.ssl_context is not None and not isinstance(config.ssl_context, ssl.SSLContext):
        raise ConfigError(f"ssl.context must be an ssl.SSLContext, not {type(config.ssl_context).__name__}")

    def look(name: str) -> Any:
        if name == "ssl.endpoint.identification.algorithm" and not config.ssl_check_hostname:
            return ""
        return getattr(config, name.replace(".", "_"), None)

    try:
        security = ClientSecurity.read(config.security_protocol, look, config.ssl_context)
    except BadSecuritySetting as error:
        raise ConfigError(str(error), setting=error.setting) from None
    return SecureNetwork(network, clock, security)
