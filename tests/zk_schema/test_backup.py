"""A cluster's znodes as a file: what comes back, what is left out, and what is refused."""

import asyncio
from dataclasses import replace

import pytest

from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.backup import (
    EPOCHS_AHEAD,
    NotABackup,
    NotEmpty,
    Znode,
    ahead,
    decode,
    encode,
    read_znodes,
    write_znodes,
)
from odradek.zk_schema.registration import generate_broker_id
from odradek.zk_schema.store import Store
from odradek.zk_schema.znodes.cluster import ProducerIdBlock
from odradek.zk_schema.znodes.controller import decode_controller_epoch, encode_controller_epoch
from odradek.zk_schema.znodes.topics import PartitionState, state_path

KEPT = {
    "/brokers": b"",
    "/brokers/ids": b"",
    "/brokers/topics": b"",
    "/brokers/topics/flights": '{"version":3,"note":"Zürich"}'.encode(),
    "/config": b"",
    "/config/changes": b"",
    "/config/users": b"\xff\x00",
    "/zookeeper-of-ours": b"kept",
}


async def connected(zookeeper: MemoryZooKeeper) -> Store:
    store = zookeeper.connect()
    await store.start(1000)
    return store


async def filled(clock: VirtualClock) -> Store:
    store = await connected(MemoryZooKeeper(clock))
    for path, data in KEPT.items():
        await store.create(path, data)
    await store.create("/brokers/ids/0", b"who is registered", ephemeral=True)
    await store.create("/controller", b"who is the controller", ephemeral=True)
    await store.create("/config/changes/config_change_", b"news", sequential=True)
    return store


def test_what_is_written_is_what_was_read_but_for_sessions_and_news() -> None:
    async def main(clock: VirtualClock) -> None:
        lines = list(encode(await read_znodes(await filled(clock))))
        other = await connected(MemoryZooKeeper(clock))
        await write_znodes(other, decode(lines))
        again = await read_znodes(other)
        assert {znode.path: znode.data for znode in again} == KEPT
        assert list(encode(again)) == lines

    run_virtual(main)


def test_broker_ids_go_on_being_counted() -> None:
    async def main(clock: VirtualClock) -> None:
        store = await filled(clock)
        given = [await generate_broker_id(store, 1000) for _ in range(3)]
        other = await connected(MemoryZooKeeper(clock))
        await write_znodes(other, await read_znodes(store))
        assert await generate_broker_id(other, 1000) == max(given) + 1

    run_virtual(main)


def test_nothing_is_written_over_a_cluster() -> None:
    async def main(clock: VirtualClock) -> None:
        store = await filled(clock)
        znodes = await read_znodes(store)
        with pytest.raises(NotEmpty):
            await write_znodes(store, [*znodes, Znode("/more", b"")])
        assert await store.exists("/more") is None

    run_virtual(main)


def test_a_topic_that_is_deleted_meanwhile_is_left_out() -> None:
    async def main(clock: VirtualClock) -> None:
        store = await filled(clock)
        reading = asyncio.ensure_future(read_znodes(store))
        await asyncio.sleep(0)
        await store.delete("/brokers/topics/flights")
        paths = {znode.path for znode in await reading}
        assert "/brokers/topics" in paths and "/brokers/topics/flights" not in paths

    run_virtual(main)


def test_epochs_and_producer_ids_go_on_above_what_newer_logs_may_have() -> None:
    state = PartitionState(1, 7, (1, 2), 5)
    block = ProducerIdBlock(1, 4000, 4999)
    znodes = [
        Znode("/controller_epoch", encode_controller_epoch(5)),
        Znode("/latest_producer_id_block", block.encode()),
        Znode(state_path("flights", 3), state.encode()),
        Znode("/brokers/topics/flights", b"as it was"),
    ]
    epoch, producers, partition, topic = ahead(znodes)
    assert decode_controller_epoch(epoch.data) == 5 + EPOCHS_AHEAD
    moved = ProducerIdBlock.decode(producers.data)
    assert moved is not None and moved.first > 1_000_000 and moved.last - moved.first == block.last - block.first
    found = PartitionState.decode("flights", 3, partition.data)
    assert found == replace(state, leader_epoch=7 + EPOCHS_AHEAD) and topic == znodes[3]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda lines: lines[:-1],
        lambda lines: lines[1:],
        lambda lines: [],
        lambda lines: [*lines[:-1], lines[-1][:-3]],
        lambda lines: [lines[0], '{"path": "/a"}'],
        lambda lines: [lines[0], lines[1], '{"path": "/b", "base64": "~"}'],
        lambda lines: ["[1]", *lines[1:]],
        lambda lines: [lines[0], lines[1], '{"path": 7, "text": ""}'],
        lambda lines: [lines[0], lines[1], '{"path": "b", "text": ""}'],
        lambda lines: [lines[0], lines[1], '{"path": "/b", "text": "", "version": "2"}'],
    ],
)
def test_a_file_that_is_not_whole_is_refused(spoil: object) -> None:
    lines = list(encode([Znode("/a", b"1"), Znode("/a/b", b"\xff")]))
    assert callable(spoil)
    with pytest.raises(NotABackup):
        decode(spoil(lines))
