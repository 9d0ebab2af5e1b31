"""Checks of requests to the console, without I/O. A page of another site must not get or do anything here.

Against DNS rebinding, the Host header must be one of the console's names. Against requests that other sites make with
this browser, Origin must be the console's, if there is one, and Sec-Fetch-Site must agree. Requests that change
something, and all requests to a `private` console, need the token as well, which was printed at the start.
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
    """Rules by which requests to the console are checked."""

    port: int
    token: str
    hosts: tuple[str, ...] = ()
    """Further names of the console, besides those of this machine's loopback."""
    private: bool = False
    """True if reading needs the token, too."""

    def refusal(self, headers: Mapping[str, str], *, changes: bool = False, public: bool = False) -> str | None:
        """Return why a request is refused; None when it is allowed. `changes`: it changes something. `public`: it is
        for a file of the page, in which there is nothing about the cluster. `headers` ignores the case of names."""
        authorities = self._authorities()
        if headers.get("Host", "").lower() not in authorities:
            return "the console does not answer under this host name: see --host and --allow-host"
        origin = headers.get("Origin")
        if origin is not None and origin.partition("://")[2].lower() not in authorities:
            return "the request comes from a page of another site"
        if not public and headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "the request comes from a page of another site"
        if changes and headers.get("Content-Type", "").partition(";")[0] != "application/json":
            return "the body must be application/json"
        if (changes or (self.private and not public)) and not self.knows(headers.get("Authorization", "")):
            return "the token is missing or wrong: use the address that was printed at the start"
        return None

    def _authorities(self) -> set[str]:
        """Return the values of the Host header that browsers send for this console."""
        hosts = _bracketed((*LOOPBACK, *self.hosts))
        with_port = {f"{host}:{self.port}" for host in hosts}
        of_proxies = hosts.difference(LOOPBACK)  # proxies may use the default ports; on loopback that is another server
        return with_port | (hosts if self.port == HTTP_PORT else of_proxies)

    def knows(self, authorization: str) -> bool:
        """Tell whether `Bearer TOKEN` has the token."""
        given = authorization.encode(errors="surrogateescape")  # a header may have bytes that are not UTF-8
        return hmac.compare_digest(given, f"Bearer {self.token}".encode())


def _bracketed(hosts: Iterable[str]) -> set[str]:
    """Return hosts in the form that they have in an address."""
    return {f"[{host}]" if ":" in host and host[0] != "[" else host for host in map(str.lower, hosts)}
