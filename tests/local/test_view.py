"""Looks of `odradek up` at ZooKeeper, on the one in memory."""

from odradek.local.view import NO_CONTROLLER, look
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.znodes.brokers import broker_path
from odradek.zk_schema.znodes.controller import CONTROLLER_PATH, ControllerRegistration


def test_a_controller_that_cannot_be_understood_is_none() -> None:
    """`up --zookeeper` ended with a traceback."""

    async def main(clock: VirtualClock) -> None:
        store = MemoryZooKeeper(clock).connect()
        await store.start(1_000)
        await store.create(broker_path(4), b"{}", parents=True)
        await store.create(CONTROLLER_PATH, ControllerRegistration(4).encode())
        assert (await look(store)).controller_id == 4
        await store.set(CONTROLLER_PATH, b"nonsense")
        found = await look(store)
        assert list(found.registered) == [4] and found.controller_id == NO_CONTROLLER

    run_virtual(main)
