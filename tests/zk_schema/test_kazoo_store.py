"""What only the real store can show."""

import asyncio
import errno
import os
import socket
from contextlib import ExitStack
from typing import Any

import pytest
from kazoo.client import KazooClient

from odradek.local.ports import free_ports
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore, session
from odradek.zk_schema.kazoo_store.handler import LoopHandler, LoopQueue
from odradek.zk_schema.store import Connected, ConnectionLost, NoNode, Suspended, WatchFired, WatchKind

pytestmark = pytest.mark.zookeeper

START_MS = PATIENCE_SECONDS * 1000


def store_at(connect: str, *, session_timeout_ms: int = 10_000, make_chroot: bool = True) -> KazooStore:
    clock = LoopClock(asyncio.get_running_loop())
    return KazooStore(connect, clock, session_timeout_ms=session_timeout_ms, make_chroot=make_chroot)


def test_nobody_there() -> None:
    async def scenario() -> None:
        store = store_at(f"127.0.0.1:{free_ports(1)[0]}")
        with pytest.raises(ConnectionLost):
            await store.start(200)
        with pytest.raises(ConnectionLost):
            await store.until_connected()

    asyncio.run(scenario())


def test_a_request_for_which_kazoos_thread_could_not_be_woken_is_lost_and_the_next_are_not(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    """Without room for the byte that wakes it (ENOBUFS) kazoo says that the connection is lost, and keeps it: a broker
    waited for ever for word of another one, and answered nobody who needs ZooKeeper."""

    async def scenario() -> None:
        store = store_at(zookeeper.connect)
        await store.start(START_MS)
        session = store.session_id
        sleeper, wakes = store._client._connection._write_sock, list[bytes]()

        class NoRoomOnce:
            def send(self, data: bytes) -> int:
                wakes.append(data)
                if len(wakes) == 1:
                    raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
                sent: int = sleeper.send(data)
                return sent

            close = sleeper.close

        store._client._connection._write_sock = NoRoomOnce()
        with pytest.raises(ConnectionLost):
            await store.exists("/zookeeper")
        assert await asyncio.wait_for(store.until_connected(), PATIENCE_SECONDS) == session
        assert await asyncio.wait_for(store.exists("/zookeeper"), PATIENCE_SECONDS) is not None
        await store.close()

    asyncio.run(scenario())


def test_no_more_requests_at_once_than_allowed(zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        store = KazooStore(zookeeper.connect, LoopClock(asyncio.get_running_loop()), requests_at_once=3)
        await store.start(START_MS)
        under_way = most = 0
        answered = KazooStore._answered

        def counted(self: KazooStore, *arguments: Any) -> None:
            nonlocal under_way
            under_way -= 1
            answered(self, *arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KazooStore, "_answered", counted)
            client, exists = store._client, store._client.exists_async

            def asked(*arguments: Any, **others: Any) -> Any:
                nonlocal under_way, most
                under_way += 1
                most = max(most, under_way)
                return exists(*arguments, **others)

            patch.setattr(client, "exists_async", asked)
            found = await asyncio.gather(*(store.exists("/zookeeper") for _ in range(20)))
        assert None not in found
        assert most == 3
        await store.close()

    asyncio.run(scenario())


def test_a_chroot_is_made_and_does_not_show(zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        plain, inside = store_at(zookeeper.connect), store_at(f"{zookeeper.connect}/deep/down")
        events: list[object] = []
        inside.subscribe(events.append)
        await plain.start(START_MS)
        await inside.start(START_MS)
        assert await inside.children("/") == []
        assert await inside.create("/a/n-", sequential=True, parents=True) == "/a/n-0000000000"
        assert await plain.children("/deep/down/a") == ["n-0000000000"]
        with pytest.raises(NoNode) as caught:
            await inside.create("/missing/x")
        assert caught.value.path == "/missing"
        await inside.children("/a", watch=True)
        await inside.children("/", watch=True)
        await plain.delete("/deep/down/a/n-0000000000")
        await plain.create("/deep/down/b")
        await inside.exists("/")
        assert events == [
            Connected(inside.session_id),
            WatchFired(WatchKind.CHILDREN, "/a"),
            WatchFired(WatchKind.CHILDREN, "/"),
        ]
        await plain.close()
        await inside.close()

    asyncio.run(scenario())


def test_a_znode_without_content_has_null_as_kafkas_have(zookeeper: EmbeddedZooKeeper) -> None:
    """As the controller Kafka gives out no producer ids where /latest_producer_id_block has no bytes, and not null."""

    async def scenario() -> None:
        store = store_at(zookeeper.connect)
        await store.start(START_MS)
        await store.create("/without-content")
        await store.create("/under/without-content", parents=True)
        assert (await store.get("/without-content"))[0] == b""
        await store.close()

    asyncio.run(scenario())
    client = KazooClient(zookeeper.connect)
    client.start()
    assert [client.get(path)[0] for path in ("/without-content", "/under", "/under/without-content")] == [None] * 3
    client.stop()
    client.close()


def test_a_chroot_that_is_not_to_be_made(zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        store = store_at(f"{zookeeper.connect}/never", make_chroot=False)
        await store.start(START_MS)
        with pytest.raises(NoNode):
            await store.children("/")
        await store.close()

    asyncio.run(scenario())


def test_the_timeout_is_the_one_that_zookeeper_grants(zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        store = store_at(zookeeper.connect, session_timeout_ms=60_000)
        assert store.session_timeout_ms == 60_000
        await store.start(START_MS)
        assert store.session_timeout_ms == 10_000
        await store.close()

    asyncio.run(scenario())


def test_zookeeper_away_is_said_once(zookeeper: EmbeddedZooKeeper, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = store_at(zookeeper.connect)
        await store.start(START_MS)
        back = asyncio.Event()
        store.subscribe(lambda event: back.set() if isinstance(event, Connected) else None)
        store._client._connection._socket.shutdown(2)
        await back.wait()
        await store.close()

    caplog.set_level("WARNING")
    asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == [f"ZooKeeper at {zookeeper.connect} is unreachable"]


def test_a_server_that_takes_a_connection_and_never_answers_does_not_cost_the_session(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    """ZooKeeper 3.9 does so to a client that comes while it starts."""

    async def scenario() -> None:
        store = store_at(zookeeper.connect)
        await store.start(START_MS)
        session_id, back = store.session_id, asyncio.Event()
        events: list[object] = []
        store.subscribe(events.append)
        store.subscribe(lambda event: back.set() if isinstance(event, Connected) else None)
        ours, theirs = socket.socketpair()

        def mute(*_: Any, **__: Any) -> socket.socket:
            del store._handler.create_connection
            return ours

        store._handler.create_connection = mute
        store._client._connection._socket.shutdown(socket.SHUT_RDWR)
        await back.wait()
        assert events == [Suspended(), Connected(session_id)]
        await store.close()
        theirs.close()

    asyncio.run(scenario())


def test_a_zookeeper_that_refuses_the_session_for_ever_is_said_to(
    zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closes the connection without an answer, as when its data was wiped: brokers stayed out without a word."""

    async def scenario() -> None:
        store = store_at(zookeeper.connect, session_timeout_ms=1_000)
        await store.start(START_MS)
        said: asyncio.Queue[str] = asyncio.Queue()
        monkeypatch.setattr(session.log, "error", lambda text, *given: said.put_nowait(text % given))

        ends: list[socket.socket] = []

        def closed(*_: Any, **__: Any) -> socket.socket:
            ours, theirs = socket.socketpair()
            theirs.shutdown(socket.SHUT_WR)
            ends.append(theirs)
            return ours

        store._handler.create_connection = closed
        store._client._connection._socket.shutdown(socket.SHUT_RDWR)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert f"ZooKeeper at {zookeeper.connect} closes every connection" in await said.get()
        del store._handler.create_connection
        await store.until_connected()
        await store.close()
        for end in ends:
            end.close()
        assert said.empty(), "once"

    asyncio.run(scenario())


def test_a_server_that_does_not_take_a_connection_has_a_share_of_the_session() -> None:
    """Its machine is gone, and nothing refuses: here, a queue of connections that is full."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        with asyncio.Runner() as runner:
            handler = LoopHandler(LoopQueue(runner.get_loop()), connect_seconds=lambda: 0.05)
            with pytest.raises(TimeoutError):
                handler.create_connection(full.getsockname(), timeout=PATIENCE_SECONDS)
