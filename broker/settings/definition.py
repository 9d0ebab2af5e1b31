"""What a setting is: name, type, default, allowed values, importance, how it may be changed, what it means.

A table has two lines for each setting, the second one indented:

    log.segment.bytes int 1073741824 >=14 high cluster-wide
        A segment is closed before it would grow larger.

Default: `-` is null, `""` empty. Allowed: `any`, `>=1`, `0..1`, several of these with `|` between, or `{a,b}`, which
for a list holds for each element. The sixth column is how it may be changed: read-only, per-broker, cluster-wide or
topic; `internal` behind it means that DescribeConfigs does not show it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Final

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
    """How a setting may be changed while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"
    TOPIC = "topic"


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
    """One line of a table."""

    name: str
    type: ValueType
    default: str | None
    allowed: str
    importance: str
    update_mode: UpdateMode
    internal: bool
    documentation: str

    @property
    def is_sensitive(self) -> bool:
        return self.type is ValueType.PASSWORD

    def read(self, text: str | None) -> Value:
        """The value of a text; None stays None. Raises BadValue."""
        if text is None:
            return None
        if self.type is not ValueType.PASSWORD:
            text = text.strip()
        value = self._parse(text)
        self._check(value, text)
        return value

    def write(self, value: Value) -> str | None:
        """The text of a value as Kafka's ConfigDef writes it."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return java_double(value) if isinstance(value, float) else str(value)

    def allowed_in_words(self) -> str:
        """For people who gave something else."""
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
            return ("any of " if self.type is ValueType.LIST else "one of ") + ", ".join(self.choices())
        parts = [
            f"at least {part[2:]}" if part.startswith(">=") else part.replace("..", " to ")
            for part in self.allowed.split("|")
        ]
        return f"{kind}, {' or '.join(parts)}"

    def choices(self) -> list[str]:
        """The words of `{a,b}`; empty for other settings."""
        return self.allowed[1:-1].split(",") if self.allowed.startswith("{") else []

    def _parse(self, text: str) -> Value:
        if self.type is ValueType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise BadValue(self.name, text, "Expected value to be either true or false")
            return text.lower() == "true"
        if self.type is ValueType.LIST:
            return tuple(part.strip() for part in text.split(",")) if text else ()
        if self.type is ValueType.DOUBLE:
            return self._parse_double(text)
        if self.type in INTEGER_BITS:
            return self._parse_integer(text)
        return text

    def _parse_double(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise BadValue(self.name, text, "Not a number of type DOUBLE") from None

    def _parse_integer(self, text: str) -> int:
        digits = text[1:] if text[:1] in ("-", "+") else text
        limit = 1 << (INTEGER_BITS[self.type] - 1)
        if not (digits.isascii() and digits.isdigit()) or not -limit <= int(text) < limit:
            raise BadValue(self.name, text, f"Not a number of type {self.type.name}")
        return int(text)

    def _check(self, value: Value, text: str) -> None:
        if self.allowed == "any":
            return
        if self.allowed.startswith("{"):
            for one in value if isinstance(value, tuple) else (value,):
                if one not in self.choices():
                    raise BadValue(self.name, text, f"String must be one of: {', '.join(self.choices())}")
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
    """As Java's Double.toString writes it: 0.5, 1.0E7, 1.7976931348623157E308."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), value
    text = "".join(map(str, digits))
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{exponent + len(digits) - 1}"


def read_table(text: str) -> tuple[Setting, ...]:
    """The settings of a table, in their order."""
    lines = text.strip().split("\n")
    return tuple(_setting(lines[at].split(), lines[at + 1].strip()) for at in range(0, len(lines), 2))


def _setting(columns: Sequence[str], documentation: str) -> Setting:
    name, kind, default, allowed, importance, mode = columns[:6]
    return Setting(
        name=name,
        type=ValueType(kind),
        default={"-": None, '""': ""}.get(default, default),
        allowed=allowed,
        importance=importance,
        update_mode=UpdateMode(mode),
        internal="internal" in columns[6:],
        documentation=documentation,
    )
