"""Rows of a dump, and damage that a check has found."""

from typing import NamedTuple

from odradek.broker.log.errors import CorruptFile

Row = dict[str, object]
"""A line of output: names and plain values, in order. Bytes are what clients sent, and nothing else is bytes."""


class Damage(NamedTuple):
    """Damage of a file: what is wrong, and from which byte on."""

    path: str
    position: int
    reason: str


class Damaged(CorruptFile):
    """A small file does not go on making sense at that byte."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"byte {position}: {reason}")
        self.position = position
        self.reason = reason
