"""Kerberos at the client's side, and what both sides share: SASL GSSAPI (RFC 4752) by the package `gssapi`.

A ticket comes with a key table, or from a cache that `kinit` has filled. Login modules are read as Java writes them
(com.sun.security.auth.module.Krb5LoginModule); what a module leaves out, or all if there is none, is the machine's own:
krb5.conf, KRB5_CONFIG, KRB5CCNAME. Sources: SaslClientAuthenticator and KerberosLogin of Kafka 3.9, RFC 4752.
"""

import hashlib
import importlib
import os
from dataclasses import dataclass
from typing import Any, Final

from odradek.security.errors import AuthenticationFailed, BadSecuritySetting
from odradek.security.jaas import JaasEntry
from odradek.security.logins import Login
from odradek.security.tls_context import Look

MECHANISM: Final = "GSSAPI"
SERVICE: Final = "sasl.kerberos.service.name"
JAAS: Final = "sasl.jaas.config"
DEFAULT_SERVICE: Final = "kafka"
NO_LAYER: Final = 1
"""Bit of a message's first byte: after the login nothing is signed or encrypted by Kerberos; TLS is for that."""
LAYERS: Final = bytes((NO_LAYER, 0, 0, 0))
"""Offer and choice of the last two messages: no security layer, and so no size of its messages."""
LAYERS_BYTES: Final = 4

KRB5_ERRORS: Final = 2_529_638_912
"""First of the codes of Kerberos' errors, as a minor status has them."""
SAYS_NOTHING: Final = ("Success", "Unknown error")
"""Text of the Kerberos library for an error that only GSSAPI has a name for."""
UNREACHABLE: Final = frozenset({156, 220})
"""KRB5_KDC_UNREACH and KRB5_REALM_CANT_RESOLVE, counted from KRB5_ERRORS."""


class KerberosUnreachable(ConnectionError):  # noqa: N818 - named after what has happened
    """Failure to reach any key distribution center: trying again may help."""


def load_gssapi(setting: str) -> Any:
    """Return the package `gssapi`. Raises BadSecuritySetting where it, or the library of Kerberos, is not installed."""
    try:
        return importlib.import_module("gssapi")
    except ImportError as error:
        raise BadSecuritySetting(
            setting, f"GSSAPI needs the package gssapi (pip install odradek[kerberos]): {error}"
        ) from None


def kerberos_code(error: Any) -> int:
    """Return the number of an error as Kerberos' protocol and its library count them (RFC 4120, 7.5.9)."""
    return int(error.min_code) - KRB5_ERRORS


def new_context(gssapi: Any, **arguments: Any) -> Any:
    """Return a context that fails at once: by itself it would first hand out a message that tells the peer why."""
    context = gssapi.SecurityContext(**arguments)
    context.__DEFER_STEP_ERRORS__ = False
    return context


def reason(error: Any) -> str:
    """Return what a GSSError says, without its numbers, in one line: names in it may be what the peer has made up."""
    texts = [one for one in error.get_all_statuses(error.min_code, False) if one not in SAYS_NOTHING]
    said = "; ".join(texts or error.get_all_statuses(error.maj_code, True))
    return "".join(one if one.isprintable() else "?" for one in said)


@dataclass(frozen=True, slots=True)
class KerberosKeys:
    """Place where the keys or tickets of one principal are; None for the machine's own."""

    principal: str | None = None
    keytab: str | None = None
    cache: str | None = None
    service: str = DEFAULT_SERVICE
    """Service that brokers run as: the first part of their principals."""

    @classmethod
    def read(cls, look: Look, jaas: JaasEntry | None, *, server: bool = False) -> "KerberosKeys":
        """Read a login module, or settings by librdkafka's names. Raises BadSecuritySetting.

        `server`: the keys are to accept others, for which tickets do not help.
        """
        named = look(SERVICE)
        if jaas is None:
            keytab = look("sasl.kerberos.keytab")
            return cls(look("sasl.kerberos.principal"), keytab, None, named or DEFAULT_SERVICE)
        if jaas.family != MECHANISM:
            raise BadSecuritySetting(JAAS, f"{jaas.module} is not for {MECHANISM}")
        own = jaas.options.get("serviceName")
        if own and named and own != named:  # as in Kafka's KerberosLogin
            raise BadSecuritySetting(SERVICE, f"is {named}, but {JAAS} has serviceName={own}")
        service, principal = own or named or DEFAULT_SERVICE, jaas.options.get("principal")
        if _is_true(jaas, "useKeyTab"):
            return cls(principal, _path(jaas.options.get("keyTab")), None, service)
        if server:
            raise BadSecuritySetting(JAAS, "a broker needs useKeyTab=true: it has to prove who it is")
        if not _is_true(jaas, "useTicketCache"):
            raise BadSecuritySetting(JAAS, "Kerberos needs useKeyTab=true or useTicketCache=true")
        return cls(principal, None, _path(jaas.options.get("ticketCache")), service)

    def initiator(self, gssapi: Any) -> Any:
        """Return credentials to log in with. May ask a key distribution center, so it blocks. Raises GSSError."""
        store = {}
        if self.keytab is not None:
            store = {"client_keytab": self.keytab, "ccache": self._memory()}
        elif self.cache is not None:
            store = {"ccache": self.cache}
        return gssapi.Credentials(
            name=self._name(gssapi), usage="initiate", mechs=[gssapi.MechType.kerberos], store=store or None
        )

    def acceptor(self, gssapi: Any) -> Any:
        """Return credentials to accept others with. Raises GSSError when the key table has none."""
        name = self._name(gssapi) or gssapi.Name(self.service, gssapi.NameType.hostbased_service)
        store = None if self.keytab is None else {"keytab": self.keytab}
        return gssapi.Credentials(name=name, usage="accept", mechs=[gssapi.MechType.kerberos], store=store)

    def _name(self, gssapi: Any) -> Any:
        return None if self.principal is None else gssapi.Name(self.principal, gssapi.NameType.kerberos_principal)

    def _memory(self) -> str:
        """Name the cache in which this process keeps tickets; another key table has another cache."""
        assert self.keytab is not None
        try:
            found = os.stat(self.keytab)
            state = f"{found.st_ino} {found.st_mtime_ns}"
        except OSError:
            state = ""  # the library says it better
        text = f"{self.principal} {self.keytab} {state}"
        return f"MEMORY:odradek-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _is_true(jaas: JaasEntry, option: str) -> bool:
    return jaas.options.get(option, "false").lower() == "true"


def _path(text: str | None) -> str | None:
    return None if text is None else text.removeprefix("FILE:").removeprefix("file:")


class GssapiClient:
    """GSSAPI (RFC 4752): a ticket, the broker's proof that it could read it, and that there is no security layer."""

    def __init__(self, gssapi: Any, keys: KerberosKeys, host: str) -> None:
        """Ask for a ticket, which blocks. Raises AuthenticationFailed, and KerberosUnreachable, an OSError too."""
        self.mechanism = MECHANISM
        self.complete = False
        self._errors = gssapi.exceptions.GSSError
        flags = gssapi.RequirementFlag
        try:
            self._context = new_context(
                gssapi,
                name=gssapi.Name(f"{keys.service}@{host}", gssapi.NameType.hostbased_service),
                creds=keys.initiator(gssapi),
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=[flags.mutual_authentication, flags.out_of_sequence_detection, flags.integrity],
            )
            self._first = bytes(self._context.step() or b"")
        except self._errors as error:
            whose = f" of {keys.principal}" if keys.principal else ""
            whence = f" by the keys in {keys.keytab}" if keys.keytab else ""
            said = f"{MECHANISM}: no ticket{whose}{whence} for {keys.service}@{host}: {reason(error)}"
            if kerberos_code(error) in UNREACHABLE:
                raise KerberosUnreachable(said) from None
            raise AuthenticationFailed(said) from None

    def first(self) -> bytes:
        return self._first

    def respond(self, challenge: bytes) -> bytes | None:
        if self.complete:
            return None
        try:
            if not self._context.complete:
                return bytes(self._context.step(challenge) or b"")
            offer = self._context.unwrap(challenge).message
            if len(offer) != LAYERS_BYTES or not offer[0] & NO_LAYER:
                raise AuthenticationFailed(f"{MECHANISM}: the broker wants a security layer of Kerberos, use TLS")
            self.complete = True
            return bytes(self._context.wrap(LAYERS, False).message)
        except self._errors as error:
            raise AuthenticationFailed(f"{MECHANISM}: the broker's answer proves nothing: {reason(error)}") from None


def kerberos_login(look: Look, jaas: JaasEntry | None) -> Login:
    """Return the login of GSSAPI. Raises BadSecuritySetting."""
    gssapi = load_gssapi("sasl.mechanism")
    keys, other_host = KerberosKeys.read(look, jaas), look("sasl.kerberos.domain.name")
    if keys.keytab is not None and not os.access(keys.keytab, os.R_OK):
        raise BadSecuritySetting("sasl.kerberos.keytab" if jaas is None else JAAS, f"{keys.keytab} cannot be read")
    return Login(MECHANISM, lambda host: GssapiClient(gssapi, keys, other_host or host), blocks=True)
