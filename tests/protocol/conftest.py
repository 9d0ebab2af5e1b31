"""Random messages for the tests of the codecs, from a seed."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from odradek.protocol.fields import STRING, Array, Field, Fixed, Message, Struct, WireType

WIDTHS = {"b": 8, "h": 16, "i": 32, "q": 64}
LETTERS = "abcXYZ09-._é水🧵"


class RandomMessages:
    """Values for every field that a version has; the other fields keep their defaults, so that they compare equal.

    `number` may be replaced to put a number of one's own into an integer field.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.number: Callable[[Field, str], int] = lambda line, code: self.integer(code)

    def integer(self, code: str) -> int:
        bits = WIDTHS[code.lower()]
        low, high = (0, 2**bits) if code.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        chosen = self.random.choice([low, high - 1, 0, self.random.randrange(low, high), self.random.randrange(100)])
        return int(chosen)

    def text(self) -> str:
        length = self.random.choice([0, 1, 5, 20, 70, 150])
        return "".join(self.random.choice(LETTERS) for _ in range(length))

    def value(self, wire: WireType, line: Field, version: int) -> Any:
        if isinstance(wire, Array):
            longest = [0, 1, 2, 3] if isinstance(wire.element, type) else [0, 1, 3, 40, 200]
            return [self.value(wire.element, line, version) for _ in range(self.random.choice(longest))]
        if isinstance(wire, type):
            return self.struct(wire, version)
        if not isinstance(wire, Fixed):
            return self.text() if wire is STRING else self.random.randbytes(self.random.choice([0, 1, 126, 127, 600]))
        if wire.code == "?":
            return self.random.random() < 0.5
        if wire.code == "16s":
            return self.random.randbytes(16)
        return self.random.random() if wire.code == "d" else self.number(line, wire.code)

    def struct(self, struct: type[Struct], version: int) -> Any:
        values = {}
        for line in struct.FIELDS:
            if version not in line.versions or (line.is_tagged() and self.random.random() < 0.4):
                continue
            null = version in line.nullable and self.random.random() < 0.3
            values[line.name] = None if null else self.value(line.wire, line, version)
        return struct(**values)

    def message(self, message: type[Message], version: int) -> Any:
        return self.struct(message, version)


@pytest.fixture
def random_messages() -> RandomMessages:
    return RandomMessages(39)
