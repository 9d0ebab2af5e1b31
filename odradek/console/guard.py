"""Checks of who may ask the console, as values. A page of another site must get and do nothing here.

Against DNS rebinding: the Host header must be one of ours. Against requests that other sites make with this browser:
Origin, where there is one, must be ours, and Sec-Fetch-Site must not say otherwise. What changes something, and
everything where the console is `private`, needs the token besides: it was printed to whoever started the console.
"""

import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

TOKEN_BYTES = 18
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HTTP_PORT = 80
"""Port that browsers leave out of the Host header."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""


def new_token() -> str:
    """Return a secret for one run of the console."""
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(frozen=True)
class Guard:
    """Rules that the console's requests are checked against."""

    port: int
    token: str
    hosts: tuple[str, ...] = ()
    """Names under which the console is reached besides those of this machine's loopback."""
    private: bool = False
    """True if reading needs the token too."""

    def refusal(self, headers: Mapping[str, str], *, changes: bool = False, public: bool = False) -> str | None:
        """Return why a request is refused; None when it is not. `public`: the page itself, in which nothing is known
        of the cluster. Header names are as in a case-insensitive mapping."""
        authorities = self._authorities()
        if headers.get("Host", "").lower() not in authorities:
            return "this console is not reached under that name: see --host and --allow-host"
        origin = headers.get("Origin")
        if origin is not None and origin.partition("://")[2].lower() not in authorities:
            return "a page of another site has asked"
        if not public and headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "a page of another site has asked"
        if changes and headers.get("Content-Type", "").partition(";")[0] != "application/json":
            return "the body must be application/json"
        if (changes or (self.private and not public)) and not self.knows(headers.get("Authorization", "")):
            return "the token is missing or another one: use the address that was printed at the start"
        return None

    def _authorities(self) -> set[str]:
        """Return what a browser puts into the Host header for a console of ours."""
        hosts = _bracketed((*LOOPBACK, *self.hosts))
        with_port = {f"{host}:{self.port}" for host in hosts}
        of_proxies = hosts.difference(LOOPBACK)  # which may be on the usual ports; on ours, that is another server
        return with_port | (hosts if self.port == HTTP_PORT else of_proxies)

    def knows(self, authorization: str) -> bool:
        """Tell whether `Bearer TOKEN` has the token."""
        given = authorization.encode(errors="surrogateescape")  # bytes of a header that are no UTF-8
        return hmac.compare_digest(given, f"Bearer {self.token}".encode())


def _bracketed(hosts: Iterable[str]) -> set[str]:
    """Return hosts as they stand in an address."""
    return {f"[{host}]" if ":" in host and host[0] != "[" else host for host in map(str.lower, hosts)}
