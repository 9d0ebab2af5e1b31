"""The in-memory ZooKeeper as an ensemble: what a server that lags shows, and what the new leader's election leaves."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest

from odradek.testing.memory_ensemble import Member
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.store import BadVersion, ConnectionLost, StoreEvent, WatchFired, WatchKind

LAG_MS = 1000.0
Story = Callable[[MemoryZooKeeper, MemoryStore, MemoryStore], Awaitable[None]]


def play(story: Story) -> None:
    """Play it with a client of the leader and one of another server, which lags; `/a` is there, version 0."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock, members=3)
        seats = iter((0, 1))
        zookeeper.choose_member = lambda fit: zookeeper.members[next(seats, 1)]
        near, far = zookeeper.connect(), zookeeper.connect()
        for client in (near, far):
            await client.start(1000)
        await near.create("/a", b"old")
        zookeeper.members[1].lag(LAG_MS)
        await story(zookeeper, near, far)

    run_virtual(main)


async def later_ms(client: MemoryStore, path: str, wanted: bytes) -> float:
    """Return how long it takes until a client reads it."""
    begun_ms = client._clock.monotonic_ms()
    while (await client.get(path))[0] != wanted:
        await asyncio.sleep(0.01)
    return client._clock.monotonic_ms() - begun_ms


def last_of(offered: list[list[Member]], fit: Sequence[Member]) -> Member:
    """Note what is offered and choose the last of it."""
    offered.append(list(fit))
    return fit[-1]


def test_a_server_that_lags_shows_what_was() -> None:
    async def story(zookeeper: MemoryZooKeeper, near: MemoryStore, far: MemoryStore) -> None:
        await near.set("/a", b"new")
        assert (await near.get("/a"))[0] == b"new"
        assert await later_ms(far, "/a", b"new") == pytest.approx(LAG_MS, abs=20)
        await near.set("/a", b"newer")
        zookeeper.members[1].catch_up()
        assert (await far.get("/a"))[0] == b"newer"

    play(story)


def test_a_client_is_answered_its_own_write_when_its_server_has_come_so_far() -> None:
    async def story(zookeeper: MemoryZooKeeper, near: MemoryStore, far: MemoryStore) -> None:
        await near.set("/a", b"new")
        refused = asyncio.ensure_future(far.set("/a", b"mine", 0))
        read = asyncio.ensure_future(far.get("/a"))
        await asyncio.sleep(LAG_MS / 2000)
        assert not refused.done() and not read.done()
        with pytest.raises(BadVersion):
            await refused
        assert (await read)[0] == b"new", "what is asked behind a write sees it, or why it was refused"

    play(story)


def test_a_watch_comes_late_and_before_the_change_can_be_read() -> None:
    async def story(zookeeper: MemoryZooKeeper, near: MemoryStore, far: MemoryStore) -> None:
        events: list[StoreEvent] = []
        await far.get("/a", watch=True)
        far.subscribe(events.append)
        await near.set("/a", b"new")
        await far.get("/a")
        assert events == []
        assert await later_ms(far, "/a", b"new") > LAG_MS / 2
        assert events == [WatchFired(WatchKind.CHANGED, "/a")]

    play(story)


def test_a_session_never_goes_to_a_server_that_shows_less() -> None:
    async def story(zookeeper: MemoryZooKeeper, near: MemoryStore, far: MemoryStore) -> None:
        events: list[StoreEvent] = []
        await near.set("/a", b"new")
        for _ in range(20):
            offered: list[list[Member]] = []
            zookeeper.choose_member = partial(last_of, offered)
            near.move()
            await near.until_connected()
            assert (await near.get("/a"))[0] == b"new"
            assert zookeeper.members[1] not in offered[0]
        await far.children("/", watch=True)
        far.subscribe(events.append)
        await near.create("/b")
        far.move()
        await far.until_connected()
        await far.get("/b")
        assert WatchFired(WatchKind.CHILDREN, "/") in events, "the other server knows of it already"

    play(story)


@pytest.mark.parametrize("carried_out", [0, 2])
def test_a_new_leader_has_carried_out_what_nobody_has_heard_of(carried_out: int) -> None:
    async def story(zookeeper: MemoryZooKeeper, near: MemoryStore, far: MemoryStore) -> None:
        zookeeper.draw_latency_ms = lambda: 10.0
        asked = [asyncio.ensure_future(far.set("/a", b"%d" % number)) for number in range(3)]
        await asyncio.sleep(0.005)
        zookeeper.lead_anew(lambda count: min(count, carried_out))
        zookeeper.restart()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(answer, ConnectionLost) for answer in answers), answers
        await far.until_connected()
        assert (await far.get("/a"))[1].version == carried_out

    play(story)
