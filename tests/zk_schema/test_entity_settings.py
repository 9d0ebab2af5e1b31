"""Settings of an entity that several change at once."""

from collections.abc import Mapping

import pytest

from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.entity_settings import ATTEMPTS_MAX, alter_entity, stored_settings
from odradek.zk_schema.store import BadVersion, SetData
from odradek.zk_schema.znodes.configs import encode_config, entity_path

ENTITY = "topics/t"


async def setting(store: MemoryStore, name: str, text: str) -> None:
    await alter_entity(store, ENTITY, lambda settings: {**settings, name: text})


@pytest.mark.parametrize("there", [True, False])
def test_a_change_from_what_is_old_loses_nobody_s(there: bool) -> None:
    """Through a broker whose server of ZooKeeper lagged a second change took back the one before it, acknowledged."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock, members=2)
        seats = iter((0, 1))
        zookeeper.choose_member = lambda fit: zookeeper.members[next(seats)]
        near, far = zookeeper.connect(), zookeeper.connect()
        for store in (near, far):
            await store.start(1000)
        await near.create("/config/topics", parents=True)
        if there:
            await setting(near, "segment.bytes", "1000")
        zookeeper.members[1].lag(1000)
        await setting(near, "retention.ms", "5")
        await setting(far, "max.message.bytes", "7")
        expected = {"retention.ms": "5", "max.message.bytes": "7"} | ({"segment.bytes": "1000"} if there else {})
        assert await stored_settings(near, ENTITY) == expected
        assert await near.children("/config/changes") == [f"config_change_{n:010d}" for n in range(2 + there)]

    run_virtual(main)


def test_who_is_always_too_late_is_told() -> None:
    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        store = zookeeper.connect()
        await store.start(1000)
        await setting(store, "segment.bytes", "1000")
        asked: list[Mapping[str, str]] = []

        def too_late(settings: dict[str, str]) -> Mapping[str, str]:
            asked.append(settings)
            zookeeper.commit([SetData(entity_path(ENTITY), encode_config({"n": str(len(asked))}), -1)], 0)
            return {}

        with pytest.raises(BadVersion):
            await alter_entity(store, ENTITY, too_late)
        assert len(asked) == ATTEMPTS_MAX
        assert await stored_settings(store, ENTITY) == {"n": str(ATTEMPTS_MAX)}

    run_virtual(main)
