"""Batches that are larger than their topic takes: a producer's default batch is, where a topic has small limits."""

import random
from typing import Any

import pytest

from odradek import NewTopic, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual

SMALL_BYTES = 20_000
SERVER = "broker-0:9092"
COORDINATOR = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
PRODUCERS: dict[str, dict[str, Any]] = {
    "idempotent": {},
    "transactional": {"transactional_id": "one"},
    "one at a time": {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1},
    "compressed": {"compression_type": "gzip"},
}


async def create(world: dict[str, Any], **settings: str) -> None:
    async with Admin(bootstrap_servers=SERVER, **world) as admin:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        await admin.create_topics([NewTopic("t", 1, 1, configs=given)])


async def read(world: dict[str, Any], count: int) -> list[tuple[int, bytes | None]]:
    found: list[tuple[int, bytes | None]] = []
    settings: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with Consumer(bootstrap_servers=SERVER, **settings, **world) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        while len(found) < count:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                found += [(record.offset, record.value) for record in records]
    return found


@pytest.mark.parametrize("limit", ["max_message_bytes", "segment_bytes"])
@pytest.mark.parametrize("settings", PRODUCERS.values(), ids=PRODUCERS)
def test_all_records_arrive_once_and_in_order(settings: dict[str, Any], limit: str) -> None:
    """The first batch alone, when the broker knows nothing of the producer, then as many at once as there may be."""
    chance = random.Random(3)
    values = [chance.randbytes(990) + b"%010d" % number for number in range(250)]

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, COORDINATOR) as cluster:
            world: dict[str, Any] = {"network": cluster.network.host("client"), "clock": clock}
            await create(world, **{limit: str(SMALL_BYTES)})
            async with Producer(bootstrap_servers=SERVER, **settings, **world) as producer:
                if producer.config.transactional_id is not None:
                    await producer.init_transactions()
                    await producer.begin_transaction()
                futures = [await producer.send("t", value, partition=0) for value in values[:70]]
                await producer.flush()
                futures += [await producer.send("t", value, partition=0) for value in values[70:]]
                if producer.config.transactional_id is not None:
                    await producer.commit_transaction()
                assert [(await future).offset for future in futures] == list(range(len(values)))
                assert producer.metrics()["producer-metrics"]["batch-size-max"] > 3 * SMALL_BYTES
            assert await read(world, len(values)) == list(enumerate(values))

    run_virtual(main)


def test_a_batch_is_no_larger_than_a_request_may_be() -> None:
    """Who has set max.request.size below a batch's default size, for brokers that take no more, gets none beyond it."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, COORDINATOR) as cluster:
            world: dict[str, Any] = {"network": cluster.network.host("client"), "clock": clock}
            await create(world)
            async with Producer(bootstrap_servers=SERVER, max_request_size=SMALL_BYTES, **world) as producer:
                for number in range(100):
                    await producer.send("t", b"%01000d" % number, partition=0)
                await producer.flush()
                assert SMALL_BYTES / 2 < producer.metrics()["producer-metrics"]["batch-size-max"] <= SMALL_BYTES
            assert await read(world, 100) == [(number, b"%01000d" % number) for number in range(100)]

    run_virtual(main)
