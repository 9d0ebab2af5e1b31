"""Bytes of records as the page shows them: as text, JSON or hexadecimal, cut off, with their size."""

import json
import re
from typing import Any, Final

from odradek.client.records import ConsumerRecord

Model = dict[str, Any]
AUTO, TEXT, JSON, HEX = "auto", "text", "json", "hex"
FORMS: Final = (AUTO, TEXT, JSON, HEX)
LIST_BYTES_MAX: Final = 400
"""Bytes of one field that are shown in a list of records."""
WHOLE_BYTES_MAX: Final = 65_536
"""Bytes that are shown of a field by itself."""
HEADERS_MAX: Final = 50
DEPTH_MAX: Final = 40
"""Depth of JSON from which on members are not indented further."""
HEX_ROW: Final = 16
TEXT_SHARE: Final = 0.1
"""Share of control characters above which bytes do not count as text."""


def record_model(record: ConsumerRecord, form: str = AUTO) -> Model:
    """Return a record for the page, which must show names and values as text: anybody may have written them."""
    headers = list(record.headers or ())
    return {
        "partition": record.partition,
        "offset": record.offset,
        "at_ms": record.timestamp_ms,
        "appended": record.timestamp_type == 1,
        "key": field_model(record.key, form),
        "value": field_model(record.value, form),
        "headers": [[name[:LIST_BYTES_MAX], field_model(value, form)] for name, value in headers[:HEADERS_MAX]],
        "headers_left_out": max(0, len(headers) - HEADERS_MAX),
    }


def field_model(data: bytes | None, form: str = AUTO, bytes_max: int = LIST_BYTES_MAX) -> Model:
    """Return a key, a value or a header's value: `size` in bytes, its `form`, `text`, and whether that is `cut` off.

    The argument `form` is the wanted one; data that do not have it are shown in their own. JSON is laid out if it is
    complete.
    """
    if data is None:
        return {"size": None, "form": "null", "text": "", "cut": False}
    shown = data[:bytes_max]
    cut = len(shown) < len(data)
    found, text = _read(bytes(shown), form, cut)
    return {"size": len(data), "form": found, "text": text, "cut": cut}


def _read(shown: bytes, form: str, cut: bool) -> tuple[str, str]:
    if form == HEX:
        return HEX, hexadecimal(shown)
    text = _decode(shown, cut)
    if text is None or (form == AUTO and not _is_readable(text)):
        return (TEXT, shown.decode("utf-8", "replace")) if form == TEXT else (HEX, hexadecimal(shown))
    if form == TEXT:
        return TEXT, text
    laid_out = _json(text) if not cut else None
    return (JSON, laid_out) if laid_out is not None else (TEXT, text)


def _decode(shown: bytes, cut: bool) -> str | None:
    """Decode UTF-8, without a character that was cut in two at the end; return None if it is not UTF-8."""
    for end in range(len(shown), max(len(shown) - 4, 0) - 1, -1) if cut else [len(shown)]:
        try:
            return shown[:end].decode()
        except UnicodeDecodeError:
            continue
    return None


def _is_readable(text: str) -> bool:
    strange = sum(1 for one in text if one < " " and one not in "\t\r\n")
    return strange <= len(text) * TEXT_SHARE


def _json(text: str) -> str | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return laid_out(text)


_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def laid_out(text: str) -> str:
    """Return JSON with a line for each member. Numbers and keys stay as they were written, even keys that occur
    twice."""
    written: list[str] = []
    depth, before = 0, ""
    for token in _TOKENS.findall(text):
        if token in "}]":
            depth -= 1
        if before and ((token in "}]" and before not in "{[") or (before in "{[," and token not in "}]")):
            written.append("\n" + "  " * min(depth, DEPTH_MAX))
        written.append(": " if token == ":" else token)
        if token in "{[":
            depth += 1
        before = token
    return "".join(written)


def hexadecimal(data: bytes) -> str:
    """Return rows of position, sixteen bytes in hexadecimal, and the same bytes as ASCII if printable."""
    rows = []
    for at in range(0, len(data), HEX_ROW):
        row = data[at : at + HEX_ROW]
        printable = "".join(chr(one) if 32 <= one < 127 else "·" for one in row)
        rows.append(f"{at:06x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  {printable}")
    return "\n".join(rows)
