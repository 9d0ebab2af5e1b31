"""The faults of the in-memory ZooKeeper that a real one has no switch for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.store import Connected, ConnectionLost, Expired, NoNode, Suspended, WatchFired, WatchKind

SESSION_TIMEOUT_MS = 40


def play(record: Any, scenario: Callable[[MemoryZooKeeper, Any, Any, Any], Awaitable[None]]) -> None:
    async def run(clock: VirtualClock) -> None:
        server = MemoryZooKeeper(clock, session_timeout_ms=SESSION_TIMEOUT_MS)
        one, two = server.connect(), server.connect()
        await one.start(1000)
        await two.start(1000)
        async with asyncio.timeout(10):
            await scenario(server, one, two, record(one))

    run_virtual(run)


def test_a_cut_that_heals_unnoticed_loses_nothing(record: Any) -> None:
    async def scenario(server: MemoryZooKeeper, one: Any, two: Any, seen: Any) -> None:
        await two.create("/x")
        await one.get("/x", watch=True)
        server.partition(one, unnoticed_ms=20)
        writing = asyncio.ensure_future(one.create("/y"))
        await two.set("/x", b"1")
        assert not writing.done()
        server.heal(one)
        assert await writing == "/y"
        await one.exists("/x")
        assert seen.events == [WatchFired(WatchKind.CHANGED, "/x")]

    play(record, scenario)


def test_a_leader_that_does_not_notice_is_expired_before_it_knows(record: Any) -> None:
    async def scenario(server: MemoryZooKeeper, one: Any, two: Any, seen: Any) -> None:
        await one.create("/controller", ephemeral=True)
        await two.exists("/controller", watch=True)
        gone = asyncio.Event()
        two.subscribe(lambda event: gone.set() if isinstance(event, WatchFired) else None)
        server.partition(one, unnoticed_ms=3 * SESSION_TIMEOUT_MS)
        await gone.wait()
        assert one.connected
        assert seen.events == []
        await two.create("/controller", ephemeral=True)
        await seen.until(Suspended)
        server.heal(one)
        await seen.until(Suspended, Expired, Connected)

    play(record, scenario)


@pytest.mark.parametrize("unnoticed_ms", [0, 30])
def test_a_session_counts_as_gone_when_the_server_was_heard_too_long_ago(record: Any, unnoticed_ms: int) -> None:
    """As in `kazoo_store`: not when the time has passed that begins when the silence is noticed."""

    async def scenario(server: MemoryZooKeeper, one: Any, two: Any, seen: Any) -> None:
        cut_ms = server.clock.monotonic_ms()
        server.partition(one, unnoticed_ms=unnoticed_ms)
        await seen.until(Suspended, Expired)
        assert server.clock.monotonic_ms() - cut_ms == SESSION_TIMEOUT_MS

    play(record, scenario)


def test_the_time_that_a_client_stood_still_counts_when_the_server_has_gone_meanwhile(record: Any) -> None:
    """As in `kazoo_store`. A broker whose session was over long since went on as a coordinator, from the moment when it
    was resumed, for as long as a session lasts: it counted from the end of the server."""

    async def scenario(server: MemoryZooKeeper, one: Any, two: Any, seen: Any) -> None:
        stood_ms = server.clock.monotonic_ms()
        server.suspend(one)
        await asyncio.sleep(0.030)
        server.stop()
        server.resume(one)
        await seen.until(Suspended, Expired)
        assert server.clock.monotonic_ms() - stood_ms == SESSION_TIMEOUT_MS

    play(record, scenario)


def test_calls_under_way_fail_when_the_connection_breaks(record: Any) -> None:
    async def scenario(server: MemoryZooKeeper, one: Any, two: Any, seen: Any) -> None:
        call = asyncio.ensure_future(one.create("/x"))
        server.partition(one, unnoticed_ms=5)
        with pytest.raises(ConnectionLost):
            await call
        assert seen.events == [Suspended()]
        with pytest.raises(NoNode):
            await two.get("/x")

    play(record, scenario)


def test_an_answer_can_get_lost_though_the_write_was_done(record: Any) -> None:
    async def scenario(server: MemoryZooKeeper, one: Any, two: Any, seen: Any) -> None:
        one.lose_next_answer()
        with pytest.raises(ConnectionLost):
            await one.create("/x", b"done")
        await seen.until(Suspended, Connected(one.session_id))
        assert (await one.get("/x"))[0] == b"done"

    play(record, scenario)


def test_a_crashed_client_is_silent_and_its_session_ends(record: Any) -> None:
    async def scenario(server: MemoryZooKeeper, one: Any, two: Any, seen: Any) -> None:
        await one.create("/x", ephemeral=True)
        await two.exists("/x", watch=True)
        gone = asyncio.Event()
        two.subscribe(lambda event: gone.set())
        server.crash(one)
        assert "/x" in server.paths()
        await gone.wait()
        assert server.paths() == ["/"]
        assert seen.events == []

    play(record, scenario)


def test_no_session_ends_while_the_server_is_away(record: Any) -> None:
    async def scenario(server: MemoryZooKeeper, one: Any, two: Any, seen: Any) -> None:
        await one.create("/x", ephemeral=True)
        session_id = one.session_id
        server.stop()
        await seen.until(Suspended, Expired)
        assert server.has_session(session_id)
        server.restart()
        await seen.until(Suspended, Expired, Connected)
        assert not server.has_session(session_id)

    play(record, scenario)
