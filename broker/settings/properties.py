"""Files in Java's properties format, as java.util.Properties reads them, with the line of each key."""

import re
from typing import Final, NamedTuple

BLANK: Final = " \t\f"
_SIMPLE_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_WRITTEN: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_NOT_IN_KEYS: Final = re.compile(r"[\\=:#!\s]")
_NOT_IN_VALUES: Final = re.compile(r"\A |[\\\t\n\r\f]")


class Property(NamedTuple):
    key: str
    value: str
    line: int
    """Number of the line on which it begins, from 1."""


class BadProperties(ValueError):  # noqa: N818 - it names what was read
    """Raised for a line that cannot be read. `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def parse_properties(text: str) -> list[Property]:
    """List all entries in their order; of a key that comes twice the last one counts. Raises BadProperties.

    `#` and `!` begin comments; `=`, `:` or blanks end a key; a backslash at the end of a line goes on with the next
    one, whose leading blanks do not count.
    """
    return [_entry(logical, line) for logical, line in _logical_lines(text)]


def property_line(key: str, value: str) -> str:
    """Return the line of an entry, from which whoever reads the file gets this very key and value."""

    def escape(match: re.Match[str]) -> str:
        return _WRITTEN.get(match[0], f"\\{match[0]}")

    return f"{_NOT_IN_KEYS.sub(escape, key)}={_NOT_IN_VALUES.sub(escape, value)}\n"


def _logical_lines(text: str) -> list[tuple[str, int]]:
    lines = []
    open_line: str | None = None
    began = 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = raw.lstrip(BLANK)
        if open_line is None:
            if not line or line[0] in "#!":
                continue
            open_line, began = "", number
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        open_line += line[:-1] if goes_on else line
        if not goes_on:
            lines.append((open_line, began))
            open_line = None
    if open_line is not None:
        lines.append((open_line, began))
    return lines


def _entry(line: str, number: int) -> Property:
    end = 0
    while end < len(line) and line[end] not in "=:" + BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(BLANK)
    return Property(_unescape(line[:end], number), _unescape(rest, number), number)


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape == "u":
            raise BadProperties(line, "\\u needs four hexadecimal digits")
        return _SIMPLE_ESCAPES.get(escape, escape)

    # Java writes what has more than sixteen bits as two escapes, the halves of its UTF-16.
    return _ESCAPE.sub(replace, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
