"""Security of listeners that are not PLAINTEXT: TLS, SASL, or both, before any request is handled.

One object for each listener, made anew when its settings change: connections that exist keep what they began with.
"""

import re
import ssl
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from odradek.broker.config import BrokerConfig
from odradek.broker.security.principal import ANONYMOUS, KafkaPrincipal
from odradek.broker.security.principal_mapping import SETTING, PrincipalMapping, distinguished_name
from odradek.broker.security.sasl_listener import BUILT, SaslListener
from odradek.broker.security.sasl_mechanisms import ValidToken
from odradek.security.errors import BadSecuritySetting
from odradek.security.jaas import JaasEntry
from odradek.security.key_stores import alternative_names, load_key_pair
from odradek.security.scram import FindIdentity
from odradek.security.secure_network import (
    PLAINTEXT,
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
    ClientSecurity,
    SecureNetwork,
)
from odradek.security.tls_context import Look, TlsSettings, client_context, server_context, shake_hands
from odradek.world.clock import Clock
from odradek.world.network import Network

MECHANISM_PREFIX: Final = re.compile(r"[a-z0-9-]+\.(?=sasl\.|connections\.)")
"""Prefix of the name of a setting that is meant for one mechanism of a listener alone."""
JAAS: Final = "sasl.jaas.config"
CLIENT_AUTH: Final = "ssl.client.auth"
KEY_STORE: Final = "ssl.keystore.location"
CLIENTS_ONLY: Final = frozenset(
    {
        "ssl.key.location",
        "sasl.username",
        "sasl.password",
        "sasl.oauth.token.provider",
        "sasl.kerberos.principal",
        "sasl.kerberos.keytab",
        "sasl.kerberos.domain.name",
    }
)
"""Settings of our clients that brokers do not have."""


def settings_of(config: BrokerConfig, listener: str) -> Look:
    """Return a listener's settings: `listener.name.<listener>.ssl.…` where it is set, or else the broker's `ssl.…`.

    With a mechanism before the name, `plain.sasl.jaas.config`, the listener's setting for that mechanism comes first.
    The login of one mechanism is never that of another, nor of the whole broker, as in Kafka. Nor is the broker's
    ssl.client.auth that of a listener with SASL (KIP-684).
    """
    prefix = f"listener.name.{listener.lower()}."
    logs_in = any(one.name == listener and one.protocol in SASL_PROTOCOLS for one in config.listeners)

    def look(name: str) -> Any:
        if name in CLIENTS_ONLY:
            return None
        if config.layers.given(prefix + name) is not None:
            return config.value(prefix + name)
        if name == CLIENT_AUTH and logs_in:
            return "none"
        mechanism = MECHANISM_PREFIX.match(name)
        if mechanism is None:
            return config.value(name)
        general = name[mechanism.end() :]
        return None if general == JAAS else look(general)

    return look


class TlsListener:
    """TLS at one listener, and whom its clients' certificates speak for."""

    def __init__(self, look: Look, *, of_brokers: bool = False) -> None:
        """Read keys, certificates, and the rules for principals. `of_brokers`: brokers connect here, by the same
        settings. Raises BadSecuritySetting."""
        settings = TlsSettings.read(look)
        self.context = server_context(settings)
        self._certificate = load_key_pair(settings.key_store).chain[0]
        self._link = client_context(replace(settings, identification="")) if of_brokers else None
        self._mapping = PrincipalMapping(look(SETTING) or "")

    def check_change(self, before: "TlsListener | None", look: Look) -> None:
        """Check that brokers and access lists, which know the former keys, if there are any, will know these. Raises
        BadSecuritySetting.

        Source: SslFactory of Kafka 3.9.
        """
        self.check_links(self)
        if before is None:
            return
        old, new = (one._certificate.subject.rfc4514_string() for one in (before, self))
        if old.lower() != new.lower() and not look("ssl.allow.dn.changes"):
            raise BadSecuritySetting(KEY_STORE, f"the certificate of {new} is not for {old} (ssl.allow.dn.changes)")
        lost = alternative_names(before._certificate) - alternative_names(self._certificate)
        if lost and not look("ssl.allow.san.changes"):
            names = ", ".join(sorted(str(one.value) for one in lost))
            raise BadSecuritySetting(KEY_STORE, f"the certificate is not for {names} any more (ssl.allow.san.changes)")
        self.check_links(before)
        before.check_links(self)

    def check_links(self, server: "TlsListener") -> None:
        """Check that a broker with these settings could connect to one with those. Raises BadSecuritySetting."""
        if self._link is None:
            return
        try:
            shake_hands(self._link, server.context)
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", None) or error.reason
            raise BadSecuritySetting(
                KEY_STORE, f"brokers could not connect to each other with what it and the trust store hold: {reason}"
            ) from None

    def principal(self, handshake: ssl.SSLObject) -> KafkaPrincipal:
        """Return the client's principal by its certificate, ANONYMOUS without one.

        Raises AuthenticationFailed when no mapping rule fits the certificate's name.
        """
        certificate = handshake.getpeercert(True)
        return ANONYMOUS if certificate is None else self._mapping.principal(distinguished_name(certificate))


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """Security of one listener, as its connections have to pass it; None for what the listener does not use."""

    tls: TlsListener | None
    sasl: SaslListener | None


def check_keys(before: BrokerConfig, after: BrokerConfig) -> None:
    """Check the keys and certificates of all listeners, as they are to be. Raises BadSecuritySetting."""
    for listener in after.listeners:
        if listener.protocol in TLS_PROTOCOLS:
            made, former = _tls_listener(after, listener.name), None
            if any((one.name, one.protocol) == (listener.name, listener.protocol) for one in before.listeners):
                with suppress(BadSecuritySetting):  # the files are gone: what they held is compared when this is obeyed
                    former = _tls_listener(before, listener.name)
            made.check_change(former, settings_of(after, listener.name))


def _tls_listener(config: BrokerConfig, listener: str) -> TlsListener:
    return TlsListener(settings_of(config, listener), of_brokers=listener == config.inter_broker_listener_name)


class BrokerSecurity:
    """Security of one broker: of its listeners that are not PLAINTEXT, and of its connections to other brokers."""

    def __init__(self, config: BrokerConfig, network: Network, clock: Clock, find_scram: FindIdentity) -> None:
        """Read what each listener asks of its clients. Raises BadSecuritySetting."""
        self._find_scram = find_scram
        self._beneath = network
        self._bearers: dict[str, tuple[JaasEntry | None, Callable[[str], ValidToken]]] = {}
        """Checks of tokens by listener, each with its login module's entry: making one anew waits for the issuer."""
        self._listeners, links = self._made(config)
        self._links = {name: SecureNetwork(network, clock, security) for name, security in links.items()}

    def check_links(self) -> None:
        """Check that brokers with these settings could connect to each other. Raises BadSecuritySetting."""
        for made in self._listeners.values():
            if made.tls is not None:
                made.tls.check_links(made.tls)

    def configure(self, config: BrokerConfig, *, compared: bool = True) -> None:
        """Obey other settings, from the next connection on. Raises BadSecuritySetting, and nothing has changed then.

        Unless `compared`, nobody knows the former ones.
        """
        listeners, links = self._made(config)
        for name, made in listeners.items() if compared else ():
            if made.tls is not None:
                former = self._listeners.get(name)
                made.tls.check_change(None if former is None else former.tls, settings_of(config, name))
        self._listeners = listeners
        for name, link in self._links.items():
            link.security = links[name]

    def network(self, listener: str) -> Network:
        """Return the network by which to connect to that listener (inter-broker or controller's) of other brokers."""
        return self._links.get(listener, self._beneath)

    def listener(self, name: str) -> ListenerSecurity | None:
        """Return the security of a listener as it is now; None for PLAINTEXT."""
        return self._listeners.get(name)

    def _made(self, config: BrokerConfig) -> tuple[dict[str, ListenerSecurity], dict[str, ClientSecurity]]:
        listeners, links = {}, {}
        for listener in config.listeners:
            if listener.protocol == PLAINTEXT:
                continue
            look, tls, sasl = settings_of(config, listener.name), None, None
            if listener.protocol in TLS_PROTOCOLS:
                tls = _tls_listener(config, listener.name)
            if listener.protocol in SASL_PROTOCOLS:
                sasl = SaslListener(look, self._find_scram, partial(self._bearer, listener.name))
            listeners[listener.name] = ListenerSecurity(tls, sasl)
            if listener.name == config.inter_broker_listener_name and sasl is not None:
                _check_own_mechanism(look, sasl.mechanisms)
            if listener.name in (config.inter_broker_listener_name, config.controller_listener_name):
                links[listener.name] = ClientSecurity.read(listener.protocol, _as_client(look))
        return listeners, links

    def _bearer(self, listener: str, look: Look, jaas: JaasEntry | None) -> Callable[[str], ValidToken]:
        """Return what checks a listener's tokens. Other settings of it than the login module take effect at a restart.

        PyJWT is loaded where tokens are checked, and nowhere else. Raises BadSecuritySetting.
        """
        from odradek.broker.security.bearer_tokens import bearer_validator

        kept = self._bearers.get(listener)
        if kept is None or kept[0] != jaas:
            kept = self._bearers[listener] = (jaas, bearer_validator(look, jaas))
        return kept[1]


def _check_own_mechanism(look: Look, enabled: Collection[str]) -> None:
    """Raise BadSecuritySetting where brokers would log in to each other in a way that their listener does not offer."""
    setting = "sasl.mechanism.inter.broker.protocol"
    mechanism = (look(setting) or "").upper()
    if mechanism in BUILT and mechanism not in enabled:
        offered = ", ".join(enabled)
        raise BadSecuritySetting(setting, f"{mechanism} is not one of sasl.enabled.mechanisms, which is {offered}")


def _as_client(look: Look) -> Look:
    """Return the settings of a listener as those of a client of it: brokers log in to each other."""
    mechanism = look("sasl.mechanism.inter.broker.protocol") or ""

    def client(name: str) -> Any:
        if name == "sasl.mechanism":
            return mechanism
        return look(f"{mechanism.lower()}.{JAAS}" if name == JAAS else name)

    return client
