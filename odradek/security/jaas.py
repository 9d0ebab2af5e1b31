"""`sasl.jaas.config`: a login module and its options, as Java writes them.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="…";

Source: JaasConfig of Kafka 3.9.
"""

import re
from dataclasses import dataclass
from typing import Final

from odradek.security.errors import BadSecuritySetting

SETTING: Final = "sasl.jaas.config"
FLAGS: Final = ("required", "requisite", "sufficient", "optional")
MODULES: Final = {
    "PlainLoginModule": "PLAIN",
    "ScramLoginModule": "SCRAM",
    "OAuthBearerLoginModule": "OAUTHBEARER",
    "Krb5LoginModule": "GSSAPI",
}
_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<word>[\w$.-]+)|(?P<mark>[=;])|"""
    r""""(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>(?:\\.|[^'\\])*)')""",
    re.DOTALL,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """A login module: Java's class name, and its options."""

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.module}, {sorted(self.options)})"

    @property
    def family(self) -> str:
        """PLAIN, SCRAM, OAUTHBEARER or GSSAPI. Raises BadSecuritySetting for any other module."""
        family = MODULES.get(self.module.rpartition(".")[2])
        if family is None:
            raise BadSecuritySetting(SETTING, f"login module {self.module} is not one of {', '.join(MODULES)}")
        return family


def parse_jaas(text: str, setting: str = SETTING) -> JaasEntry:
    """Read the one module of a setting. Raises BadSecuritySetting, which does not show the text."""
    tokens = _tokens(text, setting)
    if len(tokens) < 3 or tokens[-1] != (";", True) or tokens[1][0].lower() not in FLAGS:
        raise BadSecuritySetting(setting, 'is not `LoginModule required key="value" …;`')
    options: dict[str, str] = {}
    for at in range(2, len(tokens) - 1, 3):
        part = tokens[at : at + 3]
        if len(part) < 3 or part[1] != ("=", True) or part[0][1] or part[2][1]:
            raise BadSecuritySetting(setting, f"option {len(options) + 1} is not key=value")
        options[part[0][0]] = part[2][0]
    return JaasEntry(tokens[0][0], options)


def _tokens(text: str, setting: str) -> list[tuple[str, bool]]:
    """Return the words of a text, and whether each is a mark."""
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadSecuritySetting(setting, f"cannot be read from character {at + 1} on")
        at = match.end()
        quoted = match["double"] if match["double"] is not None else match["single"]
        if quoted is not None:
            found.append((_unescaped(quoted), False))
        elif match["word"] is not None:
            found.append((match["word"], False))
        elif match["mark"] is not None:
            found.append((match["mark"], True))
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text, flags=re.DOTALL)
