"""The thread of a blocking client, at its end: nobody waits for it in vain."""

import asyncio
import concurrent.futures
import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from odradek.client import loop_thread
from odradek.client.errors import ClientClosed
from odradek.client.loop_thread import LoopThread, on_callers_thread
from odradek.testing.patience import PATIENCE_SECONDS


async def never() -> None:
    await asyncio.Event().wait()


def submitting_and_saying(asked: threading.Event) -> Callable[..., Any]:
    """Return what asks a loop as asyncio does, and sets the event then, whether the loop takes it or not."""
    submit = asyncio.run_coroutine_threadsafe

    def submit_and_say(*given: Any) -> Any:
        try:
            return submit(*given)
        finally:
            asked.set()

    return submit_and_say


def test_a_call_that_comes_while_the_thread_ends_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for ever: what it asked for became a task after the others were cancelled, or nothing at all."""
    thread, begun, came, asked = LoopThread("test"), threading.Event(), threading.Event(), threading.Event()

    async def ends_slowly() -> None:
        begun.set()
        try:
            await never()
        finally:
            came.set()
            assert asked.wait(PATIENCE_SECONDS)

    with concurrent.futures.ThreadPoolExecutor(2) as callers:
        first = callers.submit(thread.run, ends_slowly())
        assert begun.wait(PATIENCE_SECONDS)
        thread.loop.call_soon_threadsafe(thread.loop.stop)
        assert came.wait(PATIENCE_SECONDS)
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", submitting_and_saying(asked))
        late = callers.submit(thread.run, never())
        for one in (first, late):
            with pytest.raises(ClientClosed):
                one.result(PATIENCE_SECONDS)


@pytest.mark.parametrize("one_turn_later", [False, True])
def test_a_call_that_ends_with_the_last_turn_of_the_loop_is_told_its_result(
    one_turn_later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It was told that the client was closed, and logging of an exception: the loop was closed."""
    thread, begun, end = LoopThread("test"), threading.Event(), asyncio.Event()

    async def work() -> str:
        begun.set()
        await end.wait()
        return "done"

    def end_both() -> None:
        end.set()  # it goes on in the next turn, and the loop stops after that, or before
        if one_turn_later:
            thread.loop.stop()
        else:
            thread.loop.call_soon(thread.loop.stop)

    with caplog.at_level(logging.ERROR), concurrent.futures.ThreadPoolExecutor(1) as callers:
        waiting = callers.submit(thread.run, work())
        assert begun.wait(PATIENCE_SECONDS)
        thread.loop.call_soon_threadsafe(end_both)
        assert waiting.result(PATIENCE_SECONDS) == "done"
    assert not caplog.records


def test_what_is_cancelled_before_its_first_step_is_no_coroutine_that_was_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python warned of it: it was never awaited."""
    thread, begun, asked, told = LoopThread("test"), threading.Event(), threading.Event(), asyncio.Event()
    late = never()

    async def holds_the_loop_open() -> None:
        begun.set()
        try:
            await never()
        finally:
            await told.wait()

    def end_when_asked() -> None:
        assert asked.wait(PATIENCE_SECONDS)
        thread.loop.stop()

    with concurrent.futures.ThreadPoolExecutor(1) as callers:
        first = callers.submit(thread.run, holds_the_loop_open())
        assert begun.wait(PATIENCE_SECONDS)
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", submitting_and_saying(asked))
        thread.loop.call_soon_threadsafe(end_when_asked)
        with pytest.raises(ClientClosed):
            thread.run(late)
        state = inspect.getcoroutinestate(late)
        thread.loop.call_soon_threadsafe(told.set)
        with pytest.raises(ClientClosed):
            first.result(PATIENCE_SECONDS)
    assert state == inspect.CORO_CLOSED


def test_a_thread_that_is_stopped_twice_ends_once() -> None:
    """Its loop was never closed: the second time came while the thread waited for the tasks that it had cancelled."""
    thread, begun = LoopThread("test"), threading.Event()

    async def ends_slowly() -> None:
        begun.set()
        try:
            await never()
        finally:
            thread.loop.stop()
            await asyncio.sleep(0)

    with concurrent.futures.ThreadPoolExecutor(1) as callers:
        waiting = callers.submit(thread.run, ends_slowly())
        assert begun.wait(PATIENCE_SECONDS)
        thread.stop()
        with pytest.raises(ClientClosed):
            waiting.result(PATIENCE_SECONDS)
    assert thread.loop.is_closed()


def test_a_call_that_comes_when_the_loop_is_closed_but_nobody_has_seen_it_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was a RuntimeError of asyncio."""
    thread = LoopThread("test")
    submit = asyncio.run_coroutine_threadsafe

    def submit_late(*given: Any) -> Any:
        thread.stop()
        return submit(*given)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", submit_late)
    with pytest.raises(ClientClosed):
        thread.run(never())


def test_who_was_interrupted_is_not_waited_for_by_what_cleans_up_behind_it() -> None:
    """A poll whose listener was interrupted, and that had another to call, never ended; later ones were refused."""
    thread, ended = LoopThread("a loop"), threading.Event()

    def interrupted() -> None:
        raise KeyboardInterrupt

    async def poll() -> None:
        try:
            await on_callers_thread(interrupted)
        finally:
            try:
                await on_callers_thread(lambda: None)
            finally:
                ended.set()

    try:
        with pytest.raises(KeyboardInterrupt):
            thread.run(poll())
        assert ended.wait(PATIENCE_SECONDS)
    finally:
        thread.stop()


def test_a_thread_that_ctrl_c_has_struck_at_its_beginning_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ran for ever, and nobody had it."""

    def struck(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop_thread, "watch", struck)
    with pytest.raises(KeyboardInterrupt):
        LoopThread("struck")
    for thread in [one for one in threading.enumerate() if one.name == "struck"]:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


@pytest.mark.parametrize("struck", ["when it was asked for", "before it was waited for"])
def test_what_was_begun_when_ctrl_c_struck_is_cancelled(struck: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was left behind, and waited for its caller for ever: where that was a poll, whose listener was never called,
    all later ones were told that a listener cannot poll."""
    thread, submit = LoopThread("a loop"), asyncio.run_coroutine_threadsafe

    async def poll() -> None:
        await on_callers_thread(lambda: None)

    def submit_and_be_struck(*given: Any) -> Any:
        submit(*given)
        raise KeyboardInterrupt

    class Struck(set[Any]):
        def add(self, one: Any) -> None:
            raise KeyboardInterrupt

    if struck == "when it was asked for":
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", submit_and_be_struck)
    else:
        monkeypatch.setattr(thread, "_waiting", Struck())
    began = poll()
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.run(began)
        monkeypatch.undo()
        thread.call(lambda: None)
        assert inspect.getcoroutinestate(began) == inspect.CORO_CLOSED
    finally:
        thread.stop()


def test_what_is_asked_of_a_loop_that_is_closed_just_now_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A send that waited for memory while another thread closed the producer raised RuntimeError, not ClientClosed."""
    thread = LoopThread("test")
    thread.stop()
    monkeypatch.setattr(thread.loop, "is_closed", lambda: False)  # as it was when the thread looked
    thread.soon(lambda: pytest.fail("the loop is closed"))
    thread.stop()
