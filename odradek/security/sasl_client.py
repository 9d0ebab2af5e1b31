"""The client's side of SASL: what a mechanism sends, and the requests that carry it, on a connection that is new.

Sources: SaslClientAuthenticator, OAuthBearerLoginModule and the token retrievers of Kafka 3.9 (KIP-12, 43, 84, 255).
"""

import asyncio
from typing import Final, NamedTuple

from odradek.protocol.connection import FrameReader, framed
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage, error_code
from odradek.protocol.fields import Message
from odradek.protocol.headers import RequestHeader, decode_response, encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.security.errors import AuthenticationFailed, LoginRefused
from odradek.security.logins import Login, SaslClient, in_thread
from odradek.world.network import Endpoint

ANSWER_BYTES_MAX: Final = 524_288
CHUNK_BYTES: Final = 1 << 16


class PlainClient:
    """PLAIN (RFC 4616)."""

    def __init__(self, user: str, password: str) -> None:
        self.mechanism = "PLAIN"
        self.complete = False
        self._message = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        self.complete = True
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        return None


class BearerClient:
    """OAUTHBEARER (RFC 7628)."""

    def __init__(self, token: str, extensions: dict[str, str] | None = None) -> None:
        self.mechanism = "OAUTHBEARER"
        self.complete = False
        more = "".join(f"{key}={value}\x01" for key, value in (extensions or {}).items())
        self._message = f"n,,\x01auth=Bearer {token}\x01{more}\x01".encode()

    def first(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        """Answer the broker: anything in its answer is a refusal, which is to be acknowledged."""
        if challenge:
            return b"\x01"
        self.complete = True
        return None


class Session(NamedTuple):
    """Session that a login has begun."""

    lifetime_ms: int = 0
    """Time until the client has to authenticate again; 0: for ever."""
    authenticate_version: int = 0
    """Version of SaslAuthenticate that the broker takes."""


class _Exchange:
    """Frames on a connection that nobody else uses yet."""

    def __init__(self, endpoint: Endpoint, client_id: str) -> None:
        self._endpoint = endpoint
        self._client_id = client_id
        self._frames = FrameReader(ANSWER_BYTES_MAX, CHUNK_BYTES)
        self._next = 0

    async def ask(self, message: Message, version: int) -> Message:
        header = RequestHeader(message.API_KEY, version, self._next, self._client_id)
        frame = await self.swap(b"".join(encode_request(header, message)))
        correlation_id, response = decode_response(message.API_KEY, version, frame)
        if correlation_id != self._next:
            raise MalformedMessage(f"an answer to {correlation_id}, not {self._next}")
        self._next += 1
        return response

    async def swap(self, body: bytes) -> bytes:
        """Send one frame, receive one."""
        await self.send(body)
        come = asyncio.Event()
        self._endpoint.on_readable(come.set)
        try:
            while True:
                await come.wait()
                come.clear()
                try:
                    size = self._endpoint.receive_into(self._frames.room())
                except BlockingIOError:
                    continue
                if not size:
                    raise AuthenticationFailed("the broker closed the connection while it was authenticated")
                frames = self._frames.filled(size)
                if frames:
                    return bytes(frames[0])
        finally:
            self._endpoint.on_readable(None)

    async def send(self, body: bytes) -> None:
        """Send one frame."""
        rest, room = memoryview(b"".join(framed([body]))), asyncio.Event()
        while rest:
            try:
                rest = rest[self._endpoint.send(rest) :]
            except BlockingIOError:
                self._endpoint.on_writable(room.set)
                try:
                    await room.wait()
                finally:
                    self._endpoint.on_writable(None)
                room.clear()


async def authenticate(endpoint: Endpoint, login: Login, host: str, client_id: str) -> Session:
    """Log in on a new connection to `host`; return the session that this begins.

    Raises AuthenticationFailed, and OSError when the connection broke.
    """
    sasl = await in_thread(login, host) if login.blocks else login.new(host)
    exchange = _Exchange(endpoint, client_id)
    try:
        versions = await exchange.ask(ApiVersionsRequest(), 0)
        assert isinstance(versions, ApiVersionsResponse), versions
        served = {one.api_key: one.max_version for one in versions.api_keys}
        authenticate_max = served.get(SaslAuthenticateRequest.API_KEY, -1)
        handshake_version = min(served.get(SaslHandshakeRequest.API_KEY, 0), 1 if authenticate_max >= 0 else 0)
        answer = await exchange.ask(SaslHandshakeRequest(mechanism=login.mechanism), handshake_version)
        assert isinstance(answer, SaslHandshakeResponse), answer
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer.mechanisms) or "no mechanism"
            raise LoginRefused(f"the broker does not take {login.mechanism}, but {offered}")
        if answer.error_code != ErrorCode.NONE:
            raise AuthenticationFailed(f"the broker refuses SASL: {KafkaError(error_code(answer.error_code))}")
        if handshake_version == 0:
            await _carry_raw(exchange, sasl)
            return Session()
        version = min(authenticate_max, 2)
        return Session(await _carry(exchange, sasl, version), version)
    except MalformedMessage as error:
        raise AuthenticationFailed(f"the broker's answer was not understood: {error}") from error


async def _carry(exchange: _Exchange, sasl: SaslClient, version: int) -> int:
    message: bytes | None = sasl.first()
    lifetime_ms = 0
    while message is not None:
        answer = await exchange.ask(SaslAuthenticateRequest(auth_bytes=message), version)
        assert isinstance(answer, SaslAuthenticateResponse), answer
        if answer.error_code != ErrorCode.NONE:
            said = answer.error_message or KafkaError(error_code(answer.error_code)).message
            final = answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED and sasl.mechanism != "GSSAPI"
            raise (LoginRefused if final else AuthenticationFailed)(f"{sasl.mechanism}: {said}")
        lifetime_ms = answer.session_lifetime_ms
        message = sasl.respond(bytes(answer.auth_bytes))
    return lifetime_ms


async def _carry_raw(exchange: _Exchange, sasl: SaslClient) -> None:
    """Exchange messages without headers, as brokers before 1.0 want them; GSSAPI's last one has no answer there."""
    message: bytes | None = sasl.first()
    while message is not None:
        if sasl.mechanism == "GSSAPI" and sasl.complete:
            await exchange.send(message)
            return
        message = sasl.respond(await exchange.swap(message))
