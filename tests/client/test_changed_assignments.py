"""Partitions that an application, or its group, takes from a consumer: what becomes of the records handed out."""

import asyncio
from typing import Any

import pytest

from odradek.aio import Consumer, Producer
from odradek.client.errors import ConfigError
from odradek.client.records import TopicPartition
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.testing import run
from odradek.testing.patience import wait_until
from odradek.testing.virtual_run import VirtualCluster
from tests.client.group_of_one import consumer
from tests.client.one_member import T0, T1, Bench

SETTINGS: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "auto_commit_interval_ms": 1_000}


@pytest.mark.parametrize("change", ["assign", "unsubscribe"])
def test_what_was_read_of_partitions_that_an_application_gives_up_is_committed_when_it_is_time(change: str) -> None:
    """No poll came any more that committed it, and so it was read again (KafkaConsumerTest)."""

    async def main(cluster: VirtualCluster) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            await (await producer.send("t", b"", partition=0))
        async with Consumer(bootstrap_servers=cluster.bootstrap, **SETTINGS) as reading:
            reading.assign([T0])
            await reading.getmany(10_000)
            await asyncio.sleep(2)
            if change == "assign":
                reading.assign([T1])
            else:
                await reading.unsubscribe()
            await asyncio.sleep(1)
            assert await reading.committed(T0) == 1

    run(main, brokers=1, topics={"t": 2})


def test_a_member_that_has_changed_its_subscription_meanwhile_is_not_given_the_topics_of_before() -> None:
    """It had joined with the old ones, and was told to read them, although it had let go of them."""
    bench = Bench()
    bench.start()
    bench.prepare()
    bench.join(1)
    bench.member.subscribe(["u"])
    bench.sync(T0, TopicPartition("u", 0))
    assert bench.adopt().all == (TopicPartition("u", 0),)
    assert bench.prepare().revoked == (TopicPartition("u", 0),)


def test_a_member_is_not_assigned_nothing_while_it_keeps_its_partitions() -> None:
    """It stayed in its group, and owned partitions that nobody read."""

    async def main(cluster: VirtualCluster) -> None:
        async with Consumer("t", bootstrap_servers=cluster.bootstrap, **SETTINGS) as reading:
            await reading.getmany(10_000)
            owned = reading.assignment()
            with pytest.raises(ConfigError, match=r"subscribed to topics: await unsubscribe"):
                reading.assign([])
            assert reading.assignment() == owned
            await reading.unsubscribe()
            reading.assign([])
            reading.assign([T0])
            reading.assign([])
            assert not reading.assignment()

    run(main, brokers=1, topics={"t": 2})


def test_a_blocking_consumer_that_is_assigned_nothing_leaves_its_group(broker: Any) -> None:
    with consumer(broker) as reading:
        reading.subscribe(["t"])
        wait_until(lambda: bool(reading.poll(10) or reading.assignment()), "its partition")
        reading.assign([])
        assert broker.requests(LeaveGroupRequest) and not reading.assignment() and not reading.subscription()
