"""Output of commands: JSON for scripts, a rich table on a terminal, plain columns into a pipe."""

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from enum import Enum
from typing import Any


@contextmanager
def heard_from(least: str, logger: str) -> Iterator[None]:
    """Set a logger's level to `least` within a `with` block."""
    one = logging.getLogger(logger)
    level = one.level
    one.setLevel(least)
    try:
        yield
    finally:
        one.setLevel(level)


def print_json(value: Any) -> None:
    """Print a value as one JSON document on one line; in ASCII if it has characters that cannot be encoded."""
    text = json.dumps(plain(value), ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # half a surrogate pair, or a terminal that knows few characters
        text = json.dumps(plain(value))
    print(text)


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: dataclasses and named tuples become objects, enums names, bytes text."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(content) for name, content in asdict(value).items()}
    if hasattr(value, "_asdict"):
        return {name: plain(content) for name, content in value._asdict().items()}
    if isinstance(value, dict):
        return {str(name): plain(content) for name, content in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(content) for content in value]
    return value


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """Rows of values; None is shown as `-`."""
    texts = [["-" if value is None else printable(str(value)) for value in row] for row in rows]
    title = printable(title)
    if sys.stdout.isatty():
        _rich_table(columns, texts, title)
        return
    if title:
        print(title)
    widths = [max(len(cell) for cell in column) for column in zip(columns, *texts, strict=True)]
    for row in [[name.upper() for name in columns], *texts]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _rich_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title) or None, header_style="bold", title_justify="left")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    Console().print(table)


def printable(text: str) -> str:
    """Return a text with control characters escaped: anybody can put some into a group's name, and terminals obey."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def note(message: str) -> None:
    """Print a remark for people on stderr, if that is a terminal."""
    if sys.stderr.isatty():
        print(message, file=sys.stderr)
