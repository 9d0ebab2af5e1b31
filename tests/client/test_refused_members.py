"""Consumers whose group lets nobody in: they go on asking, and say so."""

import asyncio
import logging
from typing import Any

import pytest

from odradek.aio import Consumer, Producer
from odradek.client.errors import ClientClosed
from odradek.client.records import TopicPartition
from odradek.protocol.errors import KafkaError
from odradek.testing.virtual_run import VirtualCluster, run

DRIVER = "odradek.client.consumer.group_driver"


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == DRIVER and one.levelname == "WARNING"]


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
    assert said.startswith("group g: no coordinator has let this consumer in for 5 s; it keeps trying: ")


def test_a_consumer_without_a_subscription_says_once_that_its_group_has_no_coordinator(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It read nothing, and said why at INFO alone."""

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create_topic("flights")
        settings: dict[str, Any] = {"group_id": "g", "default_api_timeout_ms": 8_000}
        async with Consumer(bootstrap_servers=cluster.bootstrap, **settings) as consumer:
            consumer.assign([TopicPartition("flights", 0)])
            for outage, api in ((1, "FindCoordinator"), (2, "OffsetFetch")):
                refused = await cluster.respond(api, "COORDINATOR_NOT_AVAILABLE", times=None)
                consumer.assign([])
                consumer.assign([TopicPartition("flights", 0)])
                await consumer.getmany(timeout_ms=30_000)
                assert len(warnings_in(caplog)) == outage
                await cluster.clear(refused)
                assert await consumer.position(TopicPartition("flights", 0)) == 0

    run(test)
    said = warnings_in(caplog)[0]
    assert said.startswith("group g: no coordinator has answered this consumer for 5 s; it keeps trying: ")


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

    caplog.set_level(logging.INFO, DRIVER)
    run(test)
    assert sum("no answer to" in one for one in caplog.messages) == 2, caplog.messages
    assert not warnings_in(caplog)


@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat"])
def test_a_consumer_without_rights_on_its_group_says_so_and_joins_when_it_has_them(api: str) -> None:
    """It raised the error for ever, also when the rights had been granted, where Java's consumer goes on."""

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create_topic("flights")
        where: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap}
        settings: dict[str, Any] = {"group_id": "g", "session_timeout_ms": 6_000, "auto_offset_reset": "earliest"}
        async with Producer(**where) as producer, Consumer("flights", **where, **settings) as consumer:
            for _ in range(1 if api == "FindCoordinator" else 2):
                refused = await cluster.respond(api, "GROUP_AUTHORIZATION_FAILED", times=None)
                for _ in range(3):
                    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
                        async with asyncio.timeout(60):
                            while True:
                                await consumer.getmany(timeout_ms=1_000)
                await cluster.clear(refused)
                await (await producer.send("flights", b"record"))
                assert await consumer.getone(timeout_ms=60_000) is not None
                await cluster.rebalance("g")

    run(test)


def test_a_static_member_that_is_fenced_stays_out() -> None:
    """If it joined again, the two would go on to fence each other."""

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create_topic("flights")
        settings: dict[str, Any] = {"group_id": "g", "group_instance_id": "i", "bootstrap_servers": cluster.bootstrap}
        async with Consumer("flights", **settings) as first, Consumer("flights", **settings) as second:
            for consumer in (first, second):
                async with asyncio.timeout(60):
                    while not consumer.assignment():
                        await consumer.getmany(timeout_ms=100)
            for _ in range(3):
                with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
                    await first.getmany(timeout_ms=20_000)
            await second.getmany(timeout_ms=20_000)
            assert second.assignment()

    run(test)


@pytest.mark.parametrize(
    ("api", "error", "raised"),
    [
        ("Heartbeat", "UNKNOWN_SERVER_ERROR", ""),
        ("Heartbeat", "REQUEST_TIMED_OUT", ""),
        ("SyncGroup", "REQUEST_TIMED_OUT", ""),
        ("SyncGroup", "UNKNOWN_SERVER_ERROR", "UNKNOWN_SERVER_ERROR"),
        ("JoinGroup", "UNKNOWN_SERVER_ERROR", "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_an_error_that_passes_does_not_keep_the_group_waiting_for_a_session_to_end(
    api: str, error: str, raised: str
) -> None:
    """The member gave everything up and came back as another one, while the group waited for the first for 45 s."""

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create_topic("flights", partitions=2)
        settings: dict[str, Any] = {"group_id": "g", "bootstrap_servers": cluster.bootstrap}
        said: list[str] = []

        async def read(consumer: Consumer) -> None:
            while True:
                try:
                    await consumer.getmany(timeout_ms=1_000)
                except ClientClosed:
                    return
                except KafkaError as refusal:
                    said.append(refusal.code.name)
                    await asyncio.sleep(0.1)

        async with (
            Consumer("flights", client_id="first", **settings) as first,
            Consumer("flights", client_id="second", **settings) as second,
        ):
            reading = [asyncio.ensure_future(read(one)) for one in (first, second)]
            await asyncio.sleep(20)
            await cluster.respond(api, error, client="first")
            if api != "Heartbeat":
                await cluster.rebalance("g")
            for _ in range(10):
                await asyncio.sleep(1)
                assert api != "Heartbeat" or len(first.assignment()) == len(second.assignment()) == 1
            assert len(first.assignment()) == len(second.assignment()) == 1
            assert said == ([raised] if raised else [])
        await asyncio.gather(*reading)

    run(test)
