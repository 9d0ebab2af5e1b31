"""A child process that ends before it was told what to do is an end like any other."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from odradek.testing.patience import PATIENCE_SECONDS
from odradek.world.children import ProcessChildren
from odradek.world.clock import LoopClock
from odradek.world.tasks import Tasks


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_child_that_ended_before_its_request_was_sent(
    new_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop's pipe is closed by then: the log had a stack, of a task that had died."""
    begin = asyncio.create_subprocess_exec

    async def begin_and_wait(*arguments: str, **options: Any) -> asyncio.subprocess.Process:
        process = await begin(sys.executable, "-c", "", **options)
        await process.wait()
        return process

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        tasks, ended = Tasks(LoopClock(loop), lambda line: None), loop.create_future()
        monkeypatch.setattr(asyncio, "create_subprocess_exec", begin_and_wait)
        ProcessChildren(tasks).run("of.no.use", b"request", lambda line: None, ended.set_result)
        assert await asyncio.wait_for(ended, PATIENCE_SECONDS)
        assert not tasks.deaths
        tasks.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
