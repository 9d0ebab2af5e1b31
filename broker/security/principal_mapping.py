"""Principals of certificates: the subject as Java writes it, mapped by `ssl.principal.mapping.rules` (KIP-371).

Source: SslPrincipalMapper of Kafka 3.9, X500Principal.getName() of Java (RFC 2253).
"""

import re
from collections.abc import Sequence
from typing import Final

from cryptography import x509

from odradek.broker.security.principal import USER_TYPE, KafkaPrincipal
from odradek.security.errors import AuthenticationFailed, BadSecuritySetting

SETTING: Final = "ssl.principal.mapping.rules"
DEFAULT_RULE: Final = "DEFAULT"
KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The attributes that RFC 2253 has names for; all others are written as numbers and DER."""
RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,\s*|$)")
EMPTY_RULES: Final = re.compile(r"[\s,]*")
IN_TEMPLATE: Final = re.compile(r"\\(?P<literal>.?)|\$(?P<group>[0-9]+)", re.DOTALL)
SPECIAL: Final = ',+"\\<>;'
UTF8_STRING: Final = 0x0C


class PrincipalMapping:
    """The rules of one listener, the first that fits a name decides."""

    def __init__(self, rules: str) -> None:
        """Read the rules, as ssl.principal.mapping.rules has them. Raises BadSecuritySetting."""
        self._rules: list[tuple[re.Pattern[str] | None, str, str]] = []
        text, at = rules.strip() or DEFAULT_RULE, 0
        while (at := at + len(EMPTY_RULES.match(text, at)[0])) < len(text):  # type: ignore[index]
            match = RULE.match(text, at)
            if match is None:
                raise BadSecuritySetting(SETTING, f"no rule can be read from {text[at:]!r} on")
            at = match.end()
            if match[1]:
                self._rules.append((None, "", ""))
                continue
            try:
                pattern = re.compile(match[2])
            except re.error as error:
                raise BadSecuritySetting(SETTING, f"{match[2]}: {error}") from None
            self._rules.append((pattern, python_template(match[3], pattern.groups), match[4]))

    def principal(self, distinguished_name: str) -> KafkaPrincipal:
        """Return the user of a name. Raises AuthenticationFailed when no rule fits."""
        for pattern, template, case in self._rules:
            if pattern is None:
                return KafkaPrincipal(USER_TYPE, distinguished_name)
            if pattern.fullmatch(distinguished_name):
                name = pattern.sub(template, distinguished_name)
                name = name.lower() if case == "L" else name.upper() if case == "U" else name
                return KafkaPrincipal(USER_TYPE, name)
        raise AuthenticationFailed(f"no rule of {SETTING} matches {distinguished_name}")


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a certificate (DER), as Java writes it: the last part first."""
    subject = x509.load_der_x509_certificate(certificate).subject
    return ",".join("+".join(map(_attribute, rdn)) for rdn in reversed(list(subject.rdns)))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    oid, value = attribute.oid.dotted_string, attribute.value
    keyword = KEYWORDS.get(oid)
    if keyword is None or isinstance(value, bytes):
        return f"{keyword or oid}=#{_der(attribute).hex()}"
    return f"{keyword}={_escaped(value)}"


def _escaped(value: str) -> str:
    escaped = "".join(f"\\{one}" if one in SPECIAL else one for one in value)
    if escaped.startswith(("#", " ")):
        escaped = f"\\{escaped}"
    if escaped.endswith(" ") and len(value) > 1:
        escaped = f"{escaped[:-1]}\\ "
    return escaped


def _der(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    content = attribute.value if isinstance(attribute.value, bytes) else attribute.value.encode()
    tag = attribute._type.value if hasattr(attribute, "_type") else UTF8_STRING
    return bytes([tag, *_length(len(content))]) + content


def _length(size: int) -> Sequence[int]:
    if size < 0x80:
        return [size]
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return [0x80 | len(octets), *octets]


def python_template(java: str, groups: int) -> str:
    """Return a replacement of Java's as Python's: `$1` is `\\g<1>`, `\\/` is `/`; `$` before no number of a group is
    itself."""

    def written(match: re.Match[str]) -> str:
        if match["literal"] is not None:
            return match["literal"].replace("\\", r"\\")
        digits = match["group"]
        while digits and int(digits) > groups:
            digits = digits[:-1]
        return f"\\g<{digits}>{match['group'][len(digits) :]}" if digits else match[0]

    return IN_TEMPLATE.sub(written, java)
