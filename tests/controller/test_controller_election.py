"""Election of the controller when what a broker reads of ZooKeeper is old: somebody else has been elected meanwhile."""

from collections.abc import Awaitable, Callable

from odradek.controller.controller_election import (
    EPOCH_MAX,
    CurrentController,
    Elected,
    current_controller,
    delete_if_ours,
    elect,
    recognize,
)
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.store import Delete
from odradek.zk_schema.znodes.controller import CONTROLLER_PATH

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


def test_an_epoch_that_no_request_can_carry_is_not_written() -> None:
    """A request with the last epoch of all had been obeyed; the next controller wrote one that nobody could read."""

    async def story(clock: VirtualClock, zookeeper: MemoryZooKeeper, first: MemoryStore, second: MemoryStore) -> None:
        zookeeper.commit([Delete(CONTROLLER_PATH)], 0)
        assert await elect(second, clock, 1, epoch_seen=EPOCH_MAX) == Elected(2, 2)
        zookeeper.commit([Delete(CONTROLLER_PATH)], 0)
        assert await elect(second, clock, 1, epoch_seen=EPOCH_MAX - 1) == Elected(EPOCH_MAX, 3)

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
