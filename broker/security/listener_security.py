"""What stands before the requests of a listener that does not speak PLAINTEXT: TLS, and later SASL.

One object for each listener, made anew when its settings change: connections that exist keep what they began with.
"""

import ssl
from collections.abc import Callable
from typing import Any, Protocol

from odradek.broker.config import BrokerConfig
from odradek.broker.security.principal import ANONYMOUS, KafkaPrincipal
from odradek.broker.security.principal_mapping import SETTING, PrincipalMapping, distinguished_name
from odradek.security.secure_network import PLAINTEXT, SASL_PROTOCOLS, TLS_PROTOCOLS, ClientSecurity, SecureNetwork
from odradek.security.tls_context import Look, TlsSettings, server_context
from odradek.security.tls_endpoint import TlsEndpoint, new_staging
from odradek.world.clock import Clock
from odradek.world.network import Endpoint, Network


class Entering(Protocol):
    """What is done to the client that enters."""

    def authenticated(self, principal: KafkaPrincipal) -> None:
        """It has proved that it speaks for that one."""


Dispatch = Callable[[memoryview, Any], Any]


def settings_of(config: BrokerConfig, listener: str) -> Look:
    """A listener's settings: `listener.name.<listener>.ssl.…` where it is set, or else the broker's `ssl.…`."""
    prefix = f"listener.name.{listener.lower()}."

    def look(name: str) -> Any:
        if name == "ssl.key.location":  # a client's alone
            return None
        prefixed = prefix + name
        return config.value(name if config.layers.given(prefixed) is None else prefixed)

    return look


class SecureListener:
    """The entrance of one listener: TLS, and whom its clients' certificates speak for."""

    def __init__(self, look: Look, clock: Clock, *, names_clients: bool = True) -> None:
        """`names_clients`: a certificate says who the client is; with SASL that is done otherwise.

        Raises BadSecuritySetting.
        """
        self._context = server_context(TlsSettings.read(look))
        self._mapping = PrincipalMapping(look(SETTING) or "")
        self._clock = clock
        self._staging = new_staging()
        self._names_clients = names_clients

    def enter(
        self, endpoint: Endpoint, client: Entering, dispatch: Dispatch, passed: Callable[[], object]
    ) -> tuple[Endpoint, Dispatch]:
        """As odradek.broker.network.server.Entrance says."""

        def established(tls: ssl.SSLObject) -> None:
            client.authenticated(self._principal(tls))
            passed()

        secure = TlsEndpoint(
            endpoint, self._context, self._clock, self._staging, server_side=True, established=established
        )
        return secure, dispatch

    def _principal(self, tls: ssl.SSLObject) -> KafkaPrincipal:
        certificate = tls.getpeercert(True) if self._names_clients else None
        return ANONYMOUS if certificate is None else self._mapping.principal(distinguished_name(certificate))


class BrokerSecurity:
    """All listeners of one broker that are not PLAINTEXT, and its own connections to other brokers."""

    def __init__(self, config: BrokerConfig, network: Network, clock: Clock) -> None:
        """Raises BadSecuritySetting."""
        self._clock = clock
        self._beneath = network
        self._entrances, security = self._made(config)
        self._links = None if security is None else SecureNetwork(network, clock, security)

    def configure(self, config: BrokerConfig) -> None:
        """Obey other settings, from the next connection on. Raises BadSecuritySetting, and nothing has changed then."""
        self._entrances, security = self._made(config)
        if self._links is not None and security is not None:
            self._links.security = security

    @property
    def network(self) -> Network:
        """Where connections to other brokers are made."""
        return self._beneath if self._links is None else self._links

    def entrance(self, listener: str) -> SecureListener | None:
        """The entrance of a listener as it is now; None for PLAINTEXT."""
        return self._entrances.get(listener)

    def _made(self, config: BrokerConfig) -> tuple[dict[str, SecureListener], ClientSecurity | None]:
        entrances, links = {}, None
        for listener in config.listeners:
            if listener.protocol == PLAINTEXT:
                continue
            look = settings_of(config, listener.name)
            if listener.protocol in TLS_PROTOCOLS:
                names_clients = listener.protocol not in SASL_PROTOCOLS
                entrances[listener.name] = SecureListener(look, self._clock, names_clients=names_clients)
            if listener.name == config.inter_broker_listener_name:
                links = ClientSecurity.read(listener.protocol, look)
        return entrances, links
