"""Change nodes below a path that somebody deletes: ZooKeeper numbers those of the new one from zero on."""

from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.change_nodes import ChangeNodes, tell

PATH = "/config/changes"
PREFIX = f"{PATH}/config_change_"


def test_changes_are_heard_of_after_their_path_was_made_anew() -> None:
    """In Kafka settings and access lists stay as they are until there are as many changes again as there were."""

    async def main(clock: VirtualClock) -> None:
        store = MemoryZooKeeper(clock).connect()
        await store.start(1000)
        changes = ChangeNodes(store, clock, PATH)
        await changes.begin()
        for number in range(3):
            await tell(store, PREFIX, b"%d" % number)
        told = await changes.news()
        assert [one.data for one in told] == [b"0", b"1", b"2"]
        for one in told:
            await store.delete(one.path)
        await store.delete(PATH)
        await tell(store, PREFIX, b"made anew before we look")
        assert [one.data for one in await changes.news()] == [b"made anew before we look"]
        await tell(store, PREFIX, b"and once more")
        assert [one.data for one in await changes.news()] == [b"and once more"]
        assert not await changes.news()

    run_virtual(main)
