"""Creation of a topic in a ZooKeeper that lacks the znodes that brokers make at their start: somebody deleted them."""

import random
from collections.abc import Sequence

import pytest

from odradek.controller.topic_admin import Defaults, NewTopic, create_topic
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.store import Operation, OperationResult
from odradek.zk_schema.znodes.configs import topic_config_path
from odradek.zk_schema.znodes.topics import TOPICS_PATH, topic_path

ATTEMPTS_MAX = 3


@pytest.mark.parametrize("there", [[], [TOPICS_PATH], ["/config/topics"]])
def test_a_topic_is_created_where_its_parents_are_missing(there: Sequence[str]) -> None:
    """Without `/config/topics` it was tried again for ever."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        store = zookeeper.connect()
        await store.start(1000)
        for path in there:
            await store.create(path, parents=True)
        attempts = 0
        multi = store.multi

        async def counted(operations: Sequence[Operation]) -> list[OperationResult]:
            nonlocal attempts
            attempts += 1
            assert attempts <= ATTEMPTS_MAX
            return await multi(operations)

        store.multi = counted  # type: ignore[method-assign]
        await create_topic(store, NewTopic("t"), {0: None}, Defaults(1, 1), random.Random(1), lambda _: None)
        assert await store.exists(topic_path("t")) and await store.exists(topic_config_path("t"))

    run_virtual(main)
