"""Work of one client in a process of its own, for bench/clients.py: prints records a second and microseconds a record.

python bench/client_work.py CLIENT WORK HOST:PORT TOPIC RECORDS BYTES LINGER_MS
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple

import this_tree  # noqa: F401

PARTITIONS = 6
LINGER_MS = 5
WARM = b"%08d" % 0
"""Key of the first record, which is not measured."""
OURS, OURS_AIO = "odradek", "odradek.aio"


class Run(NamedTuple):
    """Figures of one measuring process."""

    rate: float
    """Records a second."""
    microseconds: float
    """Processor time of the process for a record."""


class Task(NamedTuple):
    """Work of one measuring process."""

    bootstrap: str
    topic: str
    records: int
    size: int
    linger_ms: int = LINGER_MS


def keys_and_values(task: Task) -> "Iterable[tuple[int, bytes, bytes]]":
    """Partition, key and value of each record; made before the time is taken."""
    value = bytes(task.size)
    return [(number % PARTITIONS, b"%08d" % number, value) for number in range(task.records)]


class Count:
    """Counts delivery reports."""

    def __init__(self) -> None:
        self.delivered = self.failed = 0

    def both(self, delivered: object, error: object) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1

    def swapped(self, error: object, delivered: object) -> None:
        self.both(delivered, error)

    def good(self, delivered: object) -> None:
        self.delivered += 1

    def future(self, future: "asyncio.Future[Any]") -> None:
        self.both(None, future.exception())


class Sum:
    """Touches records: key, value, offset."""

    def __init__(self) -> None:
        self.count = self.bytes = self.offsets = 0

    def add_all(self, records: Iterable[Any]) -> None:
        size = offsets = count = 0
        for record in records:
            size += len(record.key) + len(record.value)
            offsets += record.offset
            count += 1
        self.count += count
        self.bytes += size
        self.offsets += offsets

    def add_until(self, records: Iterable[Any], last: int) -> None:
        """Touch `last` records of an endless iterator."""
        self.add_all(islice(records, last))


def measured(work: Callable[[], None], records: int) -> Run:
    """Run it; the processor time is that of all threads of this process."""
    began, began_cpu = time.perf_counter(), time.process_time()
    work()
    took, took_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    return Run(records / took, took_cpu / records * 1e6)


# -- blocking: ours and kafka-python -----------------------------------------------------------------------------------


def produce_odradek(task: Task) -> Run:
    from odradek import KafkaProducer

    count, records = Count(), keys_and_values(task)
    with KafkaProducer(bootstrap_servers=task.bootstrap, linger_ms=task.linger_ms) as producer:
        producer.send(task.topic, bytes(task.size), WARM).result()

        def work() -> None:
            send, topic, report = producer.send, task.topic, count.both
            for partition, key, value in records:
                send(topic, value, key, partition=partition, callback=report)
            producer.flush()

        return checked(measured(work, task.records), count, task)


def produce_kafka_python(task: Task) -> Run:
    from kafka import KafkaProducer

    count, records = Count(), keys_and_values(task)
    producer = KafkaProducer(
        bootstrap_servers=task.bootstrap, linger_ms=task.linger_ms, acks="all", enable_idempotence=True
    )
    producer.send(task.topic, bytes(task.size), WARM).get()

    def work() -> None:
        send, topic, report = producer.send, task.topic, count.good
        for partition, key, value in records:
            send(topic, value, key, partition=partition).add_callback(report)
        producer.flush()

    run = checked(measured(work, task.records), count, task)
    producer.close()
    return run


def consumer_of(name: str, task: Task) -> Any:
    """A blocking consumer of all records of the topic."""
    if name == OURS:
        from odradek import KafkaConsumer, TopicPartition
    else:
        from kafka import KafkaConsumer, TopicPartition
    consumer: Any = KafkaConsumer(bootstrap_servers=task.bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(task.topic, number) for number in range(PARTITIONS)])
    return consumer


def consume_blocking(name: str, task: Task, *, batches: bool) -> Run:
    consumer, total = consumer_of(name, task), Sum()
    while not total.count:  # connections and codecs are warm after the first records
        for first in consumer.poll(timeout_ms=1_000, max_records=1).values():
            total.add_all(first)

    def in_batches() -> None:
        while total.count < task.records:
            for records in consumer.poll(timeout_ms=1_000).values():
                total.add_all(records)

    def one_by_one() -> None:
        total.add_until(consumer, task.records - total.count)

    run = measured(in_batches if batches else one_by_one, task.records)
    consumer.close()
    return complete(run, total, task)


# -- confluent-kafka ---------------------------------------------------------------------------------------------------


def produce_confluent(task: Task) -> Run:
    from confluent_kafka import Producer

    count, records = Count(), keys_and_values(task)
    producer = Producer(
        {
            "bootstrap.servers": task.bootstrap,
            "linger.ms": task.linger_ms,
            "acks": "all",
            "enable.idempotence": True,
        }
    )
    producer.produce(task.topic, bytes(task.size), WARM)
    producer.flush()

    def work() -> None:
        topic, report = task.topic, count.swapped
        for partition, key, value in records:
            while True:
                try:
                    producer.produce(topic, value, key, partition, report)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        producer.flush()

    return checked(measured(work, task.records), count, task)


def consume_confluent(task: Task, *, batches: bool) -> Run:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": task.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(task.topic, number, 0) for number in range(PARTITIONS)])
    total = Sum()

    def add_all(records: Iterable[Any]) -> None:
        for record in records:
            total.bytes += len(record.key()) + len(record.value())
            total.offsets += record.offset()
            total.count += 1

    def in_batches() -> None:
        while total.count < task.records:
            add_all(consumer.consume(500, 1.0))

    def one_by_one() -> None:
        while total.count < task.records:
            record = consumer.poll(1.0)
            if record is not None:
                total.bytes += len(record.key()) + len(record.value())
                total.offsets += record.offset()
                total.count += 1

    while not total.count:
        add_all(consumer.consume(1, 1.0))

    run = measured(in_batches if batches else one_by_one, task.records)
    consumer.close()
    return complete(run, total, task)


# -- asyncio: ours and aiokafka ----------------------------------------------------------------------------------------


def on_a_loop(work: Callable[[], Any]) -> Run:
    """Run a coroutine on asyncio's own loop."""
    found: Run = asyncio.run(work())
    return found


async def measured_async(work: Callable[[], Any], records: int) -> Run:
    began, began_cpu = time.perf_counter(), time.process_time()
    await work()
    took, took_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    return Run(records / took, took_cpu / records * 1e6)


async def produce_aio(task: Task) -> Run:
    from odradek.aio import Producer

    count, records = Count(), keys_and_values(task)
    async with Producer(bootstrap_servers=task.bootstrap, linger_ms=task.linger_ms) as producer:
        await (await producer.send(task.topic, bytes(task.size), WARM))

        async def work() -> None:
            send, topic, report = producer.send, task.topic, count.both
            for partition, key, value in records:
                await send(topic, value, key, partition=partition, callback=report)
            await producer.flush()

        return checked(await measured_async(work, task.records), count, task)


async def produce_aiokafka(task: Task) -> Run:
    from aiokafka import AIOKafkaProducer

    count, records = Count(), keys_and_values(task)
    producer = AIOKafkaProducer(
        bootstrap_servers=task.bootstrap, linger_ms=task.linger_ms, acks="all", enable_idempotence=True
    )
    await producer.start()
    await producer.send_and_wait(task.topic, bytes(task.size), WARM)

    async def work() -> None:
        send, topic, report = producer.send, task.topic, count.future
        for partition, key, value in records:
            (await send(topic, value, key, partition=partition)).add_done_callback(report)
        await producer.flush()
        while count.delivered + count.failed < task.records:
            await asyncio.sleep(0)

    run = checked(await measured_async(work, task.records), count, task)
    await producer.stop()
    return run


async def consume_async(name: str, task: Task, *, batches: bool) -> Run:
    consumer: Any
    if name == OURS_AIO:
        from odradek import TopicPartition
        from odradek.aio import Consumer

        consumer = Consumer(bootstrap_servers=task.bootstrap, auto_offset_reset="earliest")
    else:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(bootstrap_servers=task.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(task.topic, number) for number in range(PARTITIONS)])
    total = Sum()
    while not total.count:
        for first in (await consumer.getmany(timeout_ms=1_000, max_records=1)).values():
            total.add_all(first)

    async def in_batches() -> None:
        while total.count < task.records:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                total.add_all(records)

    async def one_by_one() -> None:
        size = offsets = 0
        left = task.records - total.count
        async for record in consumer:
            size += len(record.key) + len(record.value)
            offsets += record.offset
            left -= 1
            if not left:
                break
        total.bytes += size
        total.count, total.offsets = task.records, total.offsets + offsets

    run = await measured_async(in_batches if batches else one_by_one, task.records)
    await (consumer.close() if name == OURS_AIO else consumer.stop())
    return complete(run, total, task)


# -- the end of each -------------------------------------------------------------------------------------------------


def checked(run: Run, count: Count, task: Task) -> Run:
    assert (count.delivered, count.failed) == (task.records, 0), (count.delivered, count.failed)
    return run


def complete(run: Run, total: Sum, task: Task) -> Run:
    assert total.bytes == task.records * (task.size + 8), total.bytes
    return run


def run_here(client: str, work: str, task: Task) -> Run:
    """Do one piece of work with one client, in this process."""
    batches = work == "batches"
    if client in (OURS, "kafka-python"):
        if work == "produce":
            return (produce_odradek if client == OURS else produce_kafka_python)(task)
        return consume_blocking(client, task, batches=batches)
    if client == "confluent-kafka":
        return produce_confluent(task) if work == "produce" else consume_confluent(task, batches=batches)
    if work == "produce":
        return on_a_loop(lambda: (produce_aio if client == OURS_AIO else produce_aiokafka)(task))
    return on_a_loop(lambda: consume_async(client, task, batches=batches))


if __name__ == "__main__":
    client, work, bootstrap, topic, *numbers = sys.argv[1:]
    print(json.dumps(run_here(client, work, Task(bootstrap, topic, *map(int, numbers)))))
