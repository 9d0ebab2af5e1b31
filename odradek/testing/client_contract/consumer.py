"""The consumer's part of the contract."""

from collections.abc import Callable, Collection
from typing import Any

from odradek.client.consumer.subscription import RebalanceListener
from odradek.client.errors import (
    ClientClosed,
    ConfigError,
)
from odradek.client.metrics import MetricName
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.testing.client_contract.worlds import LONG_MS, ContractWorld, raises, read


async def check_subscribe_and_commit(world: ContractWorld) -> None:
    topic = await world.topic(partitions=2, values=4)
    where = TopicPartition(topic, 0)
    heard: list[tuple[str, list[TopicPartition]]] = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
            heard.append(("assigned", sorted(assigned)))

        def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            heard.append(("revoked", sorted(revoked)))

    consumer = await world.consumer(group_id=topic, enable_auto_commit=False)
    await raises(ConfigError, consumer.getmany)
    consumer.subscribe([topic], listener=Listener())
    assert await read(consumer, 4) == [b"0", b"1", b"2", b"3"]
    both = [where, TopicPartition(topic, 1)]
    assert heard == [("assigned", both)] and consumer.assignment() == set(both) and consumer.subscription() == {topic}
    assert consumer.group_metadata().group_id == topic and consumer.group_metadata().generation_id > 0
    assert await consumer.committed(where) is None
    await consumer.commit({where: OffsetAndMetadata(3, "note")})
    assert (await consumer.committed(where), (await consumer.committed_offsets(where))[where].metadata) == (3, "note")
    await consumer.commit()
    assert await consumer.committed(where) == 4
    told: list[Any] = []
    consumer.commit_later({where: 1}, lambda offsets, error: told.append((offsets[where].offset, error)))
    await world.until(lambda: _polled(consumer, lambda: bool(told)), "a commit's callback")
    assert told == [(1, None)]
    await consumer.unsubscribe()
    assert heard[1:] == [("revoked", both)] and consumer.assignment() == set() and consumer.subscription() == set()
    await consumer.close()
    await consumer.close()
    await raises(ClientClosed, consumer.commit)


async def check_a_pattern_and_two_members(world: ContractWorld) -> None:
    topic = await world.topic(partitions=2, values=2)
    members = [await world.consumer(group_id=topic, metadata_max_age_ms=300) for _ in range(2)]
    for member in members:
        member.subscribe(pattern=f"{topic[:-1]}.")

    async def shared() -> bool:
        for member in members:
            await member.getmany(50)
        return sorted(len(member.assignment()) for member in members) == [1, 1]

    await world.until(shared, "each has a partition")
    assert members[0].subscription() == {topic}
    await members[0].close()
    await world.until(
        lambda: _polled(members[1], lambda: len(members[1].assignment()) == 2), "who stays gets the partitions"
    )


async def _polled(consumer: Any, condition: Callable[[], bool]) -> bool:
    await consumer.getmany(50)
    return condition()


async def check_without_a_group(world: ContractWorld) -> None:
    topic = await world.topic(partitions=2, values=3)
    consumer = await world.consumer(topic)
    assert await read(consumer, 3) == [b"0", b"1", b"2"]
    assert len(consumer.assignment()) == 2
    await raises(ConfigError, consumer.commit)
    await raises(ConfigError, consumer.group_metadata)


async def check_positions(world: ContractWorld) -> None:
    topic = await world.topic(values=6)
    where = TopicPartition(topic, 0)
    consumer = await world.consumer()
    consumer.assign([where])
    assert await consumer.position(where) == 0
    consumer.seek(where, 4)
    assert await read(consumer, 2) == [b"4", b"5"]
    assert await consumer.position(where) == 6 and consumer.highwater(where) == 6
    consumer.seek_to_beginning()
    assert await consumer.position(where) == 0
    consumer.seek_to_end(where)
    assert await consumer.position(where) == 6
    consumer.seek_to_beginning(where)
    consumer.pause(where)
    assert consumer.paused() == {where} and await consumer.getmany(200) == {}
    consumer.resume(where)
    assert consumer.paused() == set() and len(await read(consumer, 6)) == 6
    await raises(ConfigError, lambda: consumer.seek(TopicPartition(topic, 7), 0))
    await raises(TypeError, lambda: consumer.seek(where, 1.0))


async def check_reading_one_by_one_and_waking(world: ContractWorld) -> None:
    topic = await world.topic(values=3)
    where = TopicPartition(topic, 0)
    consumer = await world.consumer()
    consumer.assign([where])
    for number in range(2):
        assert (await consumer.getone()).value == b"%d" % number
        assert await consumer.position(where) == number + 1
    assert len((await consumer.getmany(LONG_MS, 1))[where]) == 1
    consumer.wakeup()
    assert await consumer.getmany(LONG_MS) == {}


async def check_what_a_consumer_knows(world: ContractWorld) -> None:
    topic = await world.topic(partitions=2)
    where, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer = await world.producer()
    for number in range(3):
        await (await producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1_600_000_000_000 + number))
    consumer = await world.consumer(topic)
    assert await consumer.beginning_offsets([where, other]) == {where: 0, other: 0}
    assert await consumer.end_offsets([where, other]) == {where: 3, other: 0}
    times = await consumer.offsets_for_times({where: 1_600_000_000_001, other: 5})
    assert times[where].offset == 1 and times[where].timestamp == 1_600_000_000_001 and times[other] is None
    assert await consumer.partitions_for_topic(topic) == {0, 1}
    assert await consumer.partitions_for_topic(f"{topic}-not") is None
    assert [one.partition for one in await consumer.describe_partitions(topic)] == [0, 1]
    assert topic in await consumer.topics()
    assert len(await read(consumer, 3)) == 3 and consumer.bootstrap_connected()
    measured = consumer.metrics()["consumer-fetch-manager-metrics"]
    assert measured["records-consumed-total"] == 3 and measured["fetch-total"] > 0 < measured["bytes-consumed-rate"]
    assert (
        consumer.metrics(raw=True)[MetricName("records-consumed-total", "consumer-fetch-manager-metrics")].value() == 3
    )
    await consumer.bootstrap(LONG_MS, refresh=True)


async def check_reading_without_going_on(world: ContractWorld) -> None:
    topic = await world.topic(values=2)
    where = TopicPartition(topic, 0)
    consumer = await world.consumer(group_id=topic, enable_auto_commit=False)
    consumer.assign([where])
    for _ in range(2):
        seen = await world.until(lambda: consumer.getmany(LONG_MS, 2, update_offsets=False), "records")
        assert (seen[where][0].offset, await consumer.position(where)) == (0, 0)
    assert await read(consumer, 2) == [b"0", b"1"]
    await consumer.commit({where: OffsetAndMetadata(2, "note")})
    assert (await consumer.committed(where, metadata=True, timeout_ms=LONG_MS)).metadata == "note"
    measured = consumer.metrics()["consumer-coordinator-metrics"]
    assert measured["commit-total"] == 1 and measured["commit-latency-max"] > 0


class Interceptor:
    """Doubles values, leaves out b"left out", and notes what was committed."""

    def __init__(self) -> None:
        self.committed: list[Any] = []

    def on_consume(self, records: Any) -> Any:
        return {
            where: [one._replace(value=one.value * 2) for one in some if one.value != b"1"]
            for where, some in records.items()
        }

    def on_commit(self, offsets: Any) -> None:
        self.committed.append(dict(offsets))


class Failing:
    """An interceptor that is broken."""

    def on_consume(self, records: Any) -> Any:
        raise ZeroDivisionError

    def on_commit(self, offsets: Any) -> None:
        raise ZeroDivisionError


async def check_interceptors(world: ContractWorld) -> None:
    topic = await world.topic(values=3)
    where = TopicPartition(topic, 0)
    told = Interceptor()
    consumer = await world.consumer(group_id=topic, interceptor_classes=[Failing(), told], enable_auto_commit=False)
    consumer.assign([where])
    assert await read(consumer, 2) == [b"00", b"22"]
    await consumer.commit()
    consumer.commit_later({where: 1})
    await world.until(lambda: _polled(consumer, lambda: len(told.committed) == 2), "both commits")
    assert [offsets[where].offset for offsets in told.committed] == [3, 1]
    consumer.seek_to_beginning(where)
    assert [(await consumer.getone()).value for _ in range(2)] == [b"00", b"22"]
