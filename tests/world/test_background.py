"""Work in threads comes back to the loop."""

import asyncio
import threading

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
