"""SASL GSSAPI (Kerberos) at a listener: the key table, one exchange with each client (RFC 4752), the user that
the name of a ticket stands for.

    ticket → (the broker's proof, if asked for) → the layers on offer: none → the choice, and on whose behalf

Whoever the ticket names comes in, whatever the last message says of somebody else. An exchange reads the key table and
notes the ticket, so that nobody else can come in with its copy; it asks no key distribution center.
Sources: SaslServerAuthenticator, SaslServerCallbackHandler and KerberosError of Kafka 3.9.
"""

import re
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from odradek.broker.security.principal_mapping import python_template
from odradek.security.errors import AuthenticationFailed, BadSecuritySetting, InvalidCredentials, NotNow
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

SETTING: Final = "sasl.kerberos.principal.to.local.rules"
NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
RULE: Final = re.compile(
    r"DEFAULT|RULE:\[(?P<count>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
PARAMETER: Final = re.compile(r"\$(\d*)")
NOT_SIMPLE: Final = re.compile(r"[/@]")


class _Rule(NamedTuple):
    parts: int
    """Parts that a name must have before its realm; 0 for DEFAULT."""
    format: str = ""
    match: re.Pattern[str] | None = None
    replaced: re.Pattern[str] | None = None
    by: str = ""
    every: bool = False
    case: str = ""


class KerberosNames:
    """Names of Kerberos as names of users: `sasl.kerberos.principal.to.local.rules`, as Kafka and Hadoop write them.

        RULE:[1:$1@$0](.*@EXAMPLE\\.ORG)s/@.*//     alice@EXAMPLE.ORG   → alice
        RULE:[2:$1](admin)s/^/the-/                 admin/host@ANY      → the-admin
        DEFAULT                                     alice/host@OUR.REALM → alice

    These are the rules of one listener: the first that fits a name decides.
    Sources: KerberosName, KerberosRule and KerberosShortNamer of Kafka 3.9.
    """

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """Read the rules by which principals become users. Raises BadSecuritySetting."""
        self._rules = [_parsed(text.strip()) for text in rules] or [_Rule(0)]
        self._default_realm = default_realm

    def user(self, principal: str) -> str:
        """Return the user of a principal, `name/host@REALM`. Raises AuthenticationFailed when no rule fits."""
        match = NAME.fullmatch(principal)
        if match is None or "\\" in principal:  # Kerberos escapes / and @ in a name; no rule could tell them apart
            raise AuthenticationFailed(f"Authentication failed: malformed Kerberos name {principal!r}")
        service, host, realm = match.groups()
        parameters = [realm, service] if host is None else [realm, service, host]
        for rule in self._rules:
            found = self._apply(rule, parameters)
            if found is None:
                continue
            if not found or NOT_SIMPLE.search(found):
                break
            return found
        raise AuthenticationFailed(f"Authentication failed: no rule of {SETTING} makes a user of {principal!r}")

    def _apply(self, rule: _Rule, parameters: list[str]) -> str | None:
        if not rule.parts:
            return parameters[1] if parameters[0] == self._default_realm else None
        if len(parameters) - 1 != rule.parts:
            return None
        base = PARAMETER.sub(lambda found: parameters[int(found[1])], rule.format)
        if rule.match is not None and not rule.match.fullmatch(base):
            return None
        if rule.replaced is not None:
            base = rule.replaced.sub(rule.by, base, count=0 if rule.every else 1)
        return {"L": base.lower, "U": base.upper}.get(rule.case, lambda: base)()


def _parsed(text: str) -> _Rule:
    found = RULE.fullmatch(text)
    if found is None:
        raise BadSecuritySetting(SETTING, f"{text!r} is not a rule")
    if found["count"] is None:
        return _Rule(0)
    parts, form = int(found["count"]), found["format"]
    if not parts or any(not one or int(one) > parts for one in PARAMETER.findall(form)):
        raise BadSecuritySetting(SETTING, f"{text!r}: {form} names a part that there is not")
    try:
        match = None if found["match"] is None else re.compile(found["match"])
        replaced = None if found["from"] is None else re.compile(found["from"])
    except re.error as error:
        raise BadSecuritySetting(SETTING, f"{text!r}: {error}") from None
    by = python_template(found["to"], replaced.groups) if replaced is not None else ""
    return _Rule(parts, form, match, replaced, by, bool(found["all"]), found["case"] or "")


RETRIABLE: Final = frozenset({21, 33, 34})
"""KDC_ERR_CLIENT_NOTYET, KRB_AP_ERR_TKT_NYV, KRB_AP_ERR_REPEAT: the same client may come in another time."""
FOR_EVER_SECONDS: Final = 0xFFFF_FFFF


class KerberosAcceptor:
    """Keys of a listener, and its rules of names. Makes an exchange for each client."""

    def __init__(self, look: Look, jaas: JaasEntry | None) -> None:
        """Take the keys of the service. Raises BadSecuritySetting: without the package, keys, or by a bad rule."""
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
