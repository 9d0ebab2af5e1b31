"""Work on many records as a generator, so that an event loop can do other work at each of its yields."""

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Yields where it may be paused, and returns the result."""
STEP_RECORDS: Final = 256
"""Records of one step, which takes one or two milliseconds."""
STEP_BYTES: Final = 1 << 15
"""Bytes that one step compresses with a slow codec."""


def at_once(steps: Steps[T]) -> T:
    """Run to the end without a pause; return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
