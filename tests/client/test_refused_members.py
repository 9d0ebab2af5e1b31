"""Consumers whose group lets nobody in: they go on asking, and say so."""

import asyncio

import pytest

from odradek.aio import Consumer
from odradek.testing.virtual_run import VirtualCluster, run

COORDINATOR = "odradek.client.consumer.coordinator"


def test_a_consumer_says_once_that_its_group_has_no_coordinator(caplog: pytest.LogCaptureFixture) -> None:
    """It was silent for as long as that lasted, at every level of logging."""

    def warnings() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.name == COORDINATOR and one.levelname == "WARNING"]

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create_topic("flights")
        for number in range(3):
            await cluster.partition(number, "zookeeper")
        await asyncio.sleep(20)
        async with Consumer("flights", bootstrap_servers=cluster.bootstrap, group_id="g") as consumer:
            await consumer.getmany(timeout_ms=4_000)
            assert not warnings()
            await consumer.getmany(timeout_ms=10_000)
            assert len(warnings()) == 1
            for number in range(3):
                await cluster.heal(number, "zookeeper")
            while not consumer.assignment():
                await consumer.getmany(timeout_ms=100)

    run(test)
    assert warnings()[0].startswith("group g: no coordinator has let this consumer in for 5 s; it goes on asking: "), (
        warnings()
    )
