"""Long work lets others run."""

import asyncio
from collections.abc import Iterator

from odradek.testing.virtual_clock import ManualClock, VirtualClock, run_virtual
from odradek.world.time_slices import SLICE_MS, TimeSlice, run_in_slices


def test_work_is_cut_where_a_slice_is_over() -> None:
    clock = ManualClock()
    done: list[int] = []

    def steps() -> Iterator[None]:
        for step in range(5):
            clock.stall(SLICE_MS / 2)
            done.append(step)
            yield

    run_in_slices(clock, steps())
    assert done == [], "not before what runs now has returned"
    clock.call_soon(lambda: done.append(-1))
    clock.advance(10 * SLICE_MS)
    assert done == [0, 1, -1, 2, 3, 4]


def test_what_is_not_wanted_any_more_is_dropped() -> None:
    clock = ManualClock()
    done: list[int] = []

    def steps() -> Iterator[None]:
        for step in range(4):
            clock.stall(SLICE_MS)
            done.append(step)
            yield

    run_in_slices(clock, steps(), lambda: len(done) < 2)
    clock.advance(10 * SLICE_MS)
    assert done == [0, 1]


def test_a_pause_is_made_only_when_the_slice_is_over() -> None:
    async def main(clock: VirtualClock) -> None:
        others: list[str] = []
        turn = TimeSlice(clock)
        asyncio.get_running_loop().call_soon(others.append, "ran")
        assert not await turn.pause_if_over() and others == []
        passed = asyncio.Event()
        clock.call_later(SLICE_MS, passed.set)
        await passed.wait()
        asyncio.get_running_loop().call_soon(others.append, "ran again")
        assert await turn.pause_if_over() and others == ["ran", "ran again"]
        assert not turn.is_over

    run_virtual(main)


def test_works_that_wait_together_share_a_slice() -> None:
    clock = ManualClock()
    turns: list[str] = []

    def steps(name: str) -> Iterator[None]:
        for _ in range(12):
            clock.stall(SLICE_MS / 4)
            turns.append(name)
            yield

    for name in ("a", "b"):
        run_in_slices(clock, steps(name))
    clock.advance(10 * SLICE_MS)
    assert "".join(turns) == "aaaa" + 4 * "bbaa" + "bbbb", "the first was alone when it began, the last at its end"


def test_a_work_that_was_cancelled_while_it_waited_takes_no_share() -> None:
    async def main(clock: VirtualClock) -> None:
        async def work() -> None:
            turn = TimeSlice(clock)
            clock._virtual_loop.now_s += SLICE_MS / 1000.0
            await turn.pause_if_over()

        waiting = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        shared = TimeSlice(clock)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        alone = TimeSlice(clock)
        clock._virtual_loop.now_s += SLICE_MS / 2000.0
        assert shared.is_over and not alone.is_over

    run_virtual(main)
