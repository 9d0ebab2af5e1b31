"""Names of Kerberos as names of users: `sasl.kerberos.principal.to.local.rules`, as Kafka and Hadoop write them.

    RULE:[1:$1@$0](.*@EXAMPLE\\.ORG)s/@.*//     alice@EXAMPLE.ORG   → alice
    RULE:[2:$1](admin)s/^/the-/                 admin/host@ANY      → the-admin
    DEFAULT                                     alice/host@OUR.REALM → alice

Sources: KerberosName, KerberosRule and KerberosShortNamer of Kafka 3.9.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek.broker.security.principal_mapping import python_template
from odradek.security.errors import AuthenticationFailed, BadSecuritySetting

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
    """The rules of one listener: the first that fits a name decides."""

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """Raises BadSecuritySetting."""
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
