"""Connections whose SASL session ends: the client authenticates again on them in time (KIP-368).

Between two of its user's requests the endpoint sends SaslHandshake and the mechanism's messages by itself, and takes
their answers out of what is received. Meanwhile it takes no more bytes to send, as if there were no room; answers to
what was asked before go through. Its own requests have correlation ids that nobody else uses, as in Java's
SaslClientAuthenticator, which begins again after a random part of the session's time too.
"""

import asyncio
import errno
import random
from collections.abc import Callable
from typing import Final

from odradek.protocol.connection import SIZE_BYTES, framed
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage, error_code
from odradek.protocol.fields import Message
from odradek.protocol.headers import RequestHeader, decode_response, encode_request
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.primitives import Buffer
from odradek.security.errors import AuthenticationFailed
from odradek.security.logins import Login, SaslClient, in_thread
from odradek.security.sasl_client import ANSWER_BYTES_MAX, Session
from odradek.world.clock import Clock
from odradek.world.files import File
from odradek.world.network import Endpoint

FIRST_OWN_ID: Final = 0x7FFF_FFF8
"""Correlation ids from here on are those of authentication."""
EARLIEST, LATEST = 0.85, 0.95
"""Part of a session's time after which the next one begins."""
HEAD_BYTES: Final = SIZE_BYTES + 4
STAGING_BYTES: Final = 1 << 16


class _Stream:
    """Tracker of where the frames of a stream begin, whose bytes come in any pieces."""

    def __init__(self) -> None:
        self.missing = 0
        """Bytes that the frame which has begun still lacks, once its size is known."""
        self._size = b""

    @property
    def at_boundary(self) -> bool:
        return not self.missing and not self._size

    def pass_on(self, data: memoryview) -> None:
        """Take note of bytes that went by."""
        at, end = 0, len(data)
        while at < end:
            if self.missing:
                step = min(self.missing, end - at)
                self.missing -= step
                at += step
                continue
            step = min(SIZE_BYTES - len(self._size), end - at)
            self._size += data[at : at + step]
            at += step
            if len(self._size) == SIZE_BYTES:
                self.missing, self._size = int.from_bytes(self._size, "big"), b""


class SessionEndpoint:
    """An endpoint, already authenticated, that keeps its session alive."""

    def __init__(
        self, endpoint: Endpoint, login: Login, host: str, session: Session, clock: Clock, client_id: str
    ) -> None:
        """`host` is the broker's, by the name that was connected to."""
        self.peer = endpoint.peer
        self._endpoint, self._login, self._host = endpoint, login, host
        self._clock, self._client_id = clock, client_id
        self._version = session.authenticate_version
        self._sent, self._received = _Stream(), _Stream()
        self._blocked = False
        """True when bytes of the user wait beneath and are to be offered again before anything else."""
        self._exchange: SaslClient | None = None
        self._under_way = self._shaken = False
        self._next_id = FIRST_OWN_ID
        self._outbox = memoryview(b"")
        self._held, self._ready = bytearray(), bytearray()
        """Bytes received: those that are not sorted yet, and those to be given to the user."""
        self._staging: memoryview | None = None
        self._failure: OSError | None = None
        self._readable: Callable[[], object] | None = None
        self._writable: Callable[[], object] | None = None
        self._closed = False
        self._due_ms = 0.0
        self._begin_session(session.lifetime_ms)

    def _begin_session(self, lifetime_ms: int) -> None:
        part = random.uniform(EARLIEST, LATEST)  # so that not all clients come at once
        self._due_ms = self._clock.monotonic_ms() + lifetime_ms * part if lifetime_ms > 0 else float("inf")

    # ---- an endpoint's methods

    def send(self, data: Buffer, *, more: bool = False) -> int:
        if self._under_way:
            raise BlockingIOError(errno.EAGAIN, "authenticating again")
        view = memoryview(data)
        offered = view
        if not self._blocked and self._clock.monotonic_ms() >= self._due_ms:
            if self._sent.at_boundary:
                self._authenticate()
                raise BlockingIOError(errno.EAGAIN, "authenticating again")
            if self._sent.missing:  # no frame may begin before
                offered, more = view[: self._sent.missing], False
        try:
            count = self._endpoint.send(offered, more=more)
        except BlockingIOError:
            self._blocked = True
            raise
        self._blocked = False
        self._sent.pass_on(view[:count])
        return count

    def send_file(self, file: File, position: int, length: int) -> int:
        raise NotImplementedError("clients send no files")

    def receive_into(self, buffer: memoryview, /) -> int:
        if self._failure is not None:
            raise self._failure
        if not (self._under_way or self._held or self._ready):
            count = self._endpoint.receive_into(buffer)
            self._received.pass_on(buffer[:count])
            return count
        if not self._ready and not self._fill():
            return 0
        if self._failure is not None:
            raise self._failure
        if not self._ready:
            raise BlockingIOError(errno.EAGAIN, "nothing but an answer of SASL")
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        del self._ready[:count]
        if self._ready:
            self._clock.call_soon(self._wake)
        return count

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self._readable = callback
        self._endpoint.on_readable(callback)
        if callback is not None and self._ready:
            self._clock.call_soon(self._wake)

    def wake_at(self, count: int) -> None:
        self._endpoint.wake_at(count)

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        self._writable = callback
        if not self._under_way:
            self._endpoint.on_writable(callback)

    def close(self, *, abandon: bool = False) -> None:
        self._closed = True
        self._readable = self._writable = None
        self._endpoint.close(abandon=abandon)

    # ---- what is received meanwhile

    def _fill(self) -> int:
        """Receive, and sort what has come; return the number of bytes, 0 at the end."""
        if self._staging is None:
            self._staging = memoryview(bytearray(STAGING_BYTES))
        count = self._endpoint.receive_into(self._staging)
        self._held += self._staging[:count]
        self._sort()
        return count

    def _sort(self) -> None:
        """Give answers of SASL to the exchange, everything else to the user."""
        while self._held:
            if not self._received.at_boundary:
                self._give(self._received.missing or 1)
                continue
            if not self._under_way:
                self._give(len(self._held))
                continue
            if len(self._held) < HEAD_BYTES:
                return
            size = int.from_bytes(self._held[:SIZE_BYTES], "big")
            if int.from_bytes(self._held[SIZE_BYTES:HEAD_BYTES], "big") < FIRST_OWN_ID:
                self._give(HEAD_BYTES)
                continue
            if size > ANSWER_BYTES_MAX:
                self._fail(AuthenticationFailed(f"the broker answered SASL with {size} bytes"))
                return
            if len(self._held) < SIZE_BYTES + size:
                return
            frame = bytes(self._held[SIZE_BYTES : SIZE_BYTES + size])
            del self._held[: SIZE_BYTES + size]
            self._answered(frame)

    def _give(self, count: int) -> None:
        some = bytes(self._held[:count])
        del self._held[:count]
        self._received.pass_on(memoryview(some))
        self._ready += some

    def _wake(self) -> None:
        if self._readable is not None:
            self._readable()

    # ---- authentication

    def _authenticate(self) -> None:
        """Begin to authenticate again. A token is fetched in a thread."""
        self._under_way = True
        self._endpoint.on_writable(None)
        if self._login.blocks:
            in_thread(self._login, self._host).add_done_callback(self._logged_in)
        else:
            self._shake_hands(self._login.new(self._host))

    def _logged_in(self, made: "asyncio.Future[SaslClient]") -> None:
        if self._closed or made.cancelled():
            return
        error = made.exception()
        if error is None:
            self._shake_hands(made.result())
        else:
            self._fail(error if isinstance(error, OSError) else AuthenticationFailed(str(error)))

    def _shake_hands(self, exchange: SaslClient) -> None:
        self._exchange = exchange
        self._ask(SaslHandshakeRequest(mechanism=self._login.mechanism), 1)

    def _ask(self, message: Message, version: int) -> None:
        self._next_id = self._next_id + 1 if self._next_id < 0x7FFF_FFFF else FIRST_OWN_ID
        header = RequestHeader(message.API_KEY, version, self._next_id, self._client_id)
        self._outbox = memoryview(bytes(self._outbox) + b"".join(framed(encode_request(header, message))))
        self._flush()

    def _flush(self) -> None:
        try:
            while self._outbox:
                self._outbox = self._outbox[self._endpoint.send(self._outbox) :]
        except BlockingIOError:
            self._endpoint.on_writable(self._flush)
        except OSError as error:
            self._fail(error)
        else:
            self._endpoint.on_writable(None)

    def _answered(self, frame: bytes) -> None:
        key = SaslAuthenticateRequest.API_KEY
        try:
            if self._exchange is not None and not self._shaken:
                _, shake = decode_response(SaslHandshakeRequest.API_KEY, 1, frame)
                assert isinstance(shake, SaslHandshakeResponse), shake
                self._require(shake.error_code, None)
                self._shaken = True
                self._ask(SaslAuthenticateRequest(auth_bytes=self._exchange.first()), self._version)
                return
            _, answer = decode_response(key, self._version, frame)
            assert isinstance(answer, SaslAuthenticateResponse) and self._exchange is not None, answer
            self._require(answer.error_code, answer.error_message)
            message = self._exchange.respond(bytes(answer.auth_bytes))
            if message is not None:
                self._ask(SaslAuthenticateRequest(auth_bytes=message), self._version)
            else:
                self._finish(answer.session_lifetime_ms)
        except (AuthenticationFailed, MalformedMessage) as error:
            self._fail(error if isinstance(error, OSError) else AuthenticationFailed(str(error)))

    def _require(self, code: int, said: str | None) -> None:
        if code != ErrorCode.NONE:
            reason = said or KafkaError(error_code(code)).message
            raise AuthenticationFailed(f"{self._login.mechanism}, again: {reason}")

    def _finish(self, lifetime_ms: int) -> None:
        self._under_way, self._shaken, self._exchange = False, False, None
        self._begin_session(lifetime_ms)
        if self._writable is not None:
            self._endpoint.on_writable(self._writable)

    def _fail(self, error: OSError) -> None:
        """Have the user learn of the error when it receives next."""
        self._failure = error
        self._clock.call_soon(self._wake)
