"""Election of the controller when what a broker reads of ZooKeeper is old: somebody else has been elected meanwhile."""

from collections.abc import Awaitable, Callable

import pytest

from odradek.controller.controller_election import (
    EPOCH_MAX,
    CurrentController,
    Elected,
    current_controller,
    delete_if_ours,
    elect,
    read_epoch,
    recognize,
)
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.store import Delete, SetData
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH, CONTROLLER_PATH, encode_controller_epoch
from odradek.zk_schema.znodes.json_data import BadZnode

NEVER = 0
Story = Callable[[VirtualClock, MemoryZooKeeper, MemoryStore, MemoryStore], Awaitable[None]]


def play(story: Story) -> None:
    """Play it with the clients of two brokers, of which the first has been elected in epoch 1 and not heard of it; its
    server of ZooKeeper lags from then on."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock, members=2)
        seats = iter((1, 0))
        zookeeper.choose_member = lambda fit: zookeeper.members[next(seats)]
        first, second = zookeeper.connect(), zookeeper.connect()
        for store in (first, second):
            await store.start(1000)
        assert await elect(first, clock, 0) == Elected(1, 1)
        zookeeper.members[1].lag(1000)
        await story(clock, zookeeper, first, second)

    run_virtual(main)


async def depose(clock: VirtualClock, zookeeper: MemoryZooKeeper, heir: MemoryStore) -> None:
    """Delete `/controller`, as administrators do to have another one elected, and elect the heir."""
    zookeeper.commit([Delete(CONTROLLER_PATH)], 0)
    assert await elect(heir, clock, 1) == Elected(2, 2)


def test_an_election_whose_answer_was_lost_is_recognized() -> None:
    async def story(clock: VirtualClock, zookeeper: MemoryZooKeeper, first: MemoryStore, second: MemoryStore) -> None:
        current = await current_controller(first)
        assert await recognize(first, current, NEVER) == Elected(1, 1)

    play(story)


def test_the_epoch_of_who_was_elected_meanwhile_is_not_taken_for_ours() -> None:
    """`/controller` was read, then `/controller_epoch`, and in between another broker was elected: both acted as the
    controller of one epoch."""

    async def story(clock: VirtualClock, zookeeper: MemoryZooKeeper, first: MemoryStore, second: MemoryStore) -> None:
        current = await current_controller(first)
        await depose(clock, zookeeper, second)
        zookeeper.members[1].catch_up()
        assert current.session_id == first.session_id
        assert await recognize(first, current, NEVER) is None
        assert await current_controller(first) == CurrentController(1, second.session_id, zookeeper.tree.last_zxid)

    play(story)


def test_what_a_resignation_has_left_over_is_no_election() -> None:
    """The answer to the deletion of `/controller` was lost, say: whoever resigned is not the controller again in the
    epoch that it gave up."""

    async def story(clock: VirtualClock, zookeeper: MemoryZooKeeper, first: MemoryStore, second: MemoryStore) -> None:
        zookeeper.members[1].catch_up()
        assert await recognize(first, await current_controller(first), 1) is None
        assert await second.exists(CONTROLLER_PATH) is None

    play(story)


def test_epochs_that_leave_none_for_later_elections_are_not_written() -> None:
    """A request with the last epoch of all, or one just below it, had been obeyed; a later controller wrote one that
    nobody could read."""

    async def story(clock: VirtualClock, zookeeper: MemoryZooKeeper, first: MemoryStore, second: MemoryStore) -> None:
        zookeeper.commit([Delete(CONTROLLER_PATH)], 0)
        assert await elect(second, clock, 1, epoch_seen=EPOCH_MAX) == Elected(2, 2)
        zookeeper.commit([Delete(CONTROLLER_PATH)], 0)
        assert await elect(second, clock, 1, epoch_seen=EPOCH_MAX - 1) == Elected(3, 3)
        zookeeper.commit([Delete(CONTROLLER_PATH)], 0)
        assert await elect(second, clock, 1, epoch_seen=EPOCH_MAX // 2) == Elected(EPOCH_MAX // 2 + 1, 4)

    play(story)


def test_nobody_is_elected_after_the_last_epoch_of_all() -> None:
    async def story(clock: VirtualClock, zookeeper: MemoryZooKeeper, first: MemoryStore, second: MemoryStore) -> None:
        for epoch in (EPOCH_MAX - 1, EPOCH_MAX):
            zookeeper.commit([Delete(CONTROLLER_PATH)], 0)
            zookeeper.commit([SetData(CONTROLLER_EPOCH_PATH, encode_controller_epoch(epoch))], 0)
            if epoch < EPOCH_MAX:
                assert await elect(second, clock, 1) == Elected(EPOCH_MAX, 3)
        with pytest.raises(BadZnode):
            await elect(second, clock, 1)
        assert (await read_epoch(second))[0] == EPOCH_MAX

    play(story)


def test_only_an_own_znode_is_deleted() -> None:
    """What a broker resigned from is deleted, not what another has made meanwhile."""

    async def story(clock: VirtualClock, zookeeper: MemoryZooKeeper, first: MemoryStore, second: MemoryStore) -> None:
        current = await current_controller(first)
        await depose(clock, zookeeper, second)
        await delete_if_ours(first)
        assert await recognize(first, current, 1) is None
        assert (await current_controller(second)).session_id == second.session_id
        await delete_if_ours(second)
        assert await second.exists(CONTROLLER_PATH) is None

    play(story)
