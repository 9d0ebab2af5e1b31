"""Watches among the events of a store."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.zk_schema.store import (
    StoreError,
    WatchFired,
)

Run = Callable[[Callable[[Any], Awaitable[None]]], None]


async def refused(call: Awaitable[object]) -> StoreError:
    """The error that a call raises."""
    with pytest.raises(StoreError) as caught:
        await call
    return caught.value


def watches(events: list[object]) -> list[object]:
    return [event for event in events if isinstance(event, WatchFired)]
