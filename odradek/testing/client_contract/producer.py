"""The producer's part of the contract."""

from typing import Any

from odradek.client.errors import (
    AbortRequired,
    ClientClosed,
    ClientError,
    ConfigError,
)
from odradek.client.metrics import MetricName
from odradek.client.producer.client import KafkaProducer
from odradek.client.records import TopicPartition
from odradek.protocol.errors import KafkaError
from odradek.testing.client_contract.worlds import ContractWorld, raises, read


async def check_send(world: ContractWorld) -> None:
    topic = await world.topic()
    producer = await world.producer()
    told: list[Any] = []
    told_once = lambda metadata, error: told.append((metadata, error))  # noqa: E731
    first = await producer.send(topic, b"v", b"k", [("h", b"1"), ("n", None)], 0, 1_600_000_000_000, told_once)
    metadata = await first
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 0)
    assert metadata.timestamp == 1_600_000_000_000 and metadata.topic_partition == TopicPartition(topic, 0)
    assert told == [(metadata, None)] and first.is_done and first.succeeded() and first.value == metadata
    assert (await (await producer.send(topic, None, key=b"tombstone"))).offset == 1
    consumer = await world.consumer()
    consumer.assign([TopicPartition(topic, 0)])
    record = await consumer.getone()
    assert (record.key, record.value, record.timestamp, record.offset) == (b"k", b"v", 1_600_000_000_000, 0)
    assert list(record.headers) == [("h", b"1"), ("n", None)]
    assert (await consumer.getone()).value is None
    await raises(TypeError, lambda: producer.send(topic.encode(), b""))
    error = await raises(TypeError, lambda: producer.send(topic, b"", partition="0"))
    assert "a partition's number" in str(error)
    error = await raises(TypeError, lambda: producer.send(topic, b"", callback="told"))
    assert "the callback of a record must be a function" in str(error)
    await raises(ConfigError, lambda: producer.send(topic, b"", timestamp_ms=2**63))
    await raises(KafkaError, lambda: producer.send(topic, b"x" * 2_000_000))


async def check_flush_and_close(world: ContractWorld) -> None:
    topic = await world.topic()
    producer = await world.producer(linger_ms=20_000)
    reports = [await producer.send(topic, b"%d" % number) for number in range(5)]
    assert not reports[0].done()
    await producer.flush()
    assert all(report.succeeded() for report in reports)
    last = await producer.send(topic, b"last")
    await producer.close()
    assert (await last).offset == 5
    await producer.close()
    await raises(ClientClosed, lambda: producer.send(topic, b""))


async def check_what_a_producer_knows(world: ContractWorld) -> None:
    topic = await world.topic(partitions=3)
    producer = await world.producer()
    assert await producer.partitions_for(topic) == {0, 1, 2}
    described = await producer.describe_partitions(topic)
    assert [one.partition for one in described] == [0, 1, 2] and all(one.leader >= 0 for one in described)
    assert producer.bootstrap_connected()
    await (await producer.send(topic, b"x"))
    measured = producer.metrics()
    assert measured["producer-metrics"]["record-send-total"] == 1 <= measured["producer-metrics"]["request-total"]
    assert (
        measured["producer-metrics"]["request-latency-max"] >= measured["producer-metrics"]["request-latency-avg"] > 0
    )
    assert (
        measured["producer-metrics"]["connection-count"] > 0 < measured[f"producer-topic-metrics.{topic}"]["byte-rate"]
    )
    assert producer.metrics(raw=True)[MetricName("record-send-total", "producer-metrics")].value() == 1
    await raises(KafkaError, lambda: producer.partitions_for("no/topic"))
    versions = ((0, 9), (0, 10, 1), (0, 11), (3, 9))
    assert [KafkaProducer.max_usable_produce_magic(version) for version in versions] == [0, 1, 2, 2]


async def check_transactions(world: ContractWorld) -> None:
    topic = await world.topic(values=3)
    producer = await world.producer(transactional_id=topic)
    await raises(ClientError, producer.begin_transaction)
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send(topic, b"aborted", partition=0)
    await producer.abort_transaction()
    await producer.begin_transaction()
    await producer.send(topic, b"committed", partition=0)
    await producer.commit_transaction()
    async with producer.transaction():
        await producer.send(topic, b"in a block", partition=0)
    try:
        async with producer.transaction():
            await producer.send(topic, b"in a block that fails", partition=0)
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    consumer = await world.consumer(group_id=topic, isolation_level="read_committed", enable_auto_commit=False)
    consumer.subscribe([topic])
    assert await read(consumer, 5) == [b"0", b"1", b"2", b"committed", b"in a block"]
    where, admin = TopicPartition(topic, 0), await world.admin()
    await consumer.commit({where: 1})
    async with producer.transaction():
        await producer.send_offsets_to_transaction({where: 2}, consumer.group_metadata())
        shown = (await admin.group_lag(topic))[0].committed, (await admin.list_group_offsets(topic))[where].offset
        assert shown == (1, 1), "before the transaction's end, which may be far"
    assert await consumer.committed(where) == 2
    consumer.seek_to_committed()
    assert await read(consumer, 3) == [b"2", b"committed", b"in a block"]
    await producer.begin_transaction()
    stale = consumer.group_metadata()._replace(generation_id=999)
    error = await raises(AbortRequired, lambda: producer.send_offsets_to_transaction({where: 1}, stale))
    assert error.requires_abort
    await producer.abort_transaction()
