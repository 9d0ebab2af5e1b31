"""Definition of a setting: name, type, default, allowed values, how it may be changed, what it means and does.

A setting that the broker obeys is an attribute of a dataclass, made by `setting`, and written nowhere else:

    max_connections: int = setting("int 2147483647 >=0 medium cluster-wide", "Connections of …", live="sockets")

Its name is Kafka's with `_` for `.`; the columns are type, default, allowed values, importance, and how it may be
changed: read-only, per-broker, cluster-wide or topic; `internal` behind that means that DescribeConfigs does not show
it. Default: `-` is null, `''` empty. Allowed: `any`, `>=1`, `0..1`, several of these with `|` between, or `{a,b}`,
which for a list holds for each element. `live` names who applies a change while the broker runs
(broker/setting_changes.py).

All others stand in tables of text with two lines for each, the second one indented; the column after the fifth says
what the setting does here, `works` (without an attribute of its own; `works=tls` when `tls` applies a change),
`none` or `refused`, with the reason after `|`;
a topic's may end with the broker's settings that stand for it, `broker=log.roll.ms,log.roll.hours`:

    remote.storage.enable boolean false any medium topic refused
        Whether old segments move to remote storage. | remote storage is not implemented
"""

import re
from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields, replace
from decimal import Decimal
from enum import Enum
from math import isfinite, isnan
from typing import Any, Final

Value = bool | int | float | str | tuple[str, ...] | None
HIDDEN: Final = "[hidden]"


class ValueType(Enum):
    """The types of Kafka's ConfigDef."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    SHORT = "short"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"


class UpdateMode(Enum):
    """Ways in which Kafka lets a setting be changed while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"
    TOPIC = "topic"


class Effect(Enum):
    """Effect of a setting on this broker."""

    WORKS = "works"
    """Obeyed."""
    NONE = "accepted, no effect"
    """Not obeyed: setting it to anything but its default gives a warning."""
    REFUSED = "refused"
    """A broker whose file sets it to something else does not start, a request that does fails: going on without it
    would not be what was asked for."""


JAVA_DOUBLE: Final = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)")
JAVA_BLANKS: Final = "".join(map(chr, range(ord(" ") + 1)))
"""What Java's String.trim takes off; other scripts' blanks, which Python's strip takes off too, would stay there."""
COMMA: Final = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
INTEGER_BITS: Final = {ValueType.SHORT: 16, ValueType.INT: 32, ValueType.LONG: 64}


class BadValue(ValueError):  # noqa: N818 - it names what was given
    """A value that a setting does not take. The text is Kafka's; `reason` is its last part."""

    def __init__(self, name: str, text: str | None, reason: str) -> None:
        super().__init__(f"Invalid value {text} for configuration {name}: {reason}")
        self.name = name
        self.text = text
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Setting:
    """Definition of one setting: see the head of this module."""

    name: str
    type: ValueType
    default: str | None
    allowed: str
    importance: str
    update_mode: UpdateMode
    internal: bool
    documentation: str
    effect: Effect = Effect.WORKS
    reason: str = ""
    """Reason why it is refused, or has no effect."""
    live: str = ""
    """Name of the applier of a change while the broker runs; empty: there is none."""
    broker_names: tuple[str, ...] = ()
    """Settings of the broker that stand for a topic's setting; the first of them that is set counts."""

    @property
    def changes_live(self) -> bool:
        """True if a broker's setting may be changed while it runs: one that works, only if it has an applier."""
        if self.update_mode in (UpdateMode.READ_ONLY, UpdateMode.TOPIC):
            return False
        return bool(self.live) or self.effect is not Effect.WORKS

    @property
    def is_sensitive(self) -> bool:
        return self.type is ValueType.PASSWORD

    def read(self, text: str | None) -> Value:
        """Return the value of a text; None stays None. Raises BadValue."""
        if text is None:
            return None
        if self.type is not ValueType.PASSWORD:
            text = text.strip(JAVA_BLANKS)
        value = self._parse(text)
        self._check(value, text)
        return value

    def write(self, value: Value) -> str | None:
        """Return the text of a value as Kafka's ConfigDef writes it."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return java_double(value) if isinstance(value, float) else str(value)

    def allowed_in_words(self) -> str:
        """Describe the values that are allowed, for people who gave another."""
        if self.type is ValueType.BOOLEAN:
            return "true or false"
        kind = {ValueType.DOUBLE: "a number", ValueType.LIST: "a list"}.get(
            self.type, f"a value of type {self.type.value}"
        )
        if self.type in INTEGER_BITS:
            kind = f"a whole number of {INTEGER_BITS[self.type]} bits"
        if self.allowed == "any":
            return kind
        if self.allowed.startswith("{"):
            words = ", ".join(filter(None, self.choices())) + (", or nothing" if "" in self.choices() else "")
            return f"{'any' if self.type is ValueType.LIST else 'one'} of {words}"
        parts = [
            f"at least {part[2:]}" if part.startswith(">=") else part.replace("..", " to ")
            for part in self.allowed.split("|")
        ]
        return f"{kind}, {' or '.join(parts)}"

    def choices(self) -> list[str]:
        """Return the words of `{a,b}`; empty for other settings."""
        return self.allowed[1:-1].split(",") if self.allowed.startswith("{") else []

    def _parse(self, text: str) -> Value:
        if self.type is ValueType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise BadValue(self.name, text, "Expected value to be either true or false")
            return text.lower() == "true"
        if self.type is ValueType.LIST:
            return tuple(COMMA.split(text)) if text else ()
        if self.type is ValueType.DOUBLE:
            return self._parse_double(text)
        if self.type in INTEGER_BITS:
            return self._parse_integer(text)
        return text

    def _parse_double(self, text: str) -> float:
        if JAVA_DOUBLE.fullmatch(text) is None:  # Python reads more: digits of all scripts, 1_000, inf
            raise BadValue(self.name, text, "Not a number of type DOUBLE")
        return float(text.rstrip("fFdD"))

    def _parse_integer(self, text: str) -> int:
        sign, digits = (text[0], text[1:]) if text[:1] in ("-", "+") else ("", text)
        digits = digits.lstrip("0") or digits[:1]
        limit = 1 << (INTEGER_BITS[self.type] - 1)
        few = len(digits) <= len(str(limit))  # Python refuses to read very many
        if not (few and digits.isascii() and digits.isdigit()) or not -limit <= int(sign + digits) < limit:
            raise BadValue(self.name, text, f"Not a number of type {self.type.name}")
        return int(sign + digits)

    def _check(self, value: Value, text: str) -> None:
        if self.allowed == "any":
            return
        if self.allowed.startswith("{"):
            for one in value if isinstance(value, tuple) else (value,):
                if one not in self.choices():
                    raise BadValue(self.name, str(one), f"String must be one of: {', '.join(self.choices())}")
            return
        assert isinstance(value, int | float), (self.name, value)
        if not any(_within(part, value) for part in self.allowed.split("|")):
            raise BadValue(self.name, text, self._out_of_range(value))

    def _out_of_range(self, value: float) -> str:
        last = self.allowed.rpartition("|")[2]
        lowest, between, highest = last.partition("..")
        if not between:
            return f"Value must be at least {last[2:]}"
        if "|" in self.allowed:
            return f"Value must be between {lowest} and {highest} or equal to {self.allowed.partition('|')[0]}"
        return f"Value must be at least {lowest}" if value < float(lowest) else f"Value must be no more than {highest}"


def _within(part: str, value: float) -> bool:
    if part.startswith(">="):
        return value >= float(part[2:])
    lowest, _, highest = part.partition("..")
    return float(lowest) <= value <= float(highest or lowest)


def java_double(value: float) -> str:
    """Format a number as Java's Double.toString does: 0.5, 1.0E7, 1.7976931348623157E308, Infinity, NaN."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), value
    text = "".join(map(str, digits))
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{exponent + len(digits) - 1}"


def setting(columns: str, documentation: str, *, live: str = "", broker: str = "", value: object = None) -> Any:
    """Declare an attribute of a dataclass that is a setting: see the head of this module.

    `broker` names the broker's settings that stand for a topic's. `value` is the default where it is not what its text
    reads as.
    """
    made = _setting(["", *columns.split()], documentation, live=live, broker_names=tuple(broker.split()))
    default = made.read(made.default) if value is None else value
    if isinstance(default, dict):
        return field(default_factory=dict, metadata={"setting": made})
    return field(default=default, metadata={"setting": made})


def settings_in(holder: type) -> tuple[Setting, ...]:
    """List the settings that are a dataclass's own attributes, without those of its bases."""
    own = holder.__annotations__
    return tuple(_named(one) for one in fields(holder) if one.name in own and "setting" in one.metadata)


def setting_name(attribute: str) -> str:
    """Return Kafka's name of the setting that an attribute holds."""
    return attribute.replace("_", ".")


def _named(attribute: Field[Any]) -> Setting:
    unnamed: Setting = attribute.metadata["setting"]
    return replace(unnamed, name=setting_name(attribute.name))


def read_table(text: str) -> tuple[Setting, ...]:
    """List the settings of a table, in their order."""
    lines = text.strip().split("\n")
    return tuple(_row(lines[at].split(), lines[at + 1].strip()) for at in range(0, len(lines), 2))


def _row(columns: Sequence[str], text: str) -> Setting:
    documentation, _, reason = text.partition(" | ")
    broker_names: tuple[str, ...] = ()
    if columns[-1].startswith("broker="):
        broker_names, columns = tuple(columns[-1][len("broker=") :].split(",")), columns[:-1]
    word, _, live = columns[-1].partition("=")
    effect = {"works": Effect.WORKS, "none": Effect.NONE, "refused": Effect.REFUSED}[word]
    return _setting(columns[:-1], documentation, effect=effect, reason=reason, live=live, broker_names=broker_names)


def _setting(columns: Sequence[str], documentation: str, **others: Any) -> Setting:
    name, kind, default, allowed, importance, mode = columns[:6]
    return Setting(
        name=name,
        type=ValueType(kind),
        default={"-": None, "''": ""}.get(default, default),
        allowed=allowed,
        importance=importance,
        update_mode=UpdateMode(mode),
        internal="internal" in columns[6:],
        documentation=documentation,
        **others,
    )
