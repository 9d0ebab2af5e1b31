"""Questions to a cluster: each has its own time and may fail. What it would have told is then unknown, and noted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from odradek.client.errors import ClientTimeout
from odradek.protocol.errors import KafkaError

K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T")

ANSWER_S = 5.0
"""Time that one question may take, in seconds."""
REFUSALS_MAX = 5
"""Bad subjects of a question that are looked for; more of them are refused together with good ones."""


class Questions:
    """A round of questions to one cluster."""

    def __init__(self) -> None:
        self.answer_s = ANSWER_S
        self.unknown: list[str] = []
        """Clauses that say what is unknown, and why."""

    async def ask(self, what: str, question: Awaitable[T], otherwise: T) -> T:
        """Return the answer if it comes within `answer_s`; else `otherwise`, with a note of what is unknown."""
        try:
            async with asyncio.timeout(self.answer_s):
                return await question
        except TimeoutError:
            self.unknown.append(f"{what}: no answer within {self.answer_s:g} s")
        except (KafkaError, OSError) as error:
            self.unknown.append(f"{what}: {error}")
        return otherwise

    async def ask_of_all(
        self, what: str, subjects: list[S], question: Callable[[list[S]], Awaitable[dict[K, T]]]
    ) -> dict[K, T]:
        """Ask about all subjects at once; where that is refused about each half, so that a bad one hides no other."""

        async def answer_or_none() -> dict[K, T] | None:
            try:
                return await question(subjects)
            except (OSError, ClientTimeout):
                raise
            except KafkaError:
                refused = sum(one.startswith(f"{what}: ") for one in self.unknown)
                if len(subjects) == 1 or refused >= REFUSALS_MAX:
                    raise
                return None

        if not subjects:
            return {}
        found = await self.ask(what, answer_or_none(), {})
        if found is not None:
            return found
        half = len(subjects) // 2
        found = await self.ask_of_all(what, subjects[:half], question)
        return found | await self.ask_of_all(what, subjects[half:], question)
