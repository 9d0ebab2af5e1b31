"""Change nodes that somebody deletes, alone or with their path: ZooKeeper numbers those of the new one from zero on."""

import asyncio

import pytest

from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.change_nodes import ChangeNodes, ChangesMissed
from odradek.zk_schema.znodes.notifications import CHANGE_EXPIRATION_MS

PATH = "/config/changes"
PREFIX = f"{PATH}/config_change_"


async def tell(store: MemoryStore, prefix: str, data: bytes) -> None:
    await store.create(prefix, data, sequential=True, parents=True)


def test_changes_are_heard_of_after_their_path_was_made_anew() -> None:
    """In Kafka settings and access lists stay as they are until there are as many changes again as there were."""

    async def main(clock: VirtualClock) -> None:
        store, changes = await three_read(clock)
        for path in await store.children(PATH):
            await store.delete(f"{PATH}/{path}")
        await store.delete(PATH)
        await tell(store, PREFIX, b"made anew before we look")
        with pytest.raises(ChangesMissed):
            await changes.news()
        await tell(store, PREFIX, b"and once more")
        assert [one.data for one in await changes.news()] == [b"and once more"]
        assert not await changes.news()

    run_virtual(main)


@pytest.mark.parametrize("deleted", [[3], [0, 1, 2, 3], [0, 1, 2, 3, 4]], ids=str)
def test_changes_deleted_before_they_are_read_are_missed(deleted: list[int]) -> None:
    async def main(clock: VirtualClock) -> None:
        store, changes = await three_read(clock)
        for number in range(3, 5):
            await tell(store, PREFIX, b"%d" % number)
        for number in deleted:
            await store.delete(f"{PREFIX}{number:010d}")
        with pytest.raises(ChangesMissed):
            await changes.news()

    run_virtual(main)


def test_the_last_change_deleted_before_it_is_read_is_missed_at_once() -> None:
    """It was at the next one only: until then the settings stayed as they were."""

    async def main(clock: VirtualClock) -> None:
        store, changes = await three_read(clock)
        await tell(store, PREFIX, b"3")
        await store.delete(f"{PREFIX}{3:010d}")
        with pytest.raises(ChangesMissed):
            await changes.news()
        assert not await changes.news()
        await tell(store, PREFIX, b"4")
        assert [one.data for one in await changes.news()] == [b"4"]

    run_virtual(main)


@pytest.mark.parametrize("begins_anew", [False, True])
def test_a_number_made_up_by_hand_makes_nobody_deaf(begins_anew: bool) -> None:
    """Kafka's brokers take every later change for an old one, and so did ours."""

    async def main(clock: VirtualClock) -> None:
        store, changes = await three_read(clock)
        await store.create(f"{PREFIX}9999999999", b"by hand")
        with pytest.raises(ChangesMissed):
            await changes.news()
        if begins_anew:
            await changes.begin()
        await tell(store, PREFIX, b"4")
        assert [one.data for one in await changes.news()] == [b"4"]
        await advance(clock, CHANGE_EXPIRATION_MS + 1)
        await tell(store, PREFIX, b"5")
        assert [one.data for one in await changes.news()] == [b"5"]
        assert sorted(await store.children(PATH)) == ["config_change_0000000005", "config_change_9999999999"]

    run_virtual(main)


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_path_made_anew_with_more_changes_than_before_is_noticed(more: int) -> None:
    """The number of the last one fitted: what the others named was never read."""

    async def main(clock: VirtualClock) -> None:
        store, changes = await three_read(clock)
        for name in await store.children(PATH):
            await store.delete(f"{PATH}/{name}")
        await store.delete(PATH)
        for number in range(3 + more):
            await tell(store, PREFIX, b"%d" % number)
        with pytest.raises(ChangesMissed):
            await changes.news()
        assert not await changes.news()

    run_virtual(main)


def test_changes_that_were_read_may_go() -> None:
    async def main(clock: VirtualClock) -> None:
        store, changes = await three_read(clock)
        for number in range(2):
            await store.delete(f"{PREFIX}{number:010d}")
        assert not await changes.news()
        await tell(store, PREFIX, b"3")
        assert [one.data for one in await changes.news()] == [b"3"]

    run_virtual(main)


def test_what_is_old_goes_by_the_clock_of_zookeeper() -> None:
    """In Kafka a broker whose clock is ahead deletes changes that others have not read."""

    async def main(clock: VirtualClock) -> None:
        store, changes = await three_read(clock)
        await advance(clock, CHANGE_EXPIRATION_MS)
        await changes.news()
        assert len(await store.children(PATH)) == 3, "nothing younger is there"
        await tell(store, PREFIX, b"3")
        await changes.news()
        assert len(await store.children(PATH)) == 4
        await advance(clock, 1)
        await tell(store, PREFIX, b"4")
        await changes.news()
        assert await store.children(PATH) == [f"config_change_{number:010d}" for number in (3, 4)]

    run_virtual(main)


async def three_read(clock: VirtualClock) -> tuple[MemoryStore, ChangeNodes]:
    """Write three changes, numbers 0 to 2, and read them."""
    store = MemoryZooKeeper(clock).connect()
    await store.start(1000)
    changes = ChangeNodes(store, PATH)
    await changes.begin()
    for number in range(3):
        await tell(store, PREFIX, b"%d" % number)
    told = await changes.news()
    assert [one.data for one in told] == [b"0", b"1", b"2"]
    return store, changes


async def advance(clock: VirtualClock, delay_ms: float) -> None:
    done = asyncio.Event()
    clock.call_later(delay_ms, done.set)
    await done.wait()
