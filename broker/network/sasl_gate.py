"""SASL authentication of a connection: what its client may send before it has authenticated, and how it does so.

    ApiVersions, until one succeeds → SaslHandshake → SaslAuthenticate, as often as the mechanism wants → requests

After a SaslHandshake of version 0 the mechanism's messages come without headers, each behind its size; those of GSSAPI
may also come first of all, from clients of Kafka 0.9. Everything else is refused, and the connection closed, after
connection.failed.authentication.delay.ms; who begins anew amid an exchange is told ILLEGAL_SASL_STATE. Once a client is
in, its requests go to the dispatcher; where sessions have an end it may authenticate again, as the same user (KIP-368).
Source: SaslServerAuthenticator of Kafka 3.9.
"""

import logging
from collections.abc import Callable
from enum import Enum
from typing import Final

from odradek.broker.network.boundary import UnsupportedRequestError
from odradek.broker.network.outcomes import Answer, Client, Outcome, Reply
from odradek.broker.security.principal import USER_TYPE, KafkaPrincipal
from odradek.broker.security.sasl_listener import SaslListener
from odradek.broker.security.sasl_mechanisms import SaslServer
from odradek.protocol.connection import framed
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.fields import Message
from odradek.protocol.headers import api_name, decode_request, decode_request_header, encode_response
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.primitives import Part
from odradek.security.errors import AuthenticationFailed, InvalidCredentials, NotNow
from odradek.world.clock import Clock, sleep

log = logging.getLogger(__name__)

API_VERSIONS: Final = 18
VERSIONS_ERROR: Final = slice(8, 10)
"""Error code in the frame of an answer to ApiVersions: behind size and correlation id, in every version."""
WITHOUT_HANDSHAKE: Final = "GSSAPI"
"""Mechanism of clients that begin with one of its messages: the only one that Kafka 0.9 had."""
HANDSHAKE, AUTHENTICATE = SaslHandshakeRequest.API_KEY, SaslAuthenticateRequest.API_KEY
VERSIONS_SERVED: Final = {HANDSHAKE: range(2), AUTHENTICATE: range(3)}
LEAST_BETWEEN_MS: Final = 1000.0
"""Least time between two authentications of one connection."""


class State(Enum):
    """Progress of a client through SASL."""

    NEW = "waits for ApiVersions or SaslHandshake"
    VERSIONS_KNOWN = "waits for SaslHandshake"
    EXCHANGE = "carries messages of the mechanism"
    RAW_EXCHANGE = "carries messages of the mechanism without headers"
    IN = "is in"
    REFUSED = "is refused"


class _Refused(Exception):  # noqa: N818 - a state of the client, no error of ours
    """The client is not let in. `answer` is what it is told before the connection is closed, if anything; `has_failed`
    is false where it may come again at once, as it has not failed to authenticate."""

    def __init__(self, reason: str, answer: list[Part] | None = None, *, has_failed: bool = True) -> None:
        super().__init__(reason)
        self.answer, self.has_failed = answer, has_failed


class _LateAnswer:
    """The answer to a failed authentication, and the end of the connection; both wait a while."""

    def __init__(self, parts: list[Part], clock: Clock, delay_ms: int) -> None:
        self._parts = parts
        self.outcome: Outcome = self._wait(clock, delay_ms)

    async def _wait(self, clock: Clock, delay_ms: int) -> Reply:
        await sleep(clock, delay_ms)
        return Reply(SaslAuthenticateResponse(), close=True)

    def answer(self, response: Message | None) -> list[Part]:
        """Return the same parts whatever `response` is."""
        return self._parts


class SaslGate:
    """SASL authentication of one connection, called with its requests in place of the dispatcher."""

    def __init__(
        self,
        client: Client,
        listener: SaslListener,
        clock: Clock,
        refusal_delay_ms: int,
        dispatch: Callable[[memoryview, Client], Answer],
        passed: Callable[[], object],
    ) -> None:
        self._client, self._listener, self._clock = client, listener, clock
        self._refusal_delay_ms = refusal_delay_ms
        self._dispatch, self._passed = dispatch, passed
        self.state = State.NEW
        self._server: SaslServer | None = None
        self._mechanism = ""
        """Mechanism of the first authentication, which must not change."""
        self._expires_ms: float | None = None
        """End of the session, on the monotonic clock; None for a session without end."""
        self._begun_again_ms = -LEAST_BETWEEN_MS
        self._again = False

    def __call__(self, frame: memoryview, client: Client, /) -> Answer:
        try:
            if self.state is State.REFUSED:
                raise _Refused("it has been refused before", has_failed=False)
            if self.state is State.IN:
                if self._expires_ms is None:
                    return self._dispatch(frame, client)
                return self._in_session(frame, client)
            return self._enter(bytes(frame), client)
        except _Refused as refused:
            self.state = State.REFUSED
            client.refused = client.refused or refused.has_failed
            log.warning("refusing %s: %s", client.peer, refused)
            return _LateAnswer(refused.answer or [], self._clock, self._refusal_delay_ms)

    def _in_session(self, frame: memoryview, client: Client) -> Answer:
        now_ms = self._clock.monotonic_ms()
        assert self._expires_ms is not None
        if frame[:2] == HANDSHAKE.to_bytes(2, "big") and now_ms - self._begun_again_ms >= LEAST_BETWEEN_MS:
            self._begun_again_ms, self._again = now_ms, True
            return self._enter(bytes(frame), client)
        if now_ms > self._expires_ms:
            client.expired = True
            raise UnsupportedRequestError("its SASL session has expired without re-authentication")
        return self._dispatch(frame, client)

    def _enter(self, frame: bytes, client: Client) -> Answer:
        if len(frame) > self._listener.receive_bytes_max:
            raise _Refused(f"{len(frame)} bytes before it has authenticated (sasl.server.max.receive.size)")
        if self.state is State.RAW_EXCHANGE:
            return self._raw(frame)
        try:
            header, _ = decode_request_header(frame)
        except MalformedMessage as error:
            if self.state is not State.NEW or WITHOUT_HANDSHAKE not in self._listener.mechanisms:
                raise _Refused(f"not understood: {error}") from None
            self._begin(WITHOUT_HANDSHAKE, State.RAW_EXCHANGE)
            return self._raw(frame)
        try:
            if self.state is State.EXCHANGE:
                return self._exchange(frame, header.api_key, header.api_version, header.correlation_id)
            if header.api_key == API_VERSIONS and self.state is State.NEW:
                answer = self._dispatch(memoryview(bytearray(frame)), client)
                if not isinstance(answer, list) or b"".join(answer)[VERSIONS_ERROR] == bytes(2):
                    self.state = State.VERSIONS_KNOWN
                return answer
            if header.api_key != HANDSHAKE:
                raise _Refused(f"{api_name(header.api_key)} before SaslHandshake")
            return self._handshake(frame, header.api_version, header.correlation_id)
        except (MalformedMessage, UnsupportedRequestError, KeyError) as error:
            raise _Refused(f"not understood: {error}") from None

    def _handshake(self, frame: bytes, version: int, correlation_id: int) -> Answer:
        request = _decoded(frame, HANDSHAKE, version)
        assert isinstance(request, SaslHandshakeRequest)
        offered = list(self._listener.mechanisms)
        if request.mechanism not in offered:
            response = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
            raise _Refused(
                f"SASL mechanism {request.mechanism[:40]!r} is not of {', '.join(offered)}",
                _frame(correlation_id, version, response),
            )
        self._begin(request.mechanism, State.EXCHANGE if version >= 1 else State.RAW_EXCHANGE)
        return _frame(correlation_id, version, SaslHandshakeResponse(mechanisms=offered))

    def _begin(self, mechanism: str, state: State) -> None:
        self.state = state
        if self._again and mechanism != self._mechanism:
            # As Kafka: the handshake is answered as if all were well, and the exchange fails.
            self._server = None
        else:
            self._server = self._listener.server(mechanism)
            self._mechanism = mechanism

    def _exchange(self, frame: bytes, api_key: int, version: int, correlation_id: int) -> Answer:
        if api_key != AUTHENTICATE:
            answer = None
            if api_key == HANDSHAKE and version in VERSIONS_SERVED[HANDSHAKE]:
                out_of_turn = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
                answer = _frame(correlation_id, version, out_of_turn)
            elif api_key == API_VERSIONS:
                least, most = ApiVersionsResponse.VERSIONS
                of_version = version if least <= version <= most else 0
                refusal = ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
                answer = _frame(correlation_id, of_version, refusal)
            raise _Refused(f"{api_name(api_key)} in the middle of SASL", answer)
        request = _decoded(frame, AUTHENTICATE, version)
        assert isinstance(request, SaslAuthenticateRequest)
        try:
            token = self._evaluate(bytes(request.auth_bytes))
        except AuthenticationFailed as error:
            raise _Refused(str(error), self._failure(correlation_id, version, str(error))) from None
        except InvalidCredentials as error:
            # The client is told no more, which could give away whether there is such a user.
            said = f"Authentication failed during {self._what()} due to invalid credentials with SASL mechanism "
            raise _Refused(
                f"{said}{self._mechanism}: {error}", self._failure(correlation_id, version, said + self._mechanism)
            ) from None
        except NotNow as error:
            raise _Refused(f"cannot log in now with {self._mechanism}: {error}", has_failed=False) from None
        lifetime_ms = self._end_if_complete()
        response = SaslAuthenticateResponse(auth_bytes=token or b"", session_lifetime_ms=lifetime_ms)
        return _frame(correlation_id, version, response)

    def _raw(self, frame: bytes) -> Answer:
        """Answer a message of the mechanism that has no header, without a header; a failure is not answered at all."""
        try:
            token = self._evaluate(frame)
        except (AuthenticationFailed, InvalidCredentials, NotNow) as error:
            raise _Refused(f"{self._mechanism}: {error}", has_failed=not isinstance(error, NotNow)) from None
        self._end_if_complete()
        return None if token is None else framed([token])

    def _evaluate(self, token: bytes) -> bytes | None:
        server = self._server
        if server is None:
            raise AuthenticationFailed(
                f"SASL mechanism '{self._mechanism}' was used before and cannot change during re-authentication"
            )
        answer = server.evaluate(token)
        if server.complete and self._again and _principal(server) != self._client.principal:
            raise AuthenticationFailed(
                f"Cannot change principals during re-authentication from {self._client.principal}: {_principal(server)}"
            )
        return answer

    def _end_if_complete(self) -> int:
        """Let the client in once its SASL exchange is complete; return the session's lifetime in ms.

        0 while the exchange is not complete, and for a session without end.
        """
        server = self._server
        if server is None or not server.complete:
            return 0
        self.state, self._server = State.IN, None
        self._client.authenticated(_principal(server), by_token=server.is_token)
        self._passed()
        lifetime_ms = self._listener.session_lifetime_ms(server, self._clock.now_ms())
        self._expires_ms = None if lifetime_ms is None else self._clock.monotonic_ms() + lifetime_ms
        return lifetime_ms or 0

    def _failure(self, correlation_id: int, version: int, message: str) -> list[Part]:
        response = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message)
        return _frame(correlation_id, version, response)

    def _what(self) -> str:
        return "re-authentication" if self._again else "authentication"


def _principal(server: SaslServer) -> KafkaPrincipal:
    """Return the principal that has logged in; a delegation token's is its owner, of whatever type that is."""
    return KafkaPrincipal.parse(server.principal) if server.is_token else KafkaPrincipal(USER_TYPE, server.principal)


def _decoded(frame: bytes, api_key: int, version: int) -> Message:
    if version not in VERSIONS_SERVED[api_key]:
        raise UnsupportedRequestError(f"{api_name(api_key)} version {version} is not served")
    return decode_request(frame)[1]


def _frame(correlation_id: int, version: int, response: Message) -> list[Part]:
    return framed(encode_response(correlation_id, version, response))
