"""A connector whose shutdown is interrupted: nobody waits for its session to end."""

import asyncio
import random
from typing import Any

from odradek.client.zookeeper.config import settings_of
from odradek.client.zookeeper.core import ConnectorCore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.store import NoNode
from odradek.zk_schema.znodes.consumers import STATIC, ConsumerRegistration, consumer_ids_path


def test_a_connector_that_is_interrupted_while_it_commits_at_last_leaves_its_group() -> None:
    """The thread of its ZooKeeper client went on, and with it the session, as long as the program: the others waited
    for its partitions."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        store = zookeeper.connect(session_timeout_ms=6_000)
        await store.start(1_000)
        settings = settings_of({"zookeeper.connect": "memory", "group.id": "g"}, {})

        def no_network(_: object) -> Any:
            raise AssertionError("there are no brokers")

        core = ConnectorCore(settings, store, clock, random.Random(1), "host", no_network)
        await core.begin(ConsumerRegistration({"t": 1}, STATIC))
        committing = asyncio.Event()

        async def commit(**_: object) -> None:
            committing.set()
            await asyncio.Event().wait()

        core.member.commit = commit  # type: ignore[method-assign]
        closing = asyncio.ensure_future(core.close(in_hand=True))
        await committing.wait()
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        observer = zookeeper.connect()
        await observer.start(1_000)
        try:
            assert await observer.children(consumer_ids_path("g")) == []
        except NoNode:
            raise AssertionError("it was no member") from None

    run_virtual(main)
