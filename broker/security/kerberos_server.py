"""SASL GSSAPI (Kerberos) at a listener: the broker's key table, and one exchange with each client (RFC 4752).

    ticket → (the broker's proof, if asked for) → the layers on offer: none → the choice, and on whose behalf

Whoever the ticket names comes in, whatever the last message says of somebody else. An exchange reads the key table and
notes the ticket, so that nobody else can come in with its copy; it asks no key distribution center.
Sources: SaslServerAuthenticator, SaslServerCallbackHandler and KerberosError of Kafka 3.9.
"""

import time
from typing import Any, Final

from odradek.broker.security.kerberos_names import SETTING, KerberosNames
from odradek.security.errors import BadSecuritySetting, InvalidCredentials, NotNow
from odradek.security.jaas import JaasEntry
from odradek.security.kerberos import (
    JAAS,
    LAYERS,
    LAYERS_BYTES,
    MECHANISM,
    NO_LAYER,
    KerberosKeys,
    kerberos_code,
    load_gssapi,
    new_context,
    reason,
)
from odradek.security.tls_context import Look

RETRIABLE: Final = frozenset({21, 33, 34})
"""KDC_ERR_CLIENT_NOTYET, KRB_AP_ERR_TKT_NYV, KRB_AP_ERR_REPEAT: the same client may come in another time."""
FOR_EVER_SECONDS: Final = 0xFFFF_FFFF


class KerberosAcceptor:
    """Keys of a listener, and its rules of names. Makes an exchange for each client."""

    def __init__(self, look: Look, jaas: JaasEntry | None) -> None:
        """Raises BadSecuritySetting: without the package, keys, or with a rule that is none."""
        self._gssapi = load_gssapi("sasl.enabled.mechanisms")
        keys = KerberosKeys.read(look, jaas, server=True)
        try:
            self._credentials = keys.acceptor(self._gssapi)
        except self._gssapi.exceptions.GSSError as error:
            whose = keys.principal or f"the service {keys.service}"
            where = keys.keytab or "the machine's key table"
            raise BadSecuritySetting(f"gssapi.{JAAS}", f"no keys of {whose} in {where}: {reason(error)}") from None
        self._names = KerberosNames(look(SETTING) or (), self._default_realm())

    def _default_realm(self) -> str:
        """Return the realm of krb5.conf; empty without one."""
        kinds = self._gssapi
        try:
            name = kinds.Name("nobody", kinds.NameType.user).canonicalize(kinds.MechType.kerberos)
        except kinds.exceptions.GSSError:
            return ""
        return str(name).partition("@")[2]

    def server(self) -> "GssapiServer":
        """Return a new exchange."""
        context = new_context(self._gssapi, creds=self._credentials, usage="accept")
        return GssapiServer(context, self._gssapi.exceptions.GSSError, self._names)


class GssapiServer:
    """GSSAPI (RFC 4752): as many messages as Kerberos wants, one offer of layers, one choice."""

    def __init__(self, context: Any, errors: type[Exception], names: KerberosNames) -> None:
        self.mechanism = MECHANISM
        self.complete = self.is_token = False
        self.principal = ""
        self.expires_ms: int | None = None
        self._context, self._errors, self._names = context, errors, names
        self._offered = False

    def evaluate(self, token: bytes) -> bytes | None:
        try:
            if self._offered:
                self._choose(token)
                return None
            if not self._context.complete:
                answer = bytes(self._context.step(token) or b"")
                if answer or not self._context.complete:
                    return answer
            elif token:
                raise InvalidCredentials("an unexpected message")
            self._offered = True
            return bytes(self._context.wrap(LAYERS, False).message)
        except self._errors as error:
            if kerberos_code(error) in RETRIABLE:
                raise NotNow(reason(error)) from None
            raise InvalidCredentials(reason(error)) from None

    def _choose(self, token: bytes) -> None:
        """Let in whom the ticket names, for as long as it is valid."""
        choice = self._context.unwrap(token).message
        if len(choice) < LAYERS_BYTES or choice[0] != NO_LAYER:
            raise InvalidCredentials("it wants a security layer of Kerberos, of which none was offered")
        seconds = self._context.lifetime
        if seconds <= 0:
            raise InvalidCredentials("its ticket has expired")
        if seconds < FOR_EVER_SECONDS:
            self.expires_ms = int((time.time() + seconds) * 1000)
        principal = str(self._context.initiator_name)
        self.principal = self._names.user(principal)
        self.complete = True
