"""A server of ZooKeeper that takes connections and closes them, as one without a quorum does, has said nothing."""

import asyncio
import struct

import pytest

from odradek.testing.patience import PATIENCE_SECONDS
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.kazoo_store.client import RECONNECT
from odradek.zk_schema.store import Connected, Expired, StoreEvent, Suspended

SESSION_ID, SESSION_MS = 7, 600
EAGER = {"max_delay": 0.03, "max_jitter": 0.0}
"""Connections are tried for many times while the session lasts, as in one of the usual length."""


class LosesItsQuorum:
    """Grants one session, and closes the connection when it is told to, and all that follow."""

    def __init__(self) -> None:
        self.has_quorum = True
        self.closed = 0
        self._granted: asyncio.StreamWriter

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.has_quorum:
            self.closed += 1
            writer.close()
            return
        size = int.from_bytes(await reader.readexactly(4))
        await reader.readexactly(size)
        answer = struct.pack(">iiqi16s?", 0, SESSION_MS, SESSION_ID, 16, b"secret", False)
        writer.write(len(answer).to_bytes(4) + answer)
        self._granted = writer

    def lose(self) -> None:
        self.has_quorum = False
        self._granted.close()


def test_a_session_ends_by_our_own_clock_while_servers_close_every_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its end was never noticed: the broker led on beside the leaders that the other side of the net had elected, and
    acknowledged records that were lost."""

    for name, value in EAGER.items():
        monkeypatch.setitem(RECONNECT, name, value)

    async def scenario() -> None:
        zookeeper = LosesItsQuorum()
        server = await asyncio.start_server(zookeeper.take, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        store = KazooStore(f"{host}:{port}", LoopClock(asyncio.get_running_loop()), session_timeout_ms=SESSION_MS)
        seen: list[StoreEvent] = []
        expired = asyncio.Event()

        def note(event: StoreEvent) -> None:
            seen.append(event)
            if isinstance(event, Connected):
                zookeeper.lose()
            elif isinstance(event, Expired):
                expired.set()

        store.subscribe(note)
        await store.start(PATIENCE_SECONDS * 1000)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await expired.wait()
        assert [type(event) for event in seen] == [Connected, Suspended, Expired]
        assert zookeeper.closed > 0 and store.session_id == 0
        await store.close()
        server.close()

    asyncio.run(scenario())
