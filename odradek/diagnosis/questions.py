"""Questions to a cluster: each has a time limit of its own and may fail. It is then noted what is unknown, and why."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from odradek.client.errors import ClientTimeout
from odradek.protocol.errors import KafkaError

K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T")

ANSWER_S = 5.0
"""Time limit of one question, in seconds."""
REFUSALS_MAX = 5
"""Refused subjects of a question that are told apart from the others; then one refusal covers good ones, too."""


class Questions:
    """A round of questions to one cluster, with a list of what it could not learn."""

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
        """Ask about all subjects at once. If that is refused, ask about each half, so that answers are missing only for
        those that are refused."""

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
