"""Writes whose answers get lost, and the questions of a broker that starts."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.lost_answers import create_ephemeral, create_if_missing, repeated
from odradek.zk_schema.registration import (
    TOPMOST_PATHS,
    create_topmost_paths,
    generate_broker_id,
    get_or_create_cluster_id,
)
from odradek.zk_schema.store import NodeExists, SessionExpired

Scenario = Callable[[MemoryZooKeeper, MemoryStore, MemoryStore], Awaitable[None]]


def play(scenario: Scenario) -> None:
    async def run(clock: VirtualClock) -> None:
        server = MemoryZooKeeper(clock, session_timeout_ms=50)
        one, two = server.connect(), server.connect()
        await one.start(1000)
        await two.start(1000)
        async with asyncio.timeout(10):
            await scenario(server, one, two)

    run_virtual(run)


def test_an_ephemeral_znode_whose_answer_was_lost_is_ours() -> None:
    async def scenario(server: MemoryZooKeeper, store: MemoryStore, other: MemoryStore) -> None:
        store.lose_next_answer()
        stat = await create_ephemeral(store, "/controller", b"1")
        assert stat.ephemeral_owner == store.session_id
        assert stat == await other.exists("/controller")
        with pytest.raises(NodeExists):
            await create_ephemeral(other, "/controller", b"2")
        assert await create_ephemeral(store, "/controller", b"1") == stat

    play(scenario)


def test_an_ended_session_ends_the_repeating() -> None:
    async def scenario(server: MemoryZooKeeper, store: MemoryStore, other: MemoryStore) -> None:
        await store.create("/x")
        calls = 0

        async def read() -> object:
            nonlocal calls
            calls += 1
            if calls == 1:
                server.expire_session(store.session_id)
            return await store.get("/x")

        with pytest.raises(SessionExpired):
            await repeated(store, read)
        assert calls == 1

    play(scenario)


def test_making_what_may_be_there() -> None:
    async def scenario(server: MemoryZooKeeper, store: MemoryStore, other: MemoryStore) -> None:
        assert await create_if_missing(store, "/a/b/c", b"first")
        assert not await create_if_missing(other, "/a/b/c", b"second")
        assert (await store.get("/a/b/c"))[0] == b"first"

    play(scenario)


def test_the_topmost_znodes() -> None:
    async def scenario(server: MemoryZooKeeper, store: MemoryStore, other: MemoryStore) -> None:
        await asyncio.gather(create_topmost_paths(store), create_topmost_paths(other))
        assert set(TOPMOST_PATHS) <= set(server.paths())
        assert "/config/users" in server.paths()

    play(scenario)


def test_all_brokers_get_one_cluster_id() -> None:
    async def scenario(server: MemoryZooKeeper, store: MemoryStore, other: MemoryStore) -> None:
        ids = await asyncio.gather(
            get_or_create_cluster_id(store, random.Random(1)), get_or_create_cluster_id(other, random.Random(2))
        )
        assert ids[0] == ids[1] == await get_or_create_cluster_id(store, random.Random(3))
        assert len(ids[0]) == 22
        assert server.data("/cluster/id") == b'{"version":"1","id":"%s"}' % ids[0].encode()

    play(scenario)


def test_generated_broker_ids_are_above_the_reserved_ones() -> None:
    async def scenario(server: MemoryZooKeeper, store: MemoryStore, other: MemoryStore) -> None:
        assert await generate_broker_id(store, 1000) == 1001
        assert await generate_broker_id(other, 1000) == 1002
        store.lose_next_answer()
        assert await generate_broker_id(store, 1000) > 1002

    play(scenario)
