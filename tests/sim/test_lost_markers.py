"""A follower that comes back when the marker of a transaction, whose records it has, has been compacted away."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from odradek import NewTopic
from odradek.aio import Admin, Consumer, Producer
from odradek.broker.replication.partition import Partition
from odradek.client.records import TopicPartition
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual

SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "log.cleaner.backoff.ms": "100",
    "producer.id.expiration.ms": "2000",
    "producer.id.expiration.check.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "2",
}
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "500",
}
T0 = TopicPartition("t", 0)


def replica(broker: EmbeddedBroker) -> Partition:
    return broker.server.services.replicas.partitions[("t", 0)]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.05)


def settings(cluster: EmbeddedCluster, clock: VirtualClock) -> dict[str, Any]:
    return {
        "bootstrap_servers": [f"{broker.host}:{cluster.port}" for broker in cluster.brokers],
        "network": cluster.network.host("client"),
        "clock": clock,
        "random": Random(0),
    }


async def transactional_producer(ours: dict[str, Any]) -> Producer:
    """A producer that may begin; its topic has a partition on both brokers, led by the first."""
    async with Admin(**ours) as admin:
        await admin.create_topics([NewTopic("__transaction_state", replica_assignments={0: [0, 1]})])
        await admin.create_topics([NewTopic("t", replica_assignments={0: [0, 1]}, configs=TOPIC_CONFIGS)])
    producer = Producer(transactional_id="x", **ours)
    await producer.start()
    await producer.init_transactions()
    return producer


@pytest.mark.parametrize("away", ["dead", "cut off"])
def test_a_follower_copies_again_what_it_cannot_know_the_end_of(away: str) -> None:
    """It would lead with a transaction open for ever: nobody read on who reads what is committed.

    It follows in the same leader epoch as before; one that was only cut off is told nothing at all.
    """

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=2, overrides=SETTINGS) as cluster:
            stays, goes = cluster.brokers
            ours = settings(cluster, clock)
            producer = await transactional_producer(ours)
            await producer.begin_transaction()
            await (await producer.send("t", b"old", key=b"key"))
            await until(lambda: replica(goes).log.log_end_offset == 1)
            if away == "dead":
                goes.kill()
            else:
                cluster.network.cut(stays.host, goes.host)
            await producer.commit_transaction()
            await producer.close()
            await until(lambda: replica(stays).committed_isr == {0})
            async with Producer(**ours) as others:
                while any(batch.is_transactional for batch in batches_of(replica(stays))):
                    await (await others.send("t", b"new", key=b"key"))
                    await asyncio.sleep(0.3)
            assert goes.log_end("t", 0) == 1
            if away == "dead":
                await goes.start()
            cluster.network.heal()
            await until(lambda: replica(stays).committed_isr == {0, 1})
            assert replica(goes).leader_epoch == 0
            stays.kill()
            await until(lambda: replica(goes).is_leader)
            assert replica(goes).last_stable_offset == replica(goes).high_watermark
            async with Consumer(isolation_level="read_committed", auto_offset_reset="earliest", **ours) as consumer:
                consumer.assign([T0])
                (records,) = (await consumer.getmany(timeout_ms=5_000)).values()
                assert {record.value for record in records} == {b"new"}
            await stays.start()

    run_virtual(main)


def test_what_was_aborted_is_not_committed_by_the_next_transaction_of_its_producer() -> None:
    """Its marker would end both: readers got an aborted record, and compaction took the committed one before it."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=2, overrides=SETTINGS) as cluster:
            stays, goes = cluster.brokers
            ours = settings(cluster, clock)
            producer = await transactional_producer(ours)

            async def commit(key: bytes, value: bytes) -> None:
                await producer.begin_transaction()
                await (await producer.send("t", value, key=key))
                await producer.commit_transaction()

            await commit(b"key", b"committed")
            await producer.begin_transaction()
            await (await producer.send("t", b"aborted", key=b"key"))
            await until(lambda: replica(goes).log.log_end_offset == 3)
            goes.kill()
            await until(lambda: replica(stays).committed_isr == {0})
            await producer.abort_transaction()
            await until(lambda: replica(stays).log.log_end_offset == 4)
            while any(batch.base_offset == 3 for batch in batches_of(replica(stays))):
                await commit(b"other", b"later")
                await asyncio.sleep(0.3)
            await producer.close()
            assert goes.log_end("t", 0) == 3
            await goes.start()
            await until(lambda: replica(stays).committed_isr == {0, 1})
            stays.kill()
            await until(lambda: replica(goes).is_leader)
            async with Consumer(isolation_level="read_committed", auto_offset_reset="earliest", **ours) as consumer:
                consumer.assign([T0])
                (records,) = (await consumer.getmany(timeout_ms=5_000)).values()
                assert [record.value for record in records if record.key == b"key"] == [b"committed"]
            await stays.start()

    run_virtual(main)


def batches_of(partition: Partition) -> list[Any]:
    segments = partition.log.segments
    return [batch for one in segments if one.size_bytes for batch in one.batches_from(one.base_offset)]
