"""The part of the contract of `Producer` and `SimpleConsumer`, the clients of Kafka 0.8."""

import asyncio
from functools import partial
from typing import Any

from odradek.client.errors import (
    ClientClosed,
    ConfigError,
    UnsupportedByBroker,
)
from odradek.client.original import (
    EARLIEST_TIME,
    LATEST_TIME,
    FetchRequest,
    KeyedMessage,
    Message,
    MessageAndOffset,
    StringEncoder,
)
from odradek.client.original import Producer as OriginalProducer
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.client_contract.worlds import ContractWorld, raises, read


async def check_simple_consumer(world: ContractWorld) -> None:
    topic = await world.topic(partitions=2, values=3)
    where, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    host, _, port = world.bootstrap[0].rpartition(":")
    first = await world.simple_consumer(host, int(port))
    (described,) = await first.topic_metadata([topic])
    assert topic in {one.name for one in await first.topic_metadata()}
    leader = await world.simple_consumer(*await first.address_of(described.partitions[0].leader))
    found = await leader.fetch(FetchRequest(topic, 0, 1))
    assert list(found) == [MessageAndOffset(Message(b"%d" % n), n) for n in (1, 2)]
    assert (found.next_offset, found.high_watermark) == (3, 3) and found.size_in_bytes > 0
    assert next(iter(await leader.fetch((topic, 0, 0, 1)))).offset == 0, "a whole message, whatever the size"
    nothing = await leader.fetch(FetchRequest(topic, 0, 3), max_wait_ms=10, min_bytes=1)
    assert list(nothing) == [] and nothing.next_offset == 3
    error = await raises(KafkaError, lambda: leader.fetch(FetchRequest(topic, 0, 4)))
    assert error.code is ErrorCode.OFFSET_OUT_OF_RANGE
    good, bad = await leader.multifetch([FetchRequest(topic, 0, 2), FetchRequest(topic, 7, 0)])
    assert [one.next_offset for one in good] == [3]
    await raises(KafkaError, lambda: list(bad))
    await raises(ConfigError, lambda: leader.multifetch([FetchRequest(topic, 0, 0), FetchRequest(topic, 0, 1)]))
    if world.kraft:  # the versions that this consumer and no newer one speaks are gone
        await raises(UnsupportedByBroker, lambda: leader.get_offsets_before(topic, 0, LATEST_TIME, 5))
        return
    assert await leader.get_offsets_before(topic, 0, LATEST_TIME, 5) == [3, 0]
    assert await leader.get_offsets_before(topic, 0, EARLIEST_TIME, 5) == [0]
    assert await leader.get_offsets_before(topic, 0, 2**62, 5) == [3, 0]
    await raises(KafkaError, lambda: leader.get_offsets_before(f"{topic}-not", 0, LATEST_TIME, 5))
    group = await world.until(partial(_coordinated, first, topic), "a coordinator")
    keeper = await world.simple_consumer(*group)
    for storage in ("kafka", "zookeeper"):
        await world.until(partial(_committed, keeper, f"{topic}-{storage}", {where: 2}, storage), "a commit")
        kept = await keeper.fetch_offsets(f"{topic}-{storage}", [where, other], storage)
        assert {tp: one.offset for tp, one in kept.items()} == {where: 2}
    await raises(ConfigError, lambda: keeper.fetch_offsets(topic, [where], "tape"))
    await leader.close()
    await raises(ClientClosed, lambda: leader.fetch(FetchRequest(topic, 0, 0)))


async def _coordinated(consumer: Any, topic: str) -> Any:
    """Return the coordinator of the topic's groups; None while there is none."""
    try:
        return await consumer.find_coordinator(f"{topic}-kafka")
    except KafkaError as error:
        assert error.retriable
        return None


async def _committed(keeper: Any, *given: Any) -> bool:
    """Commit; False while the coordinator refuses: it may be about to take its first group."""
    try:
        await keeper.commit_offsets(*given)
    except KafkaError as error:
        assert error.retriable
        return False
    return True


async def socket_check_original_producer(world: ContractWorld) -> None:
    topic = await world.topic(partitions=3)
    settings = {"metadata.broker.list": world.bootstrap, "serializer.class": StringEncoder}
    for kind, acks in (("sync", 1), ("sync", -1), ("async", 0)):
        given = {**settings, "producer.type": kind, "request.required.acks": acks}
        with await asyncio.to_thread(OriginalProducer, given) as producer:
            texts = [f"{kind} {acks} {number}" for number in range(5)]
            await asyncio.to_thread(producer.send, [KeyedMessage(topic, text, key="b") for text in texts])
            await asyncio.to_thread(producer.close)
    consumer = await world.consumer()
    consumer.assign([TopicPartition(topic, 98 % 3)])
    expected = [
        b"%s %d %d" % (kind, acks, n) for kind, acks in ((b"sync", 1), (b"sync", -1), (b"async", 0)) for n in range(5)
    ]
    assert await read(consumer, 15) == expected
