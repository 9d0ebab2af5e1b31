"""A consumer that gives up while it joins its group for the first time."""

import asyncio
from typing import Any

import pytest

from odradek.aio import Consumer
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.testing import run
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork
from tests.client.group_of_one import make_coordinator

SOON_S = 10.0
"""Much less than session.timeout.ms."""


async def poll(consumer: Consumer) -> None:
    while True:
        await consumer.getmany(1_000)


async def assigned(*consumers: Consumer) -> None:
    """Wait until each has its share of the two partitions."""
    while any(len(one.assignment()) != 2 // len(consumers) for one in consumers):
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("closes", [False, True])
def test_a_consumer_that_gives_up_while_it_gets_its_id_holds_nobody_up(closes: bool) -> None:
    """The coordinator waited for it in each rebalance until its session was over, and the whole group stood still."""

    async def main(cluster: Any) -> None:
        settings: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap,
            "group_id": "g",
            "session_timeout_ms": 60_000,
        }
        async with Consumer("t", **settings) as other:
            polling = [asyncio.ensure_future(poll(other))]
            await assigned(other)
            held = await cluster.hold("JoinGroup", client="b")
            consumer = await Consumer("t", client_id="b", **settings).start()
            first = asyncio.ensure_future(consumer.getmany(60_000))
            await cluster.wait_for(fault=held)
            first.cancel()
            leaving = asyncio.ensure_future(consumer.close() if closes else consumer.unsubscribe())
            await asyncio.sleep(0.01)
            await cluster.release(held)
            await leaving
            if closes:
                consumer = await Consumer("t", **settings).start()
            else:
                consumer.subscribe(["t"])
            polling.append(asyncio.ensure_future(poll(consumer)))
            await asyncio.wait_for(assigned(other, consumer), SOON_S)
            for one in polling:
                one.cancel()
            await asyncio.wait(polling)
            await consumer.close()

    run(main, brokers=1, topics={"t": 2})


def test_a_join_is_waited_for_as_long_as_any_request(scripted_broker: Any) -> None:
    """Others of the group may take longer to join than this member's max.poll.interval.ms, of which alone it thought:
    its connection was closed, and it joined anew."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        make_coordinator(broker)
        broker.handlers[JoinGroupRequest] = lambda _: None
        world: dict[str, Any] = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        settings: dict[str, Any] = {"group_id": "g", "max_poll_interval_ms": 1_000, "request_timeout_ms": 30_000}
        async with Consumer("t", **settings, **world) as consumer:
            for _ in range(40):
                await consumer.getmany(500)
            assert len(broker.requests(JoinGroupRequest)) == 1

    run_virtual(main)
