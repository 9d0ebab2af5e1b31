"""Connections of a client, or of a broker to another one, that are encrypted and authenticated before they are used."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from odradek.security.errors import BadSecuritySetting
from odradek.security.jaas import JaasEntry, parse_jaas
from odradek.security.logins import Login
from odradek.security.sasl_client import PlainClient, authenticate
from odradek.security.scram import MECHANISMS as SCRAM_MECHANISMS
from odradek.security.scram import ScramClient, new_nonce
from odradek.security.session_endpoint import SessionEndpoint
from odradek.security.tls_context import Look, TlsSettings, client_context
from odradek.security.tls_endpoint import TlsEndpoint, new_staging
from odradek.world.clock import Clock
from odradek.world.network import Endpoint, Listener, Network


def read_login(look: Look) -> Login:
    """Read a login out of settings with Kafka's names or kafka-python's. Raises BadSecuritySetting.

    The settings are `sasl.mechanism`, and `sasl.jaas.config` or a name and a password.
    """
    mechanism = (look("sasl.mechanism") or "GSSAPI").upper()
    text: Any = look("sasl.jaas.config")
    jaas = None if text is None else parse_jaas(text)
    if mechanism == "OAUTHBEARER":
        from odradek.security.bearer_login import bearer_login

        return bearer_login(look, jaas)
    if mechanism == "GSSAPI":
        from odradek.security.kerberos import kerberos_login

        return kerberos_login(look, jaas)
    if mechanism != "PLAIN" and mechanism not in SCRAM_MECHANISMS:
        known = ", ".join(("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER", "GSSAPI"))
        raise BadSecuritySetting("sasl.mechanism", f"{mechanism} is not known; {known} are")
    user, password, token = _name_and_password(look, jaas, mechanism)
    if mechanism == "PLAIN":
        return Login(mechanism, lambda _: PlainClient(user, password))
    return Login(mechanism, lambda _: ScramClient(mechanism, user, password, new_nonce(), token=token))


def _name_and_password(look: Look, jaas: JaasEntry | None, mechanism: str) -> tuple[str, str, bool]:
    if jaas is None:
        user, password, token = look("sasl.username"), look("sasl.password"), "false"
    else:
        if jaas.family != mechanism.partition("-")[0]:
            raise BadSecuritySetting("sasl.jaas.config", f"{jaas.module} is not for {mechanism}")
        user, password = jaas.options.get("username"), jaas.options.get("password")
        token = jaas.options.get("tokenauth", "false")
    if user is None or password is None:
        raise BadSecuritySetting("sasl.jaas.config", f"{mechanism} needs a user's name and a password")
    return user, password, token.lower() == "true"


PLAINTEXT: Final = "PLAINTEXT"
TLS_PROTOCOLS: Final = frozenset({"SSL", "SASL_SSL"})
SASL_PROTOCOLS: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
CLIENT_ID: Final = "odradek"
"""Client id in the requests of the login."""


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """Security of outgoing connections: proves who we are, and asks the other side for the same."""

    protocol: str
    context: ssl.SSLContext | None = None
    login: Login | None = None

    @classmethod
    def read(cls, protocol: str, look: Look, context: ssl.SSLContext | None = None) -> "ClientSecurity":
        """Read the security of connections from settings with Kafka's names, and files. Raises BadSecuritySetting.

        `context` is taken instead of one made from the settings.
        """
        if protocol not in TLS_PROTOCOLS:
            context = None
        elif context is None:
            context = client_context(TlsSettings.read(look))
        return cls(protocol, context, read_login(look) if protocol in SASL_PROTOCOLS else None)


class SecureNetwork:
    """A network whose connections have been through TLS and SASL when `connect` returns them.

    Where the broker limits how long a login lasts, they log in again by themselves.
    """

    def __init__(self, network: Network, clock: Clock, security: ClientSecurity) -> None:
        self.security = security
        """May be replaced: the next connection uses it."""
        self._network = network
        self._clock = clock
        self._staging = new_staging()

    def listen(self, host: str, port: int, accepted: Callable[[Endpoint], object]) -> Listener:
        """Listen as the network beneath does."""
        return self._network.listen(host, port, accepted)

    async def connect(self, host: str, port: int) -> Endpoint:
        """Connect, encrypt and log in. Raises OSError when nobody answers, and AuthenticationFailed, which is one."""
        security = self.security
        endpoint = await self._network.connect(host, port)
        try:
            if security.context is not None:
                endpoint = await self._encrypted(endpoint, security.context, host)
            if security.login is not None:
                session = await authenticate(endpoint, security.login, host, CLIENT_ID)
                if session.lifetime_ms > 0:
                    endpoint = SessionEndpoint(endpoint, security.login, host, session, self._clock, CLIENT_ID)
        except BaseException:  # also when nobody waits for it any more
            endpoint.close()
            raise
        return endpoint

    async def _encrypted(self, endpoint: Endpoint, context: ssl.SSLContext, host: str) -> TlsEndpoint:
        tls = TlsEndpoint(endpoint, context, self._clock, self._staging, server_side=False, server_name=host)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            try:
                if tls.shake_hands() and not done.done():
                    done.set_result(None)
            except OSError as error:
                if not done.done():
                    done.set_exception(error)

        tls.on_readable(go_on)
        go_on()
        await done
        tls.on_readable(None)
        return tls
