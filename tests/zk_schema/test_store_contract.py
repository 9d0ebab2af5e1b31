"""What every Store must do with znodes and watches: the same tests for the one in memory and for a real ZooKeeper.

A scenario gets the `world` of conftest.py: its clients, and faults.
"""

import asyncio
from typing import Any

import pytest

from odradek.zk_schema.store import (
    WRITE_BYTES_MAX,
    BadVersion,
    Check,
    Create,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    SetData,
    Stat,
    StoreError,
    TooLarge,
    WatchFired,
    WatchKind,
    children_made,
)
from tests.zk_schema.watched import Run, refused, watches


def test_a_znode_is_made_read_changed_and_deleted(run: Run) -> None:
    async def scenario(world: Any) -> None:
        store = await world.connect()
        assert await store.create("/a", b"one") == "/a"
        data, made = await store.get("/a")
        assert (data, made.version, made.ephemeral_owner, made.children_version) == (b"one", 0, 0, 0)
        assert made.czxid == made.mzxid > 0
        assert made.created_ms == made.modified_ms > 1_000_000_000_000
        changed = await store.set("/a", b"two", 0)
        assert changed.version == 1
        assert changed.czxid == made.czxid < changed.mzxid
        assert await store.get("/a") == (b"two", changed)
        assert await store.exists("/a") == changed
        assert (await store.set("/a", b"")).version == 2
        assert (await store.get("/a"))[0] == b""
        await store.delete("/a", 2)
        assert await store.exists("/a") is None

    run(scenario)


def test_a_write_that_is_too_large_costs_nobody_the_connection(run: Run) -> None:
    """ZooKeeper cuts off whoever sends it, and again when that is repeated."""

    async def scenario(world: Any) -> None:
        store = await world.connect()
        session_id = store.session_id
        most = bytes(WRITE_BYTES_MAX - len("/a"))
        await store.create("/a", most)
        await store.set("/a", most)
        assert str(await refused(store.create("/b", bytes(WRITE_BYTES_MAX)))).startswith(
            "/b: more than the 1000000 bytes"
        )
        halves = [Create("/b", bytes(400_000)), SetData("/a", bytes(600_000))]
        for write in (store.set("/a", most + b"."), store.multi(halves)):
            assert isinstance(error := await refused(write), TooLarge) and error.path == "/a"
        assert store.connected and store.session_id == session_id
        assert ((await store.get("/a"))[1].version, await store.exists("/b")) == (1, None)

    run(scenario)


def test_many_are_read_at_once(run: Run) -> None:
    async def scenario(world: Any) -> None:
        store = await world.connect()
        await store.create("/a", b"one")
        await store.create("/empty")
        one, none, empty = await store.get_each(["/a", "/none", "/empty"])
        assert (one, none, empty) == (await store.get("/a"), None, await store.get("/empty"))
        assert await store.get_each([]) == []

    run(scenario)


def test_refusals_name_the_path(run: Run) -> None:
    async def scenario(world: Any) -> None:
        store = await world.connect()
        await store.create("/a/b", parents=True)
        for call, error, path in (
            (store.get("/no"), NoNode, "/no"),
            (store.children("/no"), NoNode, "/no"),
            (store.set("/no", b""), NoNode, "/no"),
            (store.delete("/no"), NoNode, "/no"),
            (store.create("/no/child"), NoNode, "/no"),
            (store.create("/a"), NodeExists, "/a"),
            (store.create("/a/b", parents=True), NodeExists, "/a/b"),
            (store.set("/a/b", b"", 7), BadVersion, "/a/b"),
            (store.delete("/a/b", 7), BadVersion, "/a/b"),
            (store.delete("/a"), NotEmpty, "/a"),
        ):
            caught = await refused(call)
            assert (type(caught), caught.path) == (error, path)

    run(scenario)


def test_children_and_their_version(run: Run) -> None:
    async def scenario(world: Any) -> None:
        store = await world.connect()
        await store.create("/p/q/one", parents=True)
        await store.create("/p/q/two")
        assert sorted(await store.children("/p/q")) == ["one", "two"]
        assert await store.children("/p/q/one") == []
        await store.delete("/p/q/one")
        stat = await store.exists("/p/q")
        assert stat.children_version == 3
        assert stat.version == 0

    run(scenario)


def test_children_are_read_with_the_number_of_the_next_one(run: Run) -> None:
    """Change nodes that were deleted unread are known by it."""

    async def scenario(world: Any) -> None:
        store = await world.connect()
        with pytest.raises(NoNode):
            await store.children_and_stat("/n")
        await store.create("/n", b"data")
        made = 0

        async def check(*children: str) -> None:
            names, stat = await store.children_and_stat("/n")
            assert (sorted(names), stat) == (sorted(children), await store.exists("/n"))
            assert children_made(stat, len(names)) == made

        await check()
        for acts in (
            [Create("/n/s_", sequential=True), Create("/n/s_", sequential=True)],
            [Create("/n/ephemeral", ephemeral=True), Create("/n/e_", ephemeral=True, sequential=True)],
            [Create("/n/passing"), Delete("/n/passing"), Create("/n/s_9999999999")],
            [SetData("/n", b"other"), Delete("/n/s_0000000001"), Delete("/n/ephemeral")],
        ):
            await store.multi(acts)
            made += sum(isinstance(act, Create) for act in acts)
        await check("s_0000000000", "e_0000000003", "s_9999999999")
        with pytest.raises(NodeExists):
            await store.create("/n/s_0000000000")
        for name in ("s_0000000000", "s_9999999999"):
            await store.delete(f"/n/{name}")
        await check("e_0000000003")
        assert await store.create("/n/s_", sequential=True) == f"/n/s_{made:010d}"

    run(scenario)


def test_a_count_of_children_that_does_not_fit_any_more_begins_again() -> None:
    for made, children in ((2**30 - 1, 2), (2**30, 0), (2**30 + 7, 3), (2**31 - 1, 1), (2**31, 0), (2**31 + 5, 2)):
        shown = (2 * made - children + 2**31) % 2**32 - 2**31
        assert children_made(Stat(0, 1, 1, 0, shown, 0, 0), children) == made % 2**31


def test_sequence_numbers_count_the_children_ever_made(run: Run) -> None:
    async def scenario(world: Any) -> None:
        store = await world.connect()
        await store.create("/s")
        assert await store.create("/s/n_", b"x", sequential=True) == "/s/n_0000000000"
        await store.create("/s/other")
        await store.delete("/s/n_0000000000")
        assert await store.create("/s/n_", sequential=True) == "/s/n_0000000002"

    run(scenario)


def test_a_multi_is_done_as_a_whole(run: Run) -> None:
    async def scenario(world: Any) -> None:
        store = await world.connect()
        await store.create("/epoch", b"1")
        results = await store.multi(
            [
                Check("/epoch", 0),
                Create("/t"),
                Create("/t/child-", b"c", sequential=True),
                SetData("/epoch", b"2", 0),
                Create("/gone"),
                Delete("/gone"),
            ]
        )
        assert results[:3] == [None, "/t", "/t/child-0000000000"]
        assert isinstance(results[3], Stat)
        assert results[3].version == 1
        assert results[4:] == ["/gone", None]
        assert (await store.get("/t/child-0000000000"))[0] == b"c"
        made, changed = await store.exists("/t"), await store.exists("/epoch")
        assert made.czxid == changed.mzxid
        assert await store.multi([]) == []

    run(scenario)


@pytest.mark.parametrize(
    ("failing", "error", "path"),
    [
        (Check("/epoch", 5), BadVersion, "/epoch"),
        (Check("/no", 0), NoNode, "/no"),
        (Create("/epoch"), NodeExists, "/epoch"),
        (Create("/no/child"), NoNode, "/no"),
        (SetData("/epoch", b"", 5), BadVersion, "/epoch"),
        (Delete("/t"), NotEmpty, "/t"),
    ],
)
def test_a_multi_that_fails_does_nothing(run: Run, failing: Any, error: type[StoreError], path: str) -> None:
    async def scenario(world: Any) -> None:
        store = await world.connect()
        await store.create("/t/kept", parents=True)
        await store.create("/epoch", b"1")
        before = [await store.get(path) for path in ("/epoch", "/t", "/t/kept")]
        operations = [SetData("/epoch", b"2", 0), Delete("/t/kept"), Create("/t/new"), failing, Create("/never")]
        caught = await refused(store.multi(operations))
        assert isinstance(caught, MultiFailed)
        assert (caught.index, type(caught.cause), caught.cause.path) == (3, error, path)
        assert [await store.get(path) for path in ("/epoch", "/t", "/t/kept")] == before
        assert await store.children("/t") == ["kept"]
        assert await store.exists("/never") is None

    run(scenario)


def test_watches_fire_once(run: Run, record: Any) -> None:
    async def scenario(world: Any) -> None:
        store, other = await world.connect(), await world.connect()
        seen = record(store)
        await other.create("/w/x", parents=True)
        await store.get("/w/x", watch=True)
        await store.exists("/w/x", watch=True)
        await store.children("/w", watch=True)
        await store.exists("/w/later", watch=True)
        assert isinstance(await refused(store.get("/w/nothing", watch=True)), NoNode)
        await other.set("/w/x", b"1")
        await other.set("/w/x", b"2")
        await other.create("/w/nothing")
        await other.create("/w/later")
        await other.create("/w/last")
        await store.exists("/w/last")
        assert watches(seen.events) == [
            WatchFired(WatchKind.CHANGED, "/w/x"),
            WatchFired(WatchKind.CHILDREN, "/w"),
            WatchFired(WatchKind.CREATED, "/w/later"),
        ]

    run(scenario)


def test_a_deletion_is_told_once_to_who_watched_data_and_children(run: Run, record: Any) -> None:
    async def scenario(world: Any) -> None:
        store, other = await world.connect(), await world.connect()
        seen = record(store)
        await other.create("/w/x", parents=True)
        await store.get("/w/x", watch=True)
        await store.children("/w/x", watch=True)
        await store.children("/w", watch=True)
        await other.delete("/w/x")
        await store.exists("/w")
        assert watches(seen.events) == [
            WatchFired(WatchKind.DELETED, "/w/x"),
            WatchFired(WatchKind.CHILDREN, "/w"),
        ]

    run(scenario)


def test_an_event_comes_before_what_was_written_after_it_is_read(run: Run, record: Any) -> None:
    async def scenario(world: Any) -> None:
        reader, writer = await world.connect(), await world.connect()
        seen = record(reader)
        await writer.create("/first", b"0")
        await writer.create("/second", b"0")
        for turn in range(1, 30):
            value = str(turn).encode()
            await reader.get("/first", watch=True)
            writing = asyncio.gather(writer.set("/first", value), writer.set("/second", value))
            while (await reader.get("/second"))[0] != value:
                assert len(watches(seen.events)) <= turn
            assert len(watches(seen.events)) == turn
            await writing

    run(scenario)


def test_an_answer_comes_before_an_event_that_is_later(run: Run, record: Any) -> None:
    async def scenario(world: Any) -> None:
        reader, writer = await world.connect(), await world.connect()
        story: list[object] = []
        reader.subscribe(lambda event: story.append("event") if isinstance(event, WatchFired) else None)
        await writer.create("/x", b"0")

        async def read() -> None:
            await reader.get("/x", watch=True)
            story.append("answer")

        for turn in range(1, 30):
            # Both are under way at once: the event can only come of a watch that the read has set.
            await asyncio.gather(read(), writer.set("/x", b"early"))
            await writer.set("/x", b"late")
            await reader.exists("/x")
            assert story == ["answer", "event"] * turn

    run(scenario)


def test_many_calls_at_once(run: Run) -> None:
    async def scenario(world: Any) -> None:
        store = await world.connect()
        await asyncio.gather(*(store.create(f"/n{number}", str(number).encode()) for number in range(300)))
        found = await asyncio.gather(*(store.get(f"/n{number}") for number in range(300)))
        assert [data for data, _ in found] == [str(number).encode() for number in range(300)]

    run(scenario)
