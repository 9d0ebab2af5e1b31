"""The faults of a run as a list: what befell it when, each with random numbers of its own, so that any can be left out
and the others stay what they were."""

import random
from contextvars import ContextVar
from dataclasses import dataclass

DRAWN: ContextVar[random.Random] = ContextVar("drawn")
"""Numbers of the fault in whose task one asks."""

CALM = "calm"
"""Not a fault: until then one waits with the end of all of them."""


@dataclass(frozen=True)
class Occurrence:
    """A fault. `number` decides its random numbers."""

    number: int
    at_ms: float
    """After the faults began."""
    kind: str

    def __str__(self) -> str:
        return f"{self.at_ms / 1000:.3f} s: {self.kind} (number {self.number})"

    def draw(self, seed: int) -> None:
        """Have the fault's numbers drawn in this task from now on."""
        DRAWN.set(random.Random(f"{seed} {self.number}"))


class DrawnHere(random.Random):
    """Numbers of the fault that is under way in the asking task."""

    def random(self) -> float:
        return DRAWN.get().random()

    def getrandbits(self, bits: int, /) -> int:
        return DRAWN.get().getrandbits(bits)
