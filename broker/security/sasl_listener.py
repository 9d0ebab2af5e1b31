"""SASL at one listener: which mechanisms it offers, and what each of them checks against.

Sources: JaasContext, SaslChannelBuilder and BrokerSecurityConfigs of Kafka 3.9.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.broker.security.sasl_mechanisms import BearerServer, PlainServer, SaslServer, ValidToken
from odradek.security.errors import BadSecuritySetting
from odradek.security.jaas import JaasEntry, parse_jaas
from odradek.security.scram import MECHANISMS as SCRAM_MECHANISMS
from odradek.security.scram import FindIdentity, ScramServer, new_nonce
from odradek.security.tls_context import Look

USER_OPTION: Final = "user_"
BUILT: Final = ("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER", "GSSAPI")

HANDLER: Final = "sasl.server.callback.handler.class"
OWN_HANDLERS: Final = {
    "PLAIN": ("PlainServerCallbackHandler",),
    **dict.fromkeys(SCRAM_MECHANISMS, ("ScramServerCallbackHandler",)),
    "OAUTHBEARER": ("OAuthBearerValidatorCallbackHandler", "OAuthBearerUnsecuredValidatorCallbackHandler"),
    "GSSAPI": ("SaslServerCallbackHandler",),
}
"""By mechanism: Kafka's classes for what is checked here, without their packages."""

BearerValidator = Callable[[Look, JaasEntry | None], Callable[[str], ValidToken]]
"""Makes the function that checks the tokens of a listener. Raises BadSecuritySetting."""


class SaslListener:
    """SASL at one listener: the mechanisms that it offers, and what each checks its clients against."""

    def __init__(self, look: Look, find_scram: FindIdentity, bearer: BearerValidator) -> None:
        """`look` takes names with a mechanism's prefix too, `plain.sasl.jaas.config`. Raises BadSecuritySetting."""
        self.mechanisms: tuple[str, ...] = tuple(one.upper() for one in look("sasl.enabled.mechanisms") or ())
        """Mechanisms that clients may choose from, in the order of the setting."""
        self.receive_bytes_max: int = look("sasl.server.max.receive.size")
        self._find_scram = find_scram
        self._decoy_secret = secrets.token_bytes(32)
        self._lifetimes = {one: int(look(f"{one.lower()}.connections.max.reauth.ms") or 0) for one in self.mechanisms}
        self._users: Mapping[str, str] = {}
        self._check()
        for one in self.mechanisms:
            _check_handler(look, one)
        jaas = {one: _jaas(look, one) for one in self.mechanisms}
        if "PLAIN" in jaas:
            self._users = _plain_users(jaas["PLAIN"])
        self._validate = bearer(look, jaas["OAUTHBEARER"]) if "OAUTHBEARER" in jaas else None
        self._new_kerberos = _kerberos(look, jaas["GSSAPI"]) if "GSSAPI" in jaas else None

    def server(self, mechanism: str) -> SaslServer:
        """Return a new exchange, with one of `mechanisms`."""
        if mechanism == "PLAIN":
            return PlainServer(self._users)
        if mechanism == "OAUTHBEARER":
            assert self._validate is not None, mechanism
            return BearerServer(self._validate)
        if mechanism == "GSSAPI":
            assert self._new_kerberos is not None, mechanism
            return self._new_kerberos()
        return ScramServer(mechanism, self._find_scram, new_nonce(), self._decoy_secret)

    def session_lifetime_ms(self, server: SaslServer, now_ms: int) -> int | None:
        """Return for how many ms a client may stay after a complete exchange (KIP-368); None: for ever."""
        limit_ms = self._lifetimes[server.mechanism]
        left_ms = None if server.expires_ms is None else max(0, server.expires_ms - now_ms)
        if limit_ms <= 0:
            return left_ms
        return limit_ms if left_ms is None else min(limit_ms, left_ms)

    def _check(self) -> None:
        setting = "sasl.enabled.mechanisms"
        if not self.mechanisms:
            raise BadSecuritySetting(setting, "a listener with SASL needs one")
        for one in self.mechanisms:
            if one not in BUILT:
                raise BadSecuritySetting(setting, f"{one} is not known; {', '.join(BUILT)} are")


def _check_handler(look: Look, mechanism: str) -> None:
    """Raise BadSecuritySetting where somebody else is to be asked about the clients of a mechanism."""
    name = f"{mechanism.lower()}.{HANDLER}"
    handler: str | None = look(name)
    is_own = handler is None or handler.rpartition(".")[2] in OWN_HANDLERS[mechanism]
    if not is_own and handler != look(HANDLER):  # which is of no mechanism: Kafka does not look at it
        raise BadSecuritySetting(name, f"{handler}: Java classes cannot be loaded")


def _kerberos(look: Look, jaas: JaasEntry | None) -> Callable[[], SaslServer]:
    """Return what makes exchanges; the library of Kerberos is loaded where a listener offers it, and nowhere else."""
    from odradek.broker.security.kerberos_server import KerberosAcceptor

    return KerberosAcceptor(look, jaas).server


def _jaas(look: Look, mechanism: str) -> JaasEntry | None:
    name = f"{mechanism.lower()}.sasl.jaas.config"
    text: Any = look(name)
    return None if text is None else parse_jaas(text, f"listener.name.….{name}")


def _plain_users(jaas: JaasEntry | None) -> dict[str, str]:
    """Read the passwords, written as `user_alice="secret"` for each user."""
    if jaas is None:
        raise BadSecuritySetting(
            "listener.name.….plain.sasl.jaas.config", 'is needed, with user_<name>="<password>" for each user'
        )
    options = jaas.options.items()
    return {name.removeprefix(USER_OPTION): text for name, text in options if name.startswith(USER_OPTION)}
