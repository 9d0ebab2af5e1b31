"""`/live` and `/ready`: a rolling restart that waits for them takes no second replica out of an ISR."""

import asyncio

from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.topic_names import TopicPartition
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.scraping import METRICS_PORT, get
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.way_through import (
    PRODUCE_VERSION,
    TOPIC,
    accepted,
    connect,
    create_topic,
    produce_request,
)

SETTINGS = {"metrics.port": str(METRICS_PORT), "replica.lag.time.max.ms": "2000"}


def of_one_replica() -> ProduceRequest:
    request = produce_request()
    request.acks = 1
    return request


async def ready(cluster: EmbeddedCluster, broker: EmbeddedBroker) -> str:
    """The reason why it is not; "" when it is."""
    status, body = await get(cluster, broker, "/ready")
    assert status.split()[1] == ("200" if body == b"ready\n" else "503"), (status, body)
    return "" if body == b"ready\n" else body.decode().strip()


def test_ready_is_whoever_is_in_every_isr() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 3, SETTINGS) as cluster:
            await create_topic(cluster, [2, 1])
            _controller, follower, leader = cluster.brokers
            assert [await ready(cluster, broker) for broker in cluster.brokers] == ["", "", ""]

            cluster.network.cut(follower.host, leader.host)
            client = await connect(cluster, leader)
            while not await ready(cluster, follower):
                assert accepted(await client.ask(of_one_replica(), PRODUCE_VERSION))
                await asyncio.sleep(1)
            assert await ready(cluster, follower) == "not in the ISR of t-0"
            assert (await ready(cluster, leader), (await get(cluster, follower, "/live"))[1]) == ("", b"alive\n")

            cluster.network.heal()
            while await ready(cluster, follower):
                await asyncio.sleep(0.1)

    run_virtual(main)


def test_a_restarted_broker_is_ready_only_when_it_has_caught_up() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 3, SETTINGS) as cluster:
            await create_topic(cluster, [2, 1])
            _controller, follower, leader = cluster.brokers
            await follower.stop()
            client = await connect(cluster, leader)
            assert accepted(await client.ask(of_one_replica(), PRODUCE_VERSION))
            cluster.network.cut(follower.host, leader.host)
            await follower.start()
            assert await ready(cluster, follower)
            cluster.network.heal()
            while await ready(cluster, follower):
                await asyncio.sleep(0.1)
            assert follower.log_end("t", 0) == leader.log_end("t", 0)

    run_virtual(main)


def test_without_a_session_nobody_is_ready() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, SETTINGS) as cluster:
            (broker,) = cluster.brokers
            cluster.zookeeper.partition(broker.store)
            while not broker.server.services.identity.session_over:
                await asyncio.sleep(1)
            assert await ready(cluster, broker) == "not registered"

    run_virtual(main)


def test_an_address_that_is_none_is_refused() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, SETTINGS) as cluster:
            (broker,) = cluster.brokers
            assert (await get(cluster, broker, "http://["))[0] == "HTTP/1.1 400 Bad Request"
            assert (await get(cluster, broker, "/nowhere"))[0] == "HTTP/1.1 404 Not Found"
            assert (await get(cluster, broker, f"/journal?after={'9' * 5000}"))[0] == "HTTP/1.1 200 OK"

    run_virtual(main)


def test_a_broker_is_ready_while_replicas_are_being_added_to_it() -> None:
    """A move of some days kept it out of its service, and a rolling restart waited as long."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 4, SETTINGS) as cluster:
            _controller, leader, stays, new = cluster.brokers
            await create_topic(cluster, [1, 2])
            cluster.network.cut(leader.host, new.host)
            (active,) = (one.server.services for one in cluster.brokers if one.server.services.controller.is_active)
            await active.controller.alter_reassignments({TopicPartition(TOPIC, 0): [1, 2, 3]})
            metadata = new.server.services.metadata
            while (state := metadata.partition(TOPIC, 0)) is None or 3 not in state.replicas:
                await asyncio.sleep(0.1)
            assert state.isr == [1, 2]
            assert [await ready(cluster, broker) for broker in cluster.brokers] == ["", "", "", ""]

            cluster.network.cut(leader.host, stays.host)
            client = await connect(cluster, leader)
            while not await ready(cluster, stays):
                assert accepted(await client.ask(of_one_replica(), PRODUCE_VERSION))
                await asyncio.sleep(1)
            assert (await ready(cluster, stays), await ready(cluster, new)) == ("not in the ISR of t-0", "")

    run_virtual(main)
