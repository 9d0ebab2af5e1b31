"""Requests to other brokers and to the controller: several in flight, and given up when nobody need wait any more."""

import asyncio
from typing import Any

import pytest

from odradek.broker.cluster.broker_client import BrokerClient
from odradek.broker.cluster.metadata_cache import NO_CONTROLLER, MetadataCache
from odradek.broker.cluster.peer import BrokerUnreachable
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)

LISTENER = "PLAINTEXT"
HANGS = "overtaken"
"""The group id of a Heartbeat that is answered when the test says so."""


def tell(metadata: MetadataCache, brokers: dict[int, tuple[str, int]], controller_id: int = 1) -> None:
    """As a controller's UpdateMetadata: these brokers live."""
    live = [
        UpdateMetadataBroker(id=broker, endpoints=[UpdateMetadataEndpoint(port=port, host=host, listener=LISTENER)])
        for broker, (host, port) in brokers.items()
    ]
    metadata.update(UpdateMetadataRequest(controller_id=controller_id, live_brokers=live))


def client_of(harness: Any, metadata: MetadataCache) -> BrokerClient:
    return BrokerClient(harness.network.host("client"), harness.clock, harness.tasks, metadata, LISTENER, "me")


def beat(number: int, group_id: str = "") -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group_id, generation_id=number)


def test_requests_to_the_controller_and_to_brokers(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        metadata = MetadataCache()
        client = client_of(harness, metadata)
        tell(metadata, {1: ("broker", harness.port), 2: ("broker", harness.port)})
        requests = [client.to_controller(beat(n), 4, 1000) for n in range(3)]
        requests += [client.to_broker(2, beat(n), 4, 1000) for n in range(3, 6)]
        answers = await asyncio.gather(*requests)
        assert [answer.error_code for answer in answers if isinstance(answer, HeartbeatResponse)] == list(range(6))
        assert harness.server.connections == 2, "one to the controller, one to the broker, however many requests"
        client.close()
        client.close()

    play(scenario)


def test_nobody_known_is_unreachable(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        metadata = MetadataCache()
        client = client_of(harness, metadata)
        with pytest.raises(BrokerUnreachable, match="the controller has no address"):
            await client.to_controller(beat(1), 4, 1000)
        with pytest.raises(BrokerUnreachable, match="broker 2 has no address"):
            await client.to_broker(2, beat(1), 4, 1000)
        tell(metadata, {1: ("broker", harness.port)})
        assert await client.to_controller(beat(1), 4, 1000)

    play(scenario)


def test_a_closed_client_opens_no_connection_that_nobody_would_close(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        metadata = MetadataCache()
        client = client_of(harness, metadata)
        tell(metadata, {1: ("broker", harness.port), 2: ("broker", harness.port)})
        client.close()
        with pytest.raises(BrokerUnreachable, match="closed here"):
            await client.to_broker(2, beat(1), 4, 1000)
        with pytest.raises(BrokerUnreachable, match="closed here"):
            await client.to_controller(beat(1), 4, 1000)
        assert harness.server.connections == 0

    play(scenario)


@pytest.mark.parametrize("successor", [2, NO_CONTROLLER])
def test_a_controller_that_hangs_holds_nobody_when_it_is_deposed(play: Any, successor: int) -> None:
    async def scenario(harness: Any) -> None:
        metadata = MetadataCache()
        client = client_of(harness, metadata)
        tell(metadata, {1: ("broker", harness.port), 2: ("broker", harness.port)})
        waiting = [asyncio.ensure_future(client.to_controller(beat(n, HANGS), 4, 30_000)) for n in range(2)]
        await harness.settle()
        began_ms = harness.clock.monotonic_ms()
        metadata.controller_changed(1)
        await harness.settle()
        assert not any(one.done() for one in waiting), "the same one once more"
        metadata.controller_changed(successor)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, BrokerUnreachable) for result in results)
        assert harness.clock.monotonic_ms() - began_ms < 1000
        metadata.controller_changed(2)
        assert await client.to_controller(beat(7), 4, 1000)
        client.close()

    play(scenario)


@pytest.mark.parametrize("brokers", [{}, {2: ("elsewhere", 1)}], ids=["dead", "moved"])
def test_a_broker_that_hangs_holds_nobody_when_it_is_gone(play: Any, brokers: dict[int, tuple[str, int]]) -> None:
    async def scenario(harness: Any) -> None:
        metadata = MetadataCache()
        client = client_of(harness, metadata)
        here = ("broker", harness.port)
        tell(metadata, {1: here, 2: here, 3: here})
        to_the_gone = asyncio.ensure_future(client.to_broker(2, beat(1, HANGS), 4, 30_000))
        to_another = asyncio.ensure_future(client.to_broker(3, beat(2, HANGS), 4, 30_000))
        to_the_controller = asyncio.ensure_future(client.to_controller(beat(3, HANGS), 4, 30_000))
        await harness.settle()
        tell(metadata, {1: here, 3: here, **brokers})
        with pytest.raises(BrokerUnreachable, match="given up"):
            await to_the_gone
        for number in (2, 3):
            harness.finish(number)
        assert await to_another and await to_the_controller
        tell(metadata, {1: here, 2: here, 3: here})
        assert await client.to_broker(2, beat(4), 4, 1000), "it is back"
        client.close()

    play(scenario)


def test_nothing_is_in_flight_after_close(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        metadata = MetadataCache()
        client = client_of(harness, metadata)
        tell(metadata, {1: ("broker", harness.port)})
        waiting = asyncio.ensure_future(client.to_controller(beat(1, HANGS), 4, 30_000))
        await harness.settle()
        client.close()
        with pytest.raises(BrokerUnreachable):
            await waiting
        tell(metadata, {})

    play(scenario)
