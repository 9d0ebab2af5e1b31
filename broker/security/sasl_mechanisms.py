"""The server's side of the SASL mechanisms: each object carries one exchange.

SCRAM's is odradek.security.scram.ScramServer, that of GSSAPI is in kerberos_server.py. Sources: PlainSaslServer and
OAuthBearerSaslServer of Kafka 3.9.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from odradek.security.errors import AuthenticationFailed, InvalidCredentials

CONTROL_A: Final = b"\x01"
_OAUTH_FIRST: Final = re.compile(
    rb"n,(?:a=(?P<authzid>[\x21-\x2b\x2d-\x7e]+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)


class SaslServer(Protocol):
    """An exchange with one client."""

    mechanism: str
    complete: bool
    """True once the client has proved to be `principal`."""
    principal: str
    expires_ms: int | None
    """End of what was proved, on the wall clock; None: it holds for ever."""
    is_token: bool
    """True if a delegation token has proved it."""

    def evaluate(self, token: bytes) -> bytes | None:
        """Return the answer to a message. None is no answer, which is not an empty one where messages have no headers.

        Raises AuthenticationFailed, whose text the client is told; InvalidCredentials, of which it is told no reason;
        and NotNow, of which it is told nothing.
        """


class PlainServer:
    """PLAIN (RFC 4616): one message with name and password."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self.mechanism = "PLAIN"
        self.complete = self.is_token = False
        self.principal = ""
        self.expires_ms: int | None = None
        self._users = users

    def evaluate(self, token: bytes) -> bytes:
        parts = bytes(token).decode("utf-8", "replace").split("\0")
        if len(parts) != 3:
            raise AuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        known = self._users.get(user)
        # An unknown user is compared, too, with something that nobody can send: it must take the same time.
        if not _is_same(password, secrets.token_hex() if known is None else known) or known is None:
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.principal, self.complete = user, True
        return b""


def _is_same(one: str, other: str) -> bool:
    """Tell whether two texts are equal, in a time that tells neither how long they are nor where they differ."""
    return hmac.compare_digest(hashlib.sha256(one.encode()).digest(), hashlib.sha256(other.encode()).digest())


class ValidToken(NamedTuple):
    """Claims of a valid OAuth token: its principal, and when it expires, in ms of the wall clock."""

    principal: str
    expires_ms: int


class InsufficientScope(InvalidCredentials):
    """Raised for a valid token that lacks a scope; the text lists all that are required, which the client is told."""


class BearerServer:
    """OAUTHBEARER (RFC 7628): one message with a token; a second one acknowledges that it was refused."""

    def __init__(self, validate: Callable[[str], ValidToken]) -> None:
        """`validate` raises InvalidCredentials."""
        self.mechanism = "OAUTHBEARER"
        self.complete = self.is_token = False
        self.principal = ""
        self.expires_ms: int | None = None
        self._validate = validate
        self._refusal: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        if self._refusal is not None:
            if bytes(token) == CONTROL_A:
                raise AuthenticationFailed(self._refusal)
            raise InvalidCredentials("a refused token is not acknowledged")
        match = _OAUTH_FIRST.fullmatch(bytes(token))
        if match is None:
            raise InvalidCredentials("the first OAUTHBEARER message was not understood")
        pairs = dict(part.split("=", 1) for part in match["pairs"].decode("ascii").split("\x01") if part)
        scheme, _, bearer = pairs.get("auth", "").partition(" ")
        if scheme.lower() != "bearer" or not bearer.strip():
            raise InvalidCredentials("no bearer token in the first OAUTHBEARER message")
        try:
            found = self._validate(bearer.strip())
        except InsufficientScope as error:
            return self._refused(status="insufficient_scope", scope=str(error))
        except InvalidCredentials:
            return self._refused(status="invalid_token")
        if match["authzid"] is not None and match["authzid"].decode("ascii") != found.principal:
            raise AuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({match['authzid'].decode('ascii')}) "
                "that is different from the token's principal name"
            )
        self.principal, self.expires_ms, self.complete = found.principal, found.expires_ms, True
        return b""

    def _refused(self, **told: str) -> bytes:
        self._refusal = json.dumps(told, separators=(", ", ":"))
        return self._refusal.encode()
