"""JSON as Kafka writes it into znodes, and reading it with errors that name the znode."""

import base64
import json
from typing import Any, Final

INT32_BITS: Final = 32
INT32_DIGITS_MAX: Final = 10
INT64_BITS: Final = 64


class BadZnode(ValueError):  # noqa: N818 (it is the data that is bad)
    """Data in ZooKeeper that cannot be read. Names the path and shows the data."""

    def __init__(self, path: str, data: bytes, why: str) -> None:
        super().__init__(f"{path}: {why}: {data[:200]!r}")
        self.path = path


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
"""Encoder that is made once: `json.dumps` makes one for each call that asks for other separators."""

JsonObject = dict[str, Any]
"""A decoded JSON object: `Fields` reads it with types checked."""


def dump(fields: JsonObject) -> bytes:
    """Encode fields as JSON without spaces, as Jackson writes it."""
    return _ENCODER.encode(fields).encode()


class Fields:
    """A JSON object in a znode, read field by field; every wrong or missing one raises BadZnode."""

    def __init__(self, path: str, data: bytes) -> None:
        self._path = path
        self._data = data
        try:
            text = data.decode(json.detect_encoding(data))  # json.loads itself lets halves of surrogate pairs pass
            self._values = json.loads(text)
            if "\\u" in text:
                dump(self._values)  # JSON takes half a surrogate pair for text, which nobody can encode
        except (ValueError, RecursionError) as error:
            raise self.bad("not JSON") from error
        if not isinstance(self._values, dict):
            raise self.bad("not a JSON object")

    def bad(self, why: str) -> BadZnode:
        return BadZnode(self._path, self._data, why)

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def version(self, lowest: int, highest: int) -> int:
        """Read the format's version. Raises BadZnode when it is not one that can be read."""
        version = self.integer("version")
        if not lowest <= version <= highest:
            raise self.bad(f"version {version} is not one of {lowest}-{highest}")
        return version

    def integer(self, key: str, default: int | None = None) -> int:
        """Read a number of 32 bits, as requests carry it; one written as text counts too, for Kafka writes some so."""
        return self._number(key, default, INT32_BITS)

    def long(self, key: str, default: int | None = None) -> int:
        """Read a number of 64 bits: a time, say."""
        return self._number(key, default, INT64_BITS)

    def _number(self, key: str, default: int | None, bits: int) -> int:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise self.bad(f"no number {key!r}")
        try:
            number = int(value)
        except ValueError as error:
            raise self.bad(f"{key!r} is not a number") from error
        if not fits_in(number, bits):
            raise self.bad(f"{key!r} is not a number of {bits} bits")
        return number

    def text(self, key: str, default: str | None = None) -> str:
        value = self._values.get(key, default)
        if not isinstance(value, str):
            raise self.bad(f"no text {key!r}")
        return value

    def mapping(self, key: str) -> JsonObject:
        """Read an object; {} when it is not there."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.bad(f"{key!r} is not an object")
        return value or {}

    def array(self, key: str) -> list[Any]:
        value = self._values.get(key)
        if not isinstance(value, list):
            raise self.bad(f"no list {key!r}")
        return value

    def integers(self, value: object, what: str) -> tuple[int, ...]:
        """Check a list of 32-bit numbers that was found somewhere inside the object; `what` is its name in errors."""
        if not isinstance(value, list) or not all(type(item) is int and fits_in(item, INT32_BITS) for item in value):
            raise self.bad(f"{what} is not a list of numbers of {INT32_BITS} bits")
        return tuple(value)

    def objects(self, key: str) -> list["Fields"]:
        """Read a list of objects, each with this znode's errors."""
        return [Fields(self._path, json.dumps(item).encode()) for item in self.array(key)]


def fits_in(number: int, bits: int) -> bool:
    """Tell whether a signed number of so many bits can hold it."""
    return -(1 << bits - 1) <= number < 1 << bits - 1


def number_named(name: str) -> int | None:
    """Return the number, of 32 bits and not negative, that is the name of a znode or a key; None for other names.

    Anybody may have made such a name up, and Python's `int` takes digits of all scripts, and refuses very many of them.
    """
    if not (name.isascii() and name.isdecimal() and len(name) <= INT32_DIGITS_MAX):
        return None
    number = int(name)
    return number if fits_in(number, INT32_BITS) else None


def whole_number(path: str, data: bytes, bits: int = INT64_BITS) -> int:
    """Read a znode that holds nothing but a decimal number of so many bits. Raises BadZnode."""
    try:
        number = int(data)
    except ValueError as error:
        raise BadZnode(path, data, "not a number") from error
    if not fits_in(number, bits):
        raise BadZnode(path, data, f"not a number of {bits} bits")
    return number


def uuid_text(uuid: bytes) -> str:
    """Return Kafka's form of 16 bytes: 22 characters of URL-safe base64."""
    assert len(uuid) == 16, uuid
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """Read the 16 bytes of a UUID from Kafka's text. Raises ValueError."""
    uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not a UUID")
    return uuid
