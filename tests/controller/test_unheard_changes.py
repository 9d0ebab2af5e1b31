"""Changes of topics that are carried out though nobody hears of it, seen through a server of ZooKeeper that lags."""

import asyncio

from odradek.controller.topic_admin import add_partitions
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.znodes.topics import PartitionReplicas, TopicAssignment, topic_path

LAG_MS = 1000


def test_partitions_that_were_added_are_not_refused_because_they_are_there() -> None:
    """The answer was lost, and what was read afterwards was old: the next try found its own partitions in the way."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock, members=2)
        zookeeper.choose_member = lambda fit: fit[-1]
        store = zookeeper.connect()
        await store.start(1000)
        before = TopicAssignment({0: PartitionReplicas((0,))}, bytes(16))
        await store.create(topic_path("t"), before.encode(), parents=True)
        zookeeper.members[1].lag(LAG_MS)
        adding = asyncio.ensure_future(add_partitions(store, "t", 3, [[0], [0]], {0: None}))
        await asyncio.sleep(LAG_MS / 2000)
        assert not adding.done()
        store.move()
        assert await adding == 2
        after = TopicAssignment.decode("t", zookeeper.data(topic_path("t")))
        assert sorted(after.partitions) == [0, 1, 2]

    run_virtual(main)
