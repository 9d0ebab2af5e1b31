"""The two ZooKeepers that the contract suite runs against, each with the faults that a test may ask for."""

import asyncio
import itertools
import os
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from odradek.local.ports import free_ports
from odradek.local.zookeeper import CLOSE_SESSION, EmbeddedZooKeeper
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.store import Store, StoreEvent

START_MS = PATIENCE_SECONDS * 1000


class World(Protocol):
    """Clients of one server."""

    async def connect(self, *, to_expire: bool = False) -> Store:
        """`to_expire`: with a short session, which the test will wait for the end of."""

    def cut(self, store: Store) -> None: ...
    def mend(self, store: Store) -> None: ...
    async def expire(self, store: Store) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    async def close(self) -> None: ...


class MemoryWorld:
    def __init__(self, clock: VirtualClock) -> None:
        self._server = MemoryZooKeeper(clock, session_timeout_ms=100)
        self._stores: list[MemoryStore] = []

    async def connect(self, *, to_expire: bool = False) -> Store:
        store = self._server.connect()
        self._stores.append(store)
        await store.start(START_MS)
        return store

    def cut(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        self._server.partition(store)

    def mend(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        self._server.heal(store)

    async def expire(self, store: Store) -> None:
        self._server.expire_session(store.session_id)

    def pause(self) -> None:
        self._server.stop()

    def resume(self) -> None:
        self._server.restart()

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


class RealWorld:
    """Each test has a chroot of its own on one server."""

    SESSION_TIMEOUT_MS, SHORT_SESSION_TIMEOUT_MS = 10_000, 4_000
    """The longest that it grants, which no busy machine uses up; and one that can be waited for."""

    def __init__(self, server: EmbeddedZooKeeper, chroot: str) -> None:
        self._server = server
        self._chroot = chroot
        self._stores: list[KazooStore] = []

    async def connect(self, *, to_expire: bool = False) -> Store:
        clock = LoopClock(asyncio.get_running_loop())
        connect = self._server.connect + self._chroot
        timeout_ms = self.SHORT_SESSION_TIMEOUT_MS if to_expire else self.SESSION_TIMEOUT_MS
        store = KazooStore(connect, clock, session_timeout_ms=timeout_ms)
        self._stores.append(store)
        await store.start(START_MS)
        return store

    def cut(self, store: Store) -> None:
        def refuse(*_: Any, **__: Any) -> socket.socket:
            raise OSError("cut off by the test")

        assert isinstance(store, KazooStore)
        store._handler.create_connection = refuse
        store._client._connection._socket.shutdown(socket.SHUT_RDWR)

    def mend(self, store: Store) -> None:
        assert isinstance(store, KazooStore)
        del store._handler.create_connection

    async def expire(self, store: Store) -> None:
        """Another connection with the same session id and password closes the session."""
        assert isinstance(store, KazooStore)
        session_id, password = store._client.client_id
        reader, writer = await asyncio.open_connection(self._server.host, self._server.port)
        hello = struct.pack(">iqiqi16s?", 0, 0, self.SESSION_TIMEOUT_MS, session_id, 16, password, False)
        writer.write(struct.pack(">i", len(hello)) + hello)
        await reader.readexactly(4)
        writer.write(struct.pack(">iii", 8, 1, CLOSE_SESSION))
        await reader.read()
        writer.close()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._server.child is not None
        os.kill(self._server.child.pid, number)

    async def close(self) -> None:
        self.resume()
        for store in self._stores:
            await store.close()


class Recorder:
    """The events of one store, and waiting for them."""

    def __init__(self, store: Store) -> None:
        self.events: list[StoreEvent] = []
        self._changed = asyncio.Event()
        store.subscribe(self._note)

    def _note(self, event: StoreEvent) -> None:
        self.events.append(event)
        self._changed.set()

    async def until(self, *wanted: StoreEvent | type[StoreEvent]) -> None:
        """Return when these have come, in this order; others may come between."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self._has(wanted):
                self._changed.clear()
                await self._changed.wait()

    def _has(self, wanted: tuple[StoreEvent | type[StoreEvent], ...]) -> bool:
        remaining = iter(self.events)
        return all(
            any(isinstance(event, want) if isinstance(want, type) else event == want for event in remaining)
            for want in wanted
        )


@pytest.fixture(scope="package")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """One real server for the whole run."""
    directory: Path = tmp_path_factory.mktemp("zookeeper")
    server = EmbeddedZooKeeper(directory, free_ports(1)[0])
    with asyncio.Runner() as runner:
        runner.run(server.start())
        yield server
        runner.run(server.stop())


_chroots = itertools.count()


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    """Runs a scenario, a coroutine function of a World, against one of the two."""
    server = request.getfixturevalue("zookeeper") if request.param == "zookeeper" else None

    async def play(scenario: Callable[[World], Awaitable[None]], world: World) -> None:
        try:
            async with asyncio.timeout(2 * PATIENCE_SECONDS):
                await scenario(world)
        finally:
            await world.close()

    if server is None:
        return lambda scenario: run_virtual(lambda clock: play(scenario, MemoryWorld(clock)))
    return lambda scenario: asyncio.run(play(scenario, RealWorld(server, f"/tests/{next(_chroots)}")))


@pytest.fixture
def record() -> type[Recorder]:
    """`record(store)` notes its events."""
    return Recorder
