"""The time line: what happened, from all sources, each thing once."""

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from odradek.console.happenings import OBSERVED, Happening, grouped

HAPPENINGS_MAX: Final = 1_000
KEYS_MAX: Final = 50_000
PATIENCE_MS: Final = 2_500
"""Time for which an observation is held back: a journal may tell it better."""
SAME_MS: Final = 20_000
"""Span within which an observation is what a journal has told already, and not a repetition."""


class Timeline:
    """The last happenings, numbered in the order in which they were learnt."""

    def __init__(self) -> None:
        self._known: deque[tuple[int, Happening]] = deque(maxlen=HAPPENINGS_MAX)
        self._held: list[Happening] = []
        self._told_ms: dict[tuple[Any, ...], int] = {}
        self.last_number = 0

    def add(self, happenings: Iterable[Happening], now_ms: int) -> None:
        """Take what happened. What was only observed waits whether a journal has it too."""
        for one in happenings:
            if one.source == OBSERVED and one.keys:
                self._held.append(one)
            else:
                self._number(one)
        self.settle(now_ms)

    def settle(self, now_ms: int) -> None:
        """Let go of what no journal has told in time."""
        ready = [one for one in self._held if now_ms - one.at_ms >= PATIENCE_MS]
        self._held = [one for one in self._held if now_ms - one.at_ms < PATIENCE_MS]
        for one in grouped(one for one in ready if not self._is_told(one)):
            self._number(one)

    def _is_told(self, happening: Happening) -> bool:
        return all(self._told_ms.get(key, -SAME_MS) >= happening.at_ms - SAME_MS for key in happening.keys)

    def _number(self, happening: Happening) -> None:
        self.last_number += 1
        self._known.append((self.last_number, happening))
        for key in happening.keys:
            self._told_ms.pop(key, None)
            self._told_ms[key] = happening.at_ms
        while len(self._told_ms) > KEYS_MAX:
            del self._told_ms[next(iter(self._told_ms))]

    def since(self, number: int) -> list[dict[str, Any]]:
        """Return what has a greater number, for the page."""
        return [one.as_model(at) for at, one in self._known if at > number]
