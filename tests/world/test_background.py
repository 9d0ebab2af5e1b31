"""Work in threads comes back to the loop."""

import asyncio
import threading

import pytest

from odradek.world.background import InlineBackground, ThreadBackground


def fail() -> int:
    raise OSError("no disk")


def test_results_arrive_on_the_loop() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        background = ThreadBackground(loop, threads=2)
        results: asyncio.Queue[tuple[object, bool]] = asyncio.Queue()

        def done(result: object) -> None:
            results.put_nowait((result, threading.current_thread() is threading.main_thread()))

        background.run(threading.get_ident, done)
        worker, on_loop = await results.get()
        assert worker != threading.get_ident()
        assert on_loop
        background.run(fail, done)
        error, on_loop = await results.get()
        assert isinstance(error, OSError)
        assert on_loop
        background.close()
        background.run(fail, done)
        await asyncio.sleep(0)
        assert results.empty()

    asyncio.run(main())


def test_threads_become_more_and_fewer_while_works_run() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        background = ThreadBackground(loop, threads=1)
        results: asyncio.Queue[object] = asyncio.Queue()
        release, begun = threading.Event(), [threading.Event(), threading.Event()]

        def hold(event: threading.Event) -> str:
            event.set()
            release.wait()
            return "held"

        background.run(lambda: hold(begun[0]), results.put_nowait)
        background.run(lambda: "waits", results.put_nowait)
        background.resize(2)
        background.run(lambda: hold(begun[1]), results.put_nowait)
        background.run(lambda: "new", results.put_nowait)
        assert await results.get() == "new", "there is a thread for it now"
        background.resize(1)
        release.set()
        assert sorted([str(await results.get()) for _ in range(3)]) == ["held", "held", "waits"]
        background.run(lambda: "last", results.put_nowait)
        background.close()
        assert await results.get() == "last"

    asyncio.run(main())


def refuse_to_start(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_where_no_further_thread_can_start_the_others_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was raised, to whoever had asked; the work was done all the same, and nobody heard of it."""

    async def main() -> None:
        background = ThreadBackground(asyncio.get_running_loop(), threads=2)
        results: asyncio.Queue[object] = asyncio.Queue()
        release = threading.Event()
        background.run(release.wait, results.put_nowait)
        monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
        assert background.run(lambda: "behind it", results.put_nowait)
        release.set()
        assert [await results.get(), await results.get()] == [True, "behind it"]
        background.close()

    asyncio.run(main())


def test_a_pool_of_another_size_for_which_no_thread_can_start_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """background.threads was changed on a host that was full: from then on no checkpoint was written, no log flushed,
    and whoever rolled a segment met an error that nobody expects."""

    async def main() -> None:
        background = ThreadBackground(asyncio.get_running_loop(), threads=2)
        results: asyncio.Queue[object] = asyncio.Queue()
        background.run(lambda: "before", results.put_nowait)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse_to_start)
            background.resize(5)
            assert background.run(lambda: "after", results.put_nowait)
        assert sorted([str(await results.get()), str(await results.get())]) == ["after", "before"]
        assert "there stay 2 background threads: can't start new thread" in caplog.text
        background.resize(5)
        background.run(lambda: "later", results.put_nowait)
        assert await results.get() == "later"
        background.close()

    asyncio.run(main())


def test_work_that_no_thread_could_take_is_not_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        background = ThreadBackground(asyncio.get_running_loop())
        results: asyncio.Queue[object] = asyncio.Queue()
        done: list[str] = []
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse_to_start)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                background.run(lambda: done.append("refused"), results.put_nowait)
        background.run(lambda: done.append("taken"), results.put_nowait)
        await results.get()
        background.close()
        assert done == ["taken"]

    asyncio.run(main())


def test_a_bug_reaches_the_loops_handler() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        reported = loop.create_future()
        loop.set_exception_handler(lambda _, context: reported.set_result(context["exception"]))
        background = ThreadBackground(loop)
        background.run(lambda: 1 // 0, lambda result: None)
        assert isinstance(await reported, ZeroDivisionError)
        background.close()

    asyncio.run(main())


def test_inline_does_it_at_once() -> None:
    results: list[object] = []
    InlineBackground().run(lambda: 7, results.append)
    InlineBackground().run(fail, results.append)
    assert results[0] == 7
    assert isinstance(results[1], OSError)
