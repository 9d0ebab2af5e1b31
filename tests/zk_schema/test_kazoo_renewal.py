"""A session that is gone is replaced, even if kazoo cannot close the old one at the first attempt."""

import asyncio

from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore


class StuckClient:
    """kazoo's client while its thread hangs in a connection: the first `stop` fails."""

    def __init__(self, started: asyncio.Event) -> None:
        self._loop, self._started = asyncio.get_running_loop(), started
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1
        if self.stops == 1:
            raise RuntimeError("Writer still open from prior connection")

    def start_async(self) -> None:
        self._loop.call_soon_threadsafe(self._started.set)

    def close(self) -> None:
        pass


def test_a_session_is_renewed_though_the_first_attempt_fails() -> None:
    async def scenario() -> None:
        store = KazooStore("127.0.0.1:1", LoopClock(asyncio.get_running_loop()))
        started = asyncio.Event()
        client = store._client = StuckClient(started)
        store._renew()
        await asyncio.wait_for(started.wait(), 20)
        assert client.stops == 2
        await store.close()

    asyncio.run(scenario())
