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

    run_in_slices(clock, steps(), lambda: True)
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
