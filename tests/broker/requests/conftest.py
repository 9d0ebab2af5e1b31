"""A machine so slow that whatever is served in slices of time comes to the end of one after each step."""

import asyncio

import pytest

from odradek.world.time_slices import TimeSlice


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice is over after a step, and others have a millisecond then."""

    async def pause(turn: TimeSlice) -> bool:
        await asyncio.sleep(0.001)
        return True

    monkeypatch.setattr(TimeSlice, "is_over", True)
    monkeypatch.setattr(TimeSlice, "pause_if_over", pause)
