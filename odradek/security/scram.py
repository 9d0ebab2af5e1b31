"""SCRAM (RFC 5802, RFC 7677) as Kafka speaks it: no channel binding, SHA-256 and SHA-512, both sides.

Sources: org.apache.kafka.common.security.scram.internals of Kafka 3.9 (ScramFormatter, ScramMessages, ScramSaslServer,
ScramCredentialUtils). Everything here is a value in and a value out; nonces and salts are given.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from odradek.security.errors import AuthenticationFailed, InvalidCredentials

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS: Final = tuple(HASHES)
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384
"""Range of the iterations of new credentials, as in Kafka."""
ITERATIONS_MAX: Final = 2**31 - 1
"""Most iterations that can be told to anybody (RFC 5802 has no limit)."""
CLIENT_ITERATIONS_MAX: Final = 10_000_000
"""Most iterations that a client carries out: a server that asks for more wants to keep it busy."""
NONCE_BYTES: Final = 24
SALT_BYTES: Final = 20
GS2_HEADER: Final = b"n,,"
"""No channel binding, no authorization id."""
TOKEN_EXTENSION: Final = "tokenauth"

_VALUE = r"[^,\x00]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"[A-Za-z0-9+/]+={0,2}"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^,\x00]+)*"
_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>(?:[^,=\x00]|=2C|=3D)+))?,"
    rf"n=(?P<name>(?:[^,=\x00]|=2C|=3D)+),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS})"
)
_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """Credential that a server keeps instead of a password.

    Nobody can log in with it: the password would have to be guessed.
    """

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def new_credential(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """Make the credential of a password. Costs `iterations` rounds of HMAC."""
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return RFC 5802's Hi(); passwords are UTF-8 as they are, which is what Kafka does (no SASLprep)."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Make the credential of a salted password, which is what clients send to have credentials made (KIP-554)."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", name), iterations)


def encode_credential(credential: ScramCredential) -> str:
    """Encode a credential as it stands in ZooKeeper, and as kafka-configs writes it."""
    parts = {
        "salt": _b64(credential.salt),
        "stored_key": _b64(credential.stored_key),
        "server_key": _b64(credential.server_key),
        "iterations": str(credential.iterations),
    }
    return ",".join(f"{key}={value}" for key, value in parts.items())


def decode_credential(text: str) -> ScramCredential:
    """Decode a credential. Raises ValueError, which does not show the text."""
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    if parts.keys() != {"salt", "stored_key", "server_key", "iterations"} or not parts["iterations"].isdecimal():
        raise ValueError("not a SCRAM credential")
    try:
        salt, stored_key, server_key = (
            base64.b64decode(parts[key], validate=True) for key in ("salt", "stored_key", "server_key")
        )
    except binascii.Error:
        raise ValueError("not a SCRAM credential") from None
    iterations = int(parts["iterations"])
    if iterations > ITERATIONS_MAX:
        raise ValueError("not a SCRAM credential")
    return ScramCredential(salt, stored_key, server_key, iterations)


def new_nonce() -> str:
    """Return random text of the letters that a nonce may have."""
    return _b64(secrets.token_bytes(NONCE_BYTES))


class ScramClient:
    """The client's side: `first`, then `respond` to each challenge until `complete`."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str, *, token: bool = False) -> None:
        """`token`: user and password are the id and the HMAC of a delegation token."""
        self.mechanism = mechanism
        self.complete = False
        self._password = password
        self._nonce = nonce
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}{f',{TOKEN_EXTENSION}=true' if token else ''}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return what the exchange begins with."""
        return GS2_HEADER + self._first_bare.encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next message; None after the last challenge. Raises AuthenticationFailed."""
        if not self._server_signature:
            return self._final(challenge)
        self._check_server(challenge)
        self.complete = True
        return None

    def _final(self, challenge: bytes) -> bytes:
        match = _SERVER_FIRST.fullmatch(_text(challenge))
        if match is None:
            raise AuthenticationFailed("the server's first SCRAM message was not understood")
        iterations = int(match["iterations"])
        if not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise AuthenticationFailed("the server answered with another nonce: somebody is in between")
        if not LEAST_ITERATIONS <= iterations <= CLIENT_ITERATIONS_MAX:
            raise AuthenticationFailed(f"the server asks for {iterations} SCRAM iterations")
        name = HASHES[self.mechanism]
        salted = salted_password(self.mechanism, self._password, _unb64(match["salt"]), iterations)
        without_proof = f"c={_b64(GS2_HEADER)},r={match['nonce']}"
        auth_message = f"{self._first_bare},{match[0]},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", name)
        signature = hmac.digest(hashlib.new(name, client_key).digest(), auth_message, name)
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", name), auth_message, name)
        return f"{without_proof},p={_b64(_xor(client_key, signature))}".encode()

    def _check_server(self, challenge: bytes) -> None:
        match = _SERVER_FINAL.fullmatch(_text(challenge))
        if match is None:
            raise AuthenticationFailed("the server's last SCRAM message was not understood")
        if match["error"] is not None:
            raise AuthenticationFailed(f"the server says {match['error']}")
        if not hmac.compare_digest(_unb64(match["signature"]), self._server_signature):
            raise AuthenticationFailed("the server does not know the password: it is not who it says it is")


class ScramIdentity(NamedTuple):
    """Identity that may log in with SCRAM."""

    credential: ScramCredential
    principal: str
    """The user's name; for a delegation token its owner, as `User:alice`."""
    expires_ms: int | None = None
    """Wall clock; None: never."""


FindIdentity = Callable[[str, str, bool], ScramIdentity | None]
"""Finds who logs in, by mechanism, name of a user or token, and whether it is a token; None: nobody."""


class ScramServer:
    """The server's side of one exchange.

    An unknown user is answered like a known one, and fails at the end, at the same cost: the answers tell nobody which
    users there are.
    """

    def __init__(self, mechanism: str, find: FindIdentity, nonce: str, decoy_secret: bytes) -> None:
        """`decoy_secret` is the broker's: the salts of unknown users follow from it."""
        self.mechanism = mechanism
        self.complete = False
        self.principal = ""
        self.expires_ms: int | None = None
        self.is_token = False
        self._find, self._nonce, self._decoy_secret = find, nonce, decoy_secret
        self._identity: ScramIdentity | None = None
        self._credential: ScramCredential | None = None
        self._header = self._first_bare = self._server_first = ""

    def evaluate(self, token: bytes) -> bytes:
        """Answer a message. Raises AuthenticationFailed, and InvalidCredentials, whose reason clients are not told."""
        if self._credential is None:
            return self._first(_text(token))
        return self._final(_text(token), self._credential)

    def _first(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise InvalidCredentials("the first SCRAM message was not understood")
        name = _saslname(match["name"])
        if match["authzid"] is not None and _saslname(match["authzid"]) != name:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.is_token = f",{TOKEN_EXTENSION}=true" in match["extensions"].lower()
        self._identity = self._find(self.mechanism, name, self.is_token)
        self._credential = self._decoy(name) if self._identity is None else self._identity.credential
        if self._credential.iterations < LEAST_ITERATIONS:  # written by hand
            raise InvalidCredentials(f"the credential has {self._credential.iterations} iterations: too few")
        self.principal = name if self._identity is None else self._identity.principal
        flag, authzid, self._first_bare = text.split(",", 2)
        self._header = f"{flag},{authzid},"
        nonce, credential = match["nonce"] + self._nonce, self._credential
        self._server_first = f"r={nonce},s={_b64(credential.salt)},i={credential.iterations}"
        return self._server_first.encode()

    def _decoy(self, name: str) -> ScramCredential:
        digest = hmac.digest(self._decoy_secret, f"{self.mechanism} {name}".encode(), "sha512")
        size = hashlib.new(HASHES[self.mechanism]).digest_size
        return ScramCredential(digest[:SALT_BYTES], digest[:size], digest[-size:], LEAST_ITERATIONS)

    def _final(self, text: str, credential: ScramCredential) -> bytes:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise InvalidCredentials("the last SCRAM message was not understood")
        name = HASHES[self.mechanism]
        auth_message = f"{self._first_bare},{self._server_first},{match['without_proof']}".encode()
        signature = hmac.digest(credential.stored_key, auth_message, name)
        proof = _unb64(match["proof"])
        if len(proof) != len(signature):
            raise InvalidCredentials("the proof has another length")
        client_key = _xor(proof, signature)
        proven = hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key)
        nonce = self._server_first[2 : self._server_first.index(",s=")]
        # As Kafka: old librdkafka sends its own nonce once more before the whole one; the proof covers it anyhow.
        # Whose channel binding leaves an authorization id out is let in, as by Kafka, which does not look at it.
        headers = (_b64(GS2_HEADER), _b64(self._header.encode()))
        same = match["nonce"].endswith(nonce) and match["channel"] in headers
        if not proven or self._identity is None or not same:
            raise InvalidCredentials("the proof does not fit")
        self.expires_ms = self._identity.expires_ms
        self.complete = True
        return f"v={_b64(hmac.digest(credential.server_key, auth_message, name))}".encode()


def _text(message: bytes) -> str:
    return bytes(message).decode("utf-8", "replace")


def _saslname(text: str) -> str:
    return text.replace("=2C", ",").replace("=3D", "=")


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _unb64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=False))
