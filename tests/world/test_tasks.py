"""Supervised tasks: no death without a word, and each followed by what was declared."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.testing.virtual_clock import VirtualClock, VirtualLoop
from odradek.world.tasks import RESTART_PAUSE_MS, OnDeath, Tasks


def on_virtual_time(story: Callable[[Tasks, list[str], VirtualClock], Coroutine[Any, Any, None]]) -> Tasks:
    loop = VirtualLoop()
    ended: list[str] = []

    async def main() -> Tasks:
        clock = VirtualClock(loop)
        tasks = Tasks(clock, ended.append)
        await story(tasks, ended, clock)
        tasks.close()
        return tasks

    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


def test_what_restarts_is_begun_anew_after_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    begun_ms: list[float] = []

    async def story(tasks: Tasks, ended: list[str], clock: VirtualClock) -> None:
        over = asyncio.Event()

        async def work() -> None:
            begun_ms.append(clock.monotonic_ms())
            if len(begun_ms) < 3:
                raise ValueError("no such znode")
            over.set()

        tasks.spawn("fetcher-2", work, OnDeath.RESTART)
        await over.wait()
        assert not ended

    with caplog.at_level(logging.ERROR):
        tasks = on_virtual_time(story)
    assert [round(later - before) for before, later in itertools.pairwise(begun_ms)] == [
        RESTART_PAUSE_MS,
        RESTART_PAUSE_MS,
    ]
    assert tasks.deaths == {"fetcher-2": 2}
    assert "fetcher-2" in caplog.text and "no such znode" in caplog.text


@pytest.mark.parametrize(("rule", "lines"), [(OnDeath.END, 1), (OnDeath.REPORT, 0)])
def test_what_does_not_restart_dies_once(rule: OnDeath, lines: int) -> None:
    async def story(tasks: Tasks, ended: list[str], clock: VirtualClock) -> None:
        async def work() -> None:
            raise KeyError("leader")

        await tasks.spawn("registration", work, rule)
        assert len(ended) == lines
        assert all("registration" in line and "KeyError" in line for line in ended)

    assert on_virtual_time(story).deaths == {"registration": 1}


def test_whoever_started_it_hears_of_a_death_before_its_owner() -> None:
    async def story(tasks: Tasks, ended: list[str], clock: VirtualClock) -> None:
        heard: list[tuple[Exception, list[str]]] = []

        async def work() -> None:
            raise failure

        failure = KeyError("leader")
        await tasks.spawn("registration", work, OnDeath.END, lambda error: heard.append((error, ended.copy())))
        assert heard == [(failure, [])] and len(ended) == 1

    assert on_virtual_time(story).deaths == {"registration": 1}


@pytest.mark.parametrize("rule", list(OnDeath))
def test_an_end_and_a_cancellation_are_no_deaths(rule: OnDeath) -> None:
    async def story(tasks: Tasks, ended: list[str], clock: VirtualClock) -> None:
        async def forever() -> None:
            await asyncio.Event().wait()

        async def short() -> None:
            pass

        await tasks.spawn("short", short, rule)
        task = tasks.spawn("forever", forever, rule)
        await asyncio.sleep(0)
        tasks.close()
        await asyncio.wait([task])
        assert task.cancelled() and not ended

    assert not on_virtual_time(story).deaths


def test_a_result_or_an_error_is_of_those_who_wait_and_an_end_of_all_cancels_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(tasks: Tasks, ended: list[str], clock: VirtualClock) -> None:
        async def answer() -> int:
            return 5

        async def refuse() -> int:
            raise ValueError("refused")

        async def never() -> None:
            await asyncio.Event().wait()

        assert await tasks.result_of("answer", answer) == 5
        with pytest.raises(ValueError, match="refused"):
            await tasks.result_of("refuse", refuse)
        waiting = tasks.result_of("never", never)
        tasks.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    assert on_virtual_time(story).deaths == {}
    assert "has died" not in caplog.text
