"""What every Store must do about its session: broken, expired, replaced, closed. As test_store_contract.py."""

import asyncio
from typing import Any

from odradek.zk_schema.store import (
    Connected,
    ConnectionLost,
    Expired,
    NoChildrenForEphemerals,
    SessionExpired,
    Suspended,
    WatchFired,
    WatchKind,
)
from tests.zk_schema.watched import Run, refused, watches


def test_an_ephemeral_znode_goes_with_its_session(run: Run, record: Any) -> None:
    async def scenario(world: Any) -> None:
        owner, other = await world.connect(), await world.connect()
        seen = record(other)
        await owner.create("/e", b"mine", ephemeral=True)
        stat = await other.exists("/e", watch=True)
        assert stat.ephemeral_owner == owner.session_id != other.session_id
        assert isinstance(await refused(owner.create("/e/child")), NoChildrenForEphemerals)
        await owner.close()
        await seen.until(WatchFired(WatchKind.DELETED, "/e"))
        assert isinstance(await refused(owner.get("/e")), ConnectionLost)

    run(scenario)


def test_a_broken_connection_keeps_session_and_watches(run: Run, record: Any) -> None:
    async def scenario(world: Any) -> None:
        store, other = await world.connect(), await world.connect()
        seen = record(store)
        session_id = store.session_id
        await other.create("/w/kept", parents=True)
        await store.create("/w/mine", ephemeral=True)
        await store.get("/w/kept", watch=True)
        await store.exists("/w/later", watch=True)
        await store.children("/w", watch=True)
        await store.get("/w/mine", watch=True)
        world.cut(store)
        await seen.until(Suspended)
        assert not store.connected
        assert isinstance(await refused(store.get("/w")), ConnectionLost)
        await other.set("/w/kept", b"1")
        await other.create("/w/later")
        world.mend(store)
        await seen.until(Suspended, Connected(session_id))
        assert store.connected
        await store.get("/w")
        assert seen.events[:2] == [Suspended(), Connected(session_id)]
        assert set(seen.events[2:]) == {
            WatchFired(WatchKind.CHANGED, "/w/kept"),
            WatchFired(WatchKind.CREATED, "/w/later"),
            WatchFired(WatchKind.CHILDREN, "/w"),
        }
        assert len(seen.events) == 5
        await other.delete("/w/mine")
        await seen.until(WatchFired(WatchKind.DELETED, "/w/mine"))

    run(scenario)


def test_an_expired_session_is_replaced(run: Run, record: Any) -> None:
    async def scenario(world: Any) -> None:
        store, other = await world.connect(), await world.connect()
        seen, seen_by_other = record(store), record(other)
        old = store.session_id
        await store.create("/e", ephemeral=True)
        await store.exists("/forgotten", watch=True)
        await other.exists("/e", watch=True)
        await world.expire(store)
        await seen_by_other.until(WatchFired(WatchKind.DELETED, "/e"))
        await seen.until(Suspended, Expired, Connected)
        assert [type(event) for event in seen.events] == [Suspended, Expired, Connected]
        assert seen.events[2] == Connected(store.session_id)
        assert store.session_id != old
        await other.create("/forgotten")
        assert await store.exists("/forgotten")
        assert watches(seen.events) == []
        await store.create("/e", ephemeral=True)
        assert (await other.exists("/e")).ephemeral_owner == store.session_id

    run(scenario)


def test_away_for_the_whole_session_is_expired(run: Run, record: Any) -> None:
    async def scenario(world: Any) -> None:
        store, other = await world.connect(to_expire=True), await world.connect()
        seen, seen_by_other = record(store), record(other)
        old = store.session_id
        await store.create("/e", ephemeral=True)
        await other.exists("/e", watch=True)
        world.cut(store)
        await seen.until(Suspended, Expired)
        assert store.session_id == 0
        assert isinstance(await refused(store.get("/e")), SessionExpired)
        await seen_by_other.until(WatchFired(WatchKind.DELETED, "/e"))
        world.mend(store)
        await seen.until(Suspended, Expired, Connected)
        assert store.session_id not in (0, old)

    run(scenario)


def test_who_waits_for_a_connection_in_one_session_hears_when_that_ends(run: Run, record: Any) -> None:
    """It was told with the next connection, which may be a day away: a request waited that another broker can do."""

    async def scenario(world: Any) -> None:
        store = await world.connect(to_expire=True)
        seen = record(store)
        old = store.session_id
        assert await store.until_connected(old) == old
        world.cut(store)
        await seen.until(Suspended)
        in_any, in_this = (asyncio.ensure_future(store.until_connected(one)) for one in (None, old))
        assert isinstance(await refused(in_this), SessionExpired)
        assert not store.connected and not in_any.done()
        assert isinstance(await refused(store.until_connected(old)), SessionExpired)
        world.mend(store)
        assert await in_any == store.session_id != old
        assert isinstance(await refused(store.until_connected(old)), SessionExpired)
        await store.close()
        assert isinstance(await refused(store.until_connected(old)), ConnectionLost)

    run(scenario)


def test_a_connection_that_comes_back_in_time_is_told_to_all_who_wait(run: Run, record: Any) -> None:
    async def scenario(world: Any) -> None:
        store = await world.connect()
        seen = record(store)
        session_id = store.session_id
        world.cut(store)
        await seen.until(Suspended)
        waiting = [asyncio.ensure_future(store.until_connected(one)) for one in (None, session_id)]
        world.mend(store)
        assert await asyncio.gather(*waiting) == [session_id, session_id]

    run(scenario)


def test_after_expired_the_old_session_is_gone_even_if_zookeeper_kept_it(run: Run, record: Any) -> None:
    async def scenario(world: Any) -> None:
        store = await world.connect(to_expire=True)
        seen = record(store)
        old = store.session_id
        await store.create("/e", ephemeral=True)
        world.pause()
        await seen.until(Suspended, Expired)
        assert isinstance(await refused(store.get("/e")), SessionExpired)
        world.resume()
        await seen.until(Suspended, Expired, Connected)
        assert [type(event) for event in seen.events] == [Suspended, Expired, Connected]
        assert store.session_id not in (0, old)
        assert await store.exists("/e") is None

    run(scenario)


def test_no_event_follows_a_close(run: Run, record: Any) -> None:
    async def scenario(world: Any) -> None:
        store, other = await world.connect(), await world.connect()
        seen = record(store)
        await store.exists("/x", watch=True)
        await store.close()
        await store.close()
        await other.create("/x")
        await other.exists("/x")
        assert seen.events == []

    run(scenario)
