"""Consumers whose group lets nobody in: they go on asking, and say so."""

import asyncio
import logging
from typing import Any

import pytest

from odradek.aio import Consumer
from odradek.testing.virtual_run import VirtualCluster, run

COORDINATOR = "odradek.client.consumer.coordinator"


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == COORDINATOR and one.levelname == "WARNING"]


def test_a_consumer_says_once_that_its_group_has_no_coordinator(caplog: pytest.LogCaptureFixture) -> None:
    """It was silent for as long as that lasted, at every level of logging."""

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create_topic("flights")
        for number in range(3):
            await cluster.partition(number, "zookeeper")
        await asyncio.sleep(20)
        async with Consumer("flights", bootstrap_servers=cluster.bootstrap, group_id="g") as consumer:
            await consumer.getmany(timeout_ms=4_000)
            assert not warnings_in(caplog)
            await consumer.getmany(timeout_ms=10_000)
            assert len(warnings_in(caplog)) == 1
            for number in range(3):
                await cluster.heal(number, "zookeeper")
            while not consumer.assignment():
                await consumer.getmany(timeout_ms=100)

    run(test)
    said = warnings_in(caplog)[0]
    assert said.startswith("group g: no coordinator has let this consumer in for 5 s; it goes on asking: ")


def test_a_coordinator_that_is_away_for_a_moment_now_and_then_is_worth_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A member that is still known to its coordinator has not to join again: it was told that it was not let in."""

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create_topic("flights")
        settings: dict[str, Any] = {"group_id": "g", "request_timeout_ms": 1_000}
        async with Consumer("flights", bootstrap_servers=cluster.bootstrap, **settings) as consumer:
            while not consumer.assignment():
                await consumer.getmany(timeout_ms=100)
            for _ in range(2):
                for number in range(3):
                    await cluster.partition(number, "clients")
                await consumer.getmany(timeout_ms=4_500)
                await cluster.heal()
                await consumer.getmany(timeout_ms=30_000)
            assert consumer.assignment()

    caplog.set_level(logging.INFO, COORDINATOR)
    run(test)
    assert sum("no answer to" in one for one in caplog.messages) == 2, caplog.messages
    assert not warnings_in(caplog)
