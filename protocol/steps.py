"""Work on many records as a generator: a loop that has others to serve may pause at each of its yields."""

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Yields where it may be paused, and returns the result."""
STEP_RECORDS: Final = 256
"""Records that a step takes up: one or two milliseconds."""
STEP_BYTES: Final = 1 << 15
"""Number of bytes that a step compresses with a slow codec."""


def at_once(steps: Steps[T]) -> T:
    """Go on to the end without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
