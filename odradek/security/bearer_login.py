"""Tokens for SASL OAUTHBEARER at the client's side: from the application, a file, an issuer, or made up on request.

Sources: OAuthBearerLoginCallbackHandler, FileTokenRetriever, HttpAccessTokenRetriever and
OAuthBearerUnsecuredLoginCallbackHandler of Kafka 3.9 (KIP-255, KIP-768).
"""

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

from odradek.security.errors import AuthenticationFailed, BadSecuritySetting
from odradek.security.jaas import JaasEntry
from odradek.security.logins import Login
from odradek.security.sasl_client import BearerClient
from odradek.security.tls_context import Look

UNSECURED_CLAIM: Final = "unsecuredLoginStringClaim_"
UNSECURED_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"
EXTENSION: Final = "extension_"
TOKEN_BYTES_MAX: Final = 1 << 20
TIMEOUT_SECONDS: Final = 10.0
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"


def bearer_login(look: Look, jaas: JaasEntry | None) -> Login:
    """Return the login of OAUTHBEARER that gets its tokens as the settings say. Raises BadSecuritySetting."""
    options = {} if jaas is None else jaas.options
    if jaas is not None and jaas.family != "OAUTHBEARER":
        raise BadSecuritySetting("sasl.jaas.config", f"{jaas.module} is not for OAUTHBEARER")
    extensions = {name.removeprefix(EXTENSION): text for name, text in options.items() if name.startswith(EXTENSION)}
    provider, endpoint = look("sasl.oauth.token.provider"), look(ENDPOINT)
    if provider is not None:
        if not callable(getattr(provider, "token", None)):
            raise BadSecuritySetting("sasl.oauth.token.provider", "has no method token()")
        return Login("OAUTHBEARER", lambda _: BearerClient(_given(provider), extensions), blocks=True)
    if endpoint is not None:
        return Login("OAUTHBEARER", lambda _: BearerClient(_fetch(look, endpoint, options), extensions), blocks=True)
    claims = {
        name.removeprefix(UNSECURED_CLAIM): text for name, text in options.items() if name.startswith(UNSECURED_CLAIM)
    }
    if claims:
        lifetime = int(options.get(UNSECURED_LIFETIME, "3600"))
        return Login("OAUTHBEARER", lambda _: BearerClient(unsecured_token(claims, lifetime), extensions))
    raise BadSecuritySetting(ENDPOINT, "OAUTHBEARER needs it, or sasl_oauth_token_provider, to come by a token")


def _given(provider: Any) -> str:
    """Return the application's token. Whatever it raises is a login that failed, and is tried again."""
    try:
        return _checked(provider.token())
    except AuthenticationFailed:
        raise
    except Exception as error:
        raise AuthenticationFailed(f"no token from sasl.oauth.token.provider: {error!r}") from error


def unsecured_token(claims: dict[str, Any], lifetime_seconds: int) -> str:
    """Make a token that nobody has signed: whoever believes it believes anybody."""
    now = time.time()
    body = {"iat": now, "exp": now + lifetime_seconds, **claims}
    return f"{_part({'alg': 'none'})}.{_part(body)}."


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _fetch(look: Look, endpoint: str, options: dict[str, str]) -> str:
    parts = urllib.parse.urlsplit(endpoint)
    try:
        if parts.scheme == "file":
            with Path(urllib.parse.unquote(parts.path)).open("rb") as file:
                return _checked(file.read(TOKEN_BYTES_MAX).decode("ascii").strip())
        if parts.scheme not in ("https", "http"):
            raise AuthenticationFailed(f"{ENDPOINT}: {parts.scheme}: is not https: or file:")
        return _from_issuer(look, endpoint, options)
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, AuthenticationFailed):
            raise
        raise AuthenticationFailed(f"no token from {ENDPOINT}: {error}") from None


class _Here(urllib.request.HTTPRedirectHandler):
    """An issuer that sends us elsewhere is refused: the secret would go there too."""

    def redirect_request(self, *elsewhere: Any, **more: Any) -> None:
        """Refuse to follow: the answer is an error as it stands."""


def _from_issuer(look: Look, endpoint: str, options: dict[str, str]) -> str:
    """Get a token by OAuth's client credentials grant. Raises OSError, and ValueError if the answer is not JSON."""
    client_id, secret = options.get("clientId"), options.get("clientSecret")
    if client_id is None or secret is None:
        raise AuthenticationFailed("sasl.jaas.config needs clientId and clientSecret to get a token from an issuer")
    form = {"grant_type": "client_credentials"}
    if options.get("scope"):
        form["scope"] = options["scope"]
    request = urllib.request.Request(endpoint, urllib.parse.urlencode(form).encode(), method="POST")
    request.add_header("Authorization", f"Basic {base64.b64encode(f'{client_id}:{secret}'.encode()).decode()}")
    request.add_header("Accept", "application/json")
    timeout = (look("sasl.login.read.timeout.ms") or TIMEOUT_SECONDS * 1000) / 1000
    with urllib.request.build_opener(_Here).open(request, timeout=timeout) as answer:
        found = json.loads(answer.read(TOKEN_BYTES_MAX))
    token = found.get("access_token") if isinstance(found, dict) else None
    if not isinstance(token, str):
        raise AuthenticationFailed(f"the issuer at {ENDPOINT} has given no access_token")
    return _checked(token)


def _checked(token: Any) -> str:
    """Return the token. Raises AuthenticationFailed for one that could end the message that it stands in."""
    if not isinstance(token, str) or not token or any(not 0x21 <= ord(letter) <= 0x7E for letter in token):
        raise AuthenticationFailed("what came by is no token")
    return token
