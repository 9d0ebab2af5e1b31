"""Supervised tasks: the one way in which this program starts work that goes on after the call that started it.

A task that dies in silence is the worst fault a broker can have: it looks alive and does nothing. So each task has a
name and a rule for its death, both said where it is started. Whatever the rule, a death is logged with the name and the
stack, and counted in `deaths`; a simulation asserts that the count is empty.
"""

import asyncio
import enum
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from odradek.world.clock import Clock, sleep

log = logging.getLogger(__name__)
Result = TypeVar("Result")

RESTART_PAUSE_MS = 1_000.0
"""Pause before a task that died is begun anew, so that a fault that repeats does not fill processor and log."""


class OnDeath(enum.Enum):
    """Rule for a task that ends by an exception. A task that returns has done its work and is not dead."""

    RESTART = "restart"
    """Begin the work anew after a pause: for loops that find all they need in their owner's state."""
    END = "end"
    """End the owner with one clear line: for work without which it would only look alive."""
    REPORT = "report"
    """Log and count, nothing else: for work on behalf of one caller, who notices when it is not done in time."""


class Tasks:
    """Tasks of one owner: a broker, or a client. Everything on its loop."""

    def __init__(self, clock: Clock, end: Callable[[str], object]) -> None:
        """Take the owner's clock, and `end`, called with one line for people when a task of rule END has died."""
        self.deaths: Counter[str] = Counter()
        """Deaths by the task's name."""
        self._clock, self._end = clock, end
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(
        self,
        name: str,
        work: Callable[[], Coroutine[Any, Any, object]],
        on_death: OnDeath,
        died: Callable[[Exception], object] = lambda error: None,
    ) -> "asyncio.Task[None]":
        """Start `work()` as a task. `work` makes a new coroutine at each call, because a restart needs one.

        `died` is called with the exception by which the task dies, before the rule is obeyed. The task returned may be
        cancelled; a cancellation is no death. It never ends by an exception.
        """
        task = asyncio.get_running_loop().create_task(self._supervise(name, work, on_death, died), name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def result_of(self, name: str, work: Callable[[], Coroutine[Any, Any, Result]]) -> "asyncio.Task[Result]":
        """Start `work()` for those who wait for the task returned: they get its result or its error, which is no death.

        For questions that several wait for, or that one waits for only so long.
        """
        task = asyncio.get_running_loop().create_task(work(), name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def close(self) -> None:
        """Cancel all that still runs."""
        for task in tuple(self._running):
            task.cancel()

    async def _supervise(
        self,
        name: str,
        work: Callable[[], Coroutine[Any, Any, object]],
        on_death: OnDeath,
        died: Callable[[Exception], object],
    ) -> None:
        while True:
            try:
                await work()
                return
            except Exception as error:
                died(error)
                self.deaths[name] += 1
                log.error("task %s has died (%s)", name, on_death.value, exc_info=error)
                if on_death is OnDeath.END:
                    self._end(f"task {name} has died: {type(error).__name__}: {error}")
            if on_death is not OnDeath.RESTART:
                return
            await sleep(self._clock, RESTART_PAUSE_MS)
