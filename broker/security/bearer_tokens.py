"""OAuth tokens as a broker checks them: signature, issuer, audience and times (KIP-768); unsigned ones only on request.

Sources: OAuthBearerValidatorCallbackHandler, ValidatorAccessTokenValidator, RefreshingHttpsJwks and
OAuthBearerUnsecuredValidatorCallbackHandler of Kafka 3.9.
"""

import base64
import json
import logging
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, Final

import jwt

from odradek.broker.security.sasl_mechanisms import InsufficientScope, ValidToken
from odradek.security.errors import BadSecuritySetting, InvalidCredentials
from odradek.security.jaas import SETTING as JAAS
from odradek.security.jaas import JaasEntry
from odradek.security.tls_context import Look

log = logging.getLogger(__name__)

HANDLER: Final = "oauthbearer.sasl.server.callback.handler.class"
UNSECURED_HANDLER: Final = "OAuthBearerUnsecuredValidatorCallbackHandler"
KEYS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final = (*RSA_ALGORITHMS, "ES256", "ES384", "ES512")
"""Signatures with a public key alone: with HS256 whoever knows the key that checks could sign."""
KEYS_BYTES_MAX: Final = 1 << 20
FETCH_SECONDS: Final = 10.0
LEAST_BETWEEN_SECONDS: Final = 10.0
"""Shortest time between two fetches of keys, whatever keys the tokens name."""
LATEST_MS: Final = 1 << 62
"""Latest expiry of a token: the answer that says when has 64 bits."""
UNSECURED: Final = "unsecuredValidator"
"""Prefix of the login module's options for tokens without a signature."""


def bearer_validator(look: Look, jaas: JaasEntry | None) -> Callable[[str], ValidToken]:
    """Return what checks the tokens of a listener. Reads keys; raises BadSecuritySetting."""
    handler = (look(HANDLER) or "").rpartition(".")[2]
    if handler == UNSECURED_HANDLER:
        log.warning("tokens without a signature are accepted, as %s says: only for tests", HANDLER)
        return UnsecuredTokens({} if jaas is None else jaas.options)
    url = look(KEYS_URL)
    if url is None:
        raise BadSecuritySetting(KEYS_URL, f"OAUTHBEARER needs it (file: or https:), or {HANDLER}=…{UNSECURED_HANDLER}")
    return SignedTokens(url, look)


class SignedTokens:
    """JSON Web Tokens that an issuer has signed."""

    def __init__(self, keys_url: str, look: Look) -> None:
        self._url = keys_url
        self._principal_claim = look("sasl.oauthbearer.sub.claim.name") or "sub"
        self._audience = list(look("sasl.oauthbearer.expected.audience") or ()) or None
        self._issuer = look("sasl.oauthbearer.expected.issuer")
        self._skew_seconds = look("sasl.oauthbearer.clock.skew.seconds")
        self._refresh_seconds = look("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000
        self._fetched = time.monotonic()
        try:
            self._keys = fetch_keys(keys_url)
        except (OSError, ValueError, jwt.PyJWTError) as error:
            raise BadSecuritySetting(KEYS_URL, f"{keys_url}: {error}") from None

    def __call__(self, token: str) -> ValidToken:
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in ALGORITHMS:
                raise InvalidCredentials(f"the token's algorithm is {algorithm!r}")
            claims = jwt.decode(
                token,
                self._key(header.get("kid"), algorithm),
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._skew_seconds,
                options={"require": ["exp", "iat", self._principal_claim]},
            )
        except (jwt.PyJWTError, OverflowError, RecursionError) as error:
            raise InvalidCredentials(f"the token is not valid: {error}") from None
        return _valid(claims, self._principal_claim)

    def _key(self, key_id: str | None, algorithm: str) -> jwt.PyJWK:
        """Return the issuer's key of that name; where the name is new, or the keys are old, they are read again.

        A token that names no key is checked with the first one of its algorithm.
        """
        age = time.monotonic() - self._fetched
        known = any(one.key_id == key_id for some in self._keys.values() for one in some)
        if age > self._refresh_seconds or (not known and age > LEAST_BETWEEN_SECONDS):
            self._fetched = time.monotonic()
            threading.Thread(target=self._refresh, name="keys of the token issuer", daemon=True).start()
        for one in self._keys.get(algorithm, ()):
            if key_id in (None, one.key_id):
                return one
        raise InvalidCredentials(f"no key of the issuer is called {key_id!r} and for {algorithm}")

    def _refresh(self) -> None:
        """Fetch the issuer's keys anew, off the loop, for it may take its time; until then the former keys count."""
        try:
            self._keys = fetch_keys(self._url)
        except (OSError, ValueError, jwt.PyJWTError) as error:
            log.error("the keys at %s cannot be read, the previous ones stay: %s", self._url, error)


class UnsecuredTokens:
    """Tokens that nobody has signed: anybody may be whoever they like. For tests."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Take the options of the listener's login module. Raises BadSecuritySetting."""

        def option(name: str) -> str:
            return options.get(UNSECURED + name, "").strip()

        self._principal_claim = option("PrincipalClaimName") or "sub"
        self._scope_claim = option("ScopeClaimName") or "scope"
        self._required_scope = option("RequiredScope").split()
        skew = option("AllowableClockSkewMs") or "0"
        if not skew.isdecimal():
            raise BadSecuritySetting(JAAS, f"{UNSECURED}AllowableClockSkewMs is not a number of milliseconds")
        self._skew_ms = int(skew)

    def __call__(self, token: str) -> ValidToken:
        parts = token.split(".")
        try:
            header, claims = (json.loads(base64.urlsafe_b64decode(one + "=" * (-len(one) % 4))) for one in parts[:2])
        except (ValueError, RecursionError):
            raise InvalidCredentials("not a token") from None
        if len(parts) != 3 or parts[2] or not isinstance(header, dict) or not isinstance(claims, dict):
            raise InvalidCredentials("not a token without signature")
        if header.get("alg") != "none":
            raise InvalidCredentials("the token's algorithm is not none")
        self._check_times(claims)
        valid = _valid(claims, self._principal_claim)
        self._check_scope(claims.get(self._scope_claim))
        return valid

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        expires, issued = claims.get("exp"), claims.get("iat", -inf)
        if not isinstance(expires, int | float) or not isinstance(issued, int | float):
            raise InvalidCredentials("the token has no expiry time, or one of issue that is no number")
        now_ms = time.time() * 1000
        if expires * 1000 + self._skew_ms <= now_ms:
            raise InvalidCredentials("the token has expired")
        if issued * 1000 - self._skew_ms > now_ms or issued >= expires:
            raise InvalidCredentials("the token is from the future, or was issued after its end")

    def _check_scope(self, claim: Any) -> None:
        told = claim if isinstance(claim, list) else [claim]
        scope = {one.strip() for one in told if isinstance(one, str)}
        if not scope.issuperset(self._required_scope):
            raise InsufficientScope(f"[{', '.join(self._required_scope)}]")


def _valid(claims: dict[str, Any], principal_claim: str) -> ValidToken:
    principal = claims.get(principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        raise InvalidCredentials(f"the token has no {principal_claim}")
    expires_s = claims["exp"]
    try:
        if not isinstance(expires_s, int | float):
            raise ValueError(expires_s)
        expires_ms = int(expires_s * 1000)
    except (ValueError, OverflowError):  # JSON in Python has NaN and Infinity
        raise InvalidCredentials("the token's expiry time is not a number") from None
    return ValidToken(principal.strip(), min(expires_ms, LATEST_MS))


def fetch_keys(url: str) -> dict[str, list[jwt.PyJWK]]:
    """Return an issuer's keys, from a file or from the issuer, by the algorithms that they are for.

    Raises OSError, PyJWTError, and ValueError for anything else.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        with Path(urllib.parse.unquote(parts.path)).open("rb") as file:
            text = file.read(KEYS_BYTES_MAX)
    elif parts.scheme in ("https", "http"):
        with urllib.request.urlopen(url, timeout=FETCH_SECONDS) as answer:
            text = answer.read(KEYS_BYTES_MAX)
    else:
        raise ValueError(f"{parts.scheme}: is not https: or file:")
    try:
        told = json.loads(text.decode())
        jwt.PyJWKSet.from_dict(told)  # refuses a set of which no key is usable
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError("is no set of keys") from error
    keys: dict[str, list[jwt.PyJWK]] = {}
    for one in told["keys"]:
        for algorithm in _algorithms(one):
            with suppress(jwt.PyJWTError):
                key = jwt.PyJWK(one, algorithm)
                keys.setdefault(key.algorithm_name, []).append(key)
    return keys


def _algorithms(key: Any) -> tuple[str | None, ...]:
    """List the algorithms of signatures that a key as an issuer tells it is for; None is the one it says itself.

    An RSA key need not say one (RFC 7517), and is then for all of them.
    """
    if not isinstance(key, dict) or key.get("use") not in (None, "sig"):
        return ()
    return RSA_ALGORITHMS if key.get("kty") == "RSA" and not key.get("alg") else (None,)
