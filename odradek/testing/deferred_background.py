"""Background work that a test does when it likes: what was begun is done in any order, and its result comes later."""

import random
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DeferredBackground:
    """`step` does one piece of work or gives one result; `close` does what was begun, as threads do."""

    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._begun: list[tuple[Callable[[], object], Callable[[object], object]]] = []
        self._results: list[tuple[Callable[[object], object], object]] = []
        self._closed = False

    def run(self, work: Callable[[], T], done: Callable[[T | OSError], object]) -> None:
        if not self._closed:
            self._begun.append((work, done))  # type: ignore[arg-type]

    @property
    def idle(self) -> bool:
        """Nothing is under way."""
        return not self._begun and not self._results

    def step(self) -> None:
        """Nothing when it is idle."""
        count = len(self._begun) + len(self._results)
        if not count:
            return
        number = self._random.randrange(count)
        if number < len(self._results):
            done, result = self._results.pop(number)
            done(result)
        else:
            self._work(number - len(self._results))

    def _work(self, number: int) -> None:
        work, done = self._begun.pop(number)
        result: object
        try:
            result = work()
        except OSError as error:
            result = error
        self._results.append((done, result))

    def drain(self) -> None:
        """Until it is idle."""
        while not self.idle:
            self.step()

    def close(self) -> None:
        self._closed = True
        while self._begun:
            self._work(0)
