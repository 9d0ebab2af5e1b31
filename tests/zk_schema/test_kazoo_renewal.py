"""A session that is gone is replaced, even if kazoo cannot close the old one at the first attempt; and it is gone
before the next is announced, even if ZooKeeper has not read the request to close it."""

import asyncio
import errno
import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.protocol.states import KeeperState

from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.kazoo_store.handler import LoopHandler, LoopQueue
from odradek.zk_schema.link import Link
from odradek.zk_schema.store import Connected, Expired, StoreEvent

NEVER_MS = 3_600_000


class StuckClient:
    """kazoo's client while its thread hangs in a connection: the first `stop` fails."""

    def __init__(self, started: asyncio.Event) -> None:
        self._loop, self._started = asyncio.get_running_loop(), started
        self.stops = 0
        self._session_id, self._session_passwd = 0, b""

    def stop(self) -> None:
        self._session_id, self._session_passwd = 0, b""
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
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        assert client.stops == 2
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("interrupts", [1, 2])
def test_whoever_gives_up_waiting_for_zookeeper_leaves_nobody_behind_who_tries_on(interrupts: int) -> None:
    """Interrupted (twice: the loop's end cancels what still runs), it left a thread, which made a session later on."""
    before = set(threading.enumerate())

    async def scenario() -> None:
        store = KazooStore("127.0.0.1:1", LoopClock(asyncio.get_running_loop()))
        starting = asyncio.ensure_future(store.start(NEVER_MS))
        await asyncio.sleep(0)
        assert set(threading.enumerate()) - before
        for _ in range(interrupts):
            starting.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.wait([starting])
        assert starting.cancelled()

    asyncio.run(scenario())
    wait_until(lambda: not set(threading.enumerate()) - before, "the end of kazoo's thread")


@pytest.mark.parametrize(
    "trouble", [OSError(errno.EMFILE, "Too many open files"), RuntimeError("what nobody has foreseen")]
)
def test_zookeeper_is_tried_again_whatever_keeps_an_attempt_from_being_made(
    trouble: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where clients hold every descriptor a name has no address, by an error that ends kazoo's thread: a broker that
    had lost its connection just then was never seen in ZooKeeper again."""
    lookups: list[str] = []

    def look_up(host: str, *arguments: object) -> list[Any]:
        lookups.append(host)
        if len(lookups) < 3:
            raise trouble
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 2181))]

    async def scenario() -> None:
        loop, tried = asyncio.get_running_loop(), asyncio.Event()

        def connect(*arguments: object, **others: object) -> None:
            loop.call_soon_threadsafe(tried.set)
            raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody is there")

        monkeypatch.setattr(LoopHandler, "create_connection", connect)
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        store = KazooStore("zookeeper:2181", LoopClock(loop))
        starting = asyncio.ensure_future(store.start(NEVER_MS))
        await asyncio.wait_for(tried.wait(), PATIENCE_SECONDS)
        starting.cancel()
        await asyncio.wait([starting])

    asyncio.run(scenario())
    assert lookups[:3] == ["zookeeper"] * 3
    assert caplog.text.count(f"ZooKeeper at zookeeper:2181 cannot be reached, it is tried again: {trouble}") == 1


def test_a_session_is_closed_where_no_thread_can_be_started_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker told to stop ended with a stack instead, and ZooKeeper kept it registered until the session expired."""

    def refuse_to_start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario() -> None:
        store = KazooStore("127.0.0.1:1", LoopClock(asyncio.get_running_loop()))
        client = store._client = StuckClient(asyncio.Event())
        client.stops = 1
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", refuse_to_start)
            await store.close()
        assert client.stops == 2

    asyncio.run(scenario())


class ForgetfulClient:
    """kazoo's client that stops without an answer, forgets its session, and connects again with what it has then."""

    def __init__(self, server: "SlowZooKeeper") -> None:
        self._server = server
        self._session_id, self._session_passwd = 7, b"secret"
        self.last_zxid = 0

    def stop(self) -> None:
        self._session_id, self._session_passwd = 0, b""

    def start_async(self) -> None:
        self._server.connect(self)

    def close(self) -> None:
        pass


class SlowZooKeeper:
    """Still knows session 7 when it is asked for it the first time."""

    def __init__(self, store: KazooStore) -> None:
        self._store, self._loop = store, asyncio.get_running_loop()
        self.asked: list[tuple[int, bytes]] = []

    def connect(self, client: ForgetfulClient) -> None:
        asked = (client._session_id, client._session_passwd)
        self.asked.append(asked)
        client._session_id = 7 if asked == (7, b"secret") and len(self.asked) == 1 else 8
        self._loop.call_soon_threadsafe(self._store._on_state, KeeperState.CONNECTED, client._session_id)


def test_a_session_that_zookeeper_still_knows_is_closed_before_another_is_announced() -> None:
    async def scenario() -> None:
        store = KazooStore("127.0.0.1:1", LoopClock(asyncio.get_running_loop()))
        store._loop, store._started = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        zookeeper = SlowZooKeeper(store)
        store._client = ForgetfulClient(zookeeper)
        store._handler = LoopHandler(LoopQueue(store._loop), connect_seconds=lambda: 1.0)
        store._on_state(KeeperState.CONNECTED, 7)
        announced: list[StoreEvent] = []
        connected = asyncio.Event()
        store.subscribe(announced.append)
        store.subscribe(lambda _: connected.set())
        store._expire()
        store._renew()
        while Connected(8) not in announced:
            await asyncio.wait_for(connected.wait(), PATIENCE_SECONDS)
            connected.clear()
        assert zookeeper.asked == [(7, b"secret"), (7, b"secret")]
        assert announced == [Connected(7), Expired(), Connected(8)]
        await store.close()

    asyncio.run(scenario())


class LoggedInClient:
    """kazoo's client that is connected, and has sent its first request."""

    connected = True
    _session_passwd = b""
    last_zxid = 0

    def __init__(self) -> None:
        self.first_answers: list[Callable[[Any], object]] = []

    def exists_async(self, path: str) -> Any:
        return SimpleNamespace(rawlink=self.first_answers.append)

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_an_answer_that_comes_after_the_end_of_its_session_announces_nothing() -> None:
    """The process was stopped, say, while the answer to the first request after a login was on its way."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        store = KazooStore("127.0.0.1:1", LoopClock(loop), link=Link(user="broker", password="secret"))
        store._loop, store._started = loop, loop.create_future()
        client = store._client = LoggedInClient()
        store._handler = LoopHandler(LoopQueue(loop), connect_seconds=lambda: 1.0)
        answer = SimpleNamespace(exception=None)
        store._on_state(KeeperState.CONNECTED, 7)
        client.first_answers.pop()(answer)
        assert store.connected
        store._on_state(KeeperState.CONNECTING, 7)
        store._on_state(KeeperState.CONNECTED, 7)
        store._expire()
        client.first_answers.pop()(answer)
        assert not store.connected and store.session_id == 0
        await store.close()

    asyncio.run(scenario())
