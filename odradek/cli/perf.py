"""`odradek perf produce|consume|latency`: how fast this cluster is for these Python clients."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer

from odradek.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    NO_NEW_TOPIC,
    Acks,
    BootstrapServer,
    Json,
    Properties,
    chosen,
    command_config,
    new_app,
    settings,
)
from odradek.cli.output import print_json, print_table

perf = new_app("Measure produce, consume and latency.")

Records = Annotated[int, typer.Option(min=1, help="number of records")]
Size = Annotated[int, typer.Option(min=1, help="size of each record in bytes")]
Report = dict[str, float | int]
IDLE_LIMIT_SECONDS = 10.0
"""Time without records after which consuming ends with an error."""


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[int], object]]:
    """Yield a function to call with the number of records done. It shows a bar on a terminal, elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("records", total=total)
        yield lambda done: bar.update(task, completed=done)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value that `share` of the sorted values do not exceed."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def rates(records: int, size_bytes: int, seconds: float) -> Report:
    """Return the part of a report that every run has."""
    return {
        "records": records,
        "seconds": round(seconds, 3),
        "records_per_second": round(records / seconds),
        "megabytes_per_second": round(size_bytes / seconds / 1_000_000, 2),
    }


def latencies(seconds: Sequence[float]) -> Report:
    """Return percentiles in milliseconds."""
    ordered = sorted(seconds)
    return {f"p{share * 100:g}_ms": round(percentile(ordered, share) * 1000, 3) for share in (0.5, 0.95, 0.99, 0.999)}


def show(report: Report, *, as_json: bool) -> None:
    """Print a report as one line of JSON, or as a table."""
    if as_json:
        print_json(report)
    else:
        print_table(list(report), [list(report.values())])


@perf.command()
def produce(
    topic: str,
    records: Records = 100_000,
    size: Size = 100,
    acks: Acks = None,
    property: Properties = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Send records as fast as the brokers take them."""
    from odradek.client.producer.client import KafkaProducer

    config = {"linger.ms": "5", "max.block.ms": "15000", **settings(property), **chosen(acks=acks)}
    value = b"x" * size
    waits: list[float] = []
    failures: list[Exception] = []

    def sent_at(started: float) -> Callable[[Any, Exception | None], object]:
        def acknowledged(metadata: Any, error: Exception | None) -> None:
            if error is None:
                waits.append(time.perf_counter() - started)
            else:
                failures.append(error)

        return acknowledged

    with KafkaProducer(config, bootstrap_servers=bootstrap_server) as producer, progress(records) as done:
        producer.partitions_for(topic)
        began = time.perf_counter()
        for number in range(records):
            producer.send(topic, value, callback=sent_at(time.perf_counter()))
            if number % 1_000 == 0:
                done(number)
        producer.flush()
        seconds = time.perf_counter() - began
    if failures:
        raise failures[0]
    show({**rates(records, records * size, seconds), **latencies(waits)}, as_json=json)


@perf.command()
def consume(
    topic: str,
    records: Records = 100_000,
    property: Properties = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Read records from the beginning, without a group."""
    from odradek.client.consumer.client import KafkaConsumer
    from odradek.client.errors import ClientTimeout
    from odradek.client.records import TopicPartition
    from odradek.protocol.errors import ErrorCode, KafkaError

    config = {"auto.offset.reset": "earliest", "max.poll.records": "5000", **NO_NEW_TOPIC, **settings(property)}
    seen = size_bytes = 0
    with KafkaConsumer(config, bootstrap_servers=bootstrap_server) as consumer, progress(records) as done:
        partitions = consumer.partitions_for_topic(topic)
        if not partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the cluster has no topic {topic}")
        consumer.assign([TopicPartition(topic, number) for number in sorted(partitions)])
        began = last = time.perf_counter()
        while seen < records:
            for batch in consumer.poll(500, min(records - seen, consumer.config.max_poll_records)).values():
                seen += len(batch)
                size_bytes += sum(len(record.value or b"") for record in batch)
                last = time.perf_counter()
            done(seen)
            if time.perf_counter() - last > IDLE_LIMIT_SECONDS:
                raise ClientTimeout(f"topic {topic}: only {seen} of {records} record(s) came: produce more first")
        seconds = time.perf_counter() - began
    show(rates(seen, size_bytes, seconds), as_json=json)


@perf.command()
def latency(
    topic: str,
    records: Records = 1_000,
    size: Size = 100,
    acks: Acks = None,
    property: Properties = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Measure the time from send to poll, one record at a time, through partition 0."""
    from odradek.client.consumer.client import KafkaConsumer
    from odradek.client.errors import ClientTimeout
    from odradek.client.producer.client import KafkaProducer
    from odradek.client.records import TopicPartition

    config = {"max.block.ms": "15000", **settings(property), **chosen(acks=acks)}
    value = b"x" * size
    waits: list[float] = []
    place = TopicPartition(topic, 0)
    with (
        KafkaProducer(config, bootstrap_servers=bootstrap_server) as producer,
        KafkaConsumer(dict(command_config), bootstrap_servers=bootstrap_server) as consumer,
        progress(records) as done,
    ):
        producer.partitions_for(topic)
        consumer.assign([place])
        consumer.seek_to_end(place)
        consumer.position(place)
        began = time.perf_counter()
        for number in range(records):
            started = time.perf_counter()
            sent = producer.send(topic, value, partition=0)
            if not consumer.poll(IDLE_LIMIT_SECONDS * 1000):
                sent.result()  # raises if the record was refused, and so never comes
                if not consumer.poll(IDLE_LIMIT_SECONDS * 1000):
                    raise ClientTimeout(
                        f"topic {topic}: record {number + 1}, sent with acks={producer.config.acks}, has not arrived"
                    )
            waits.append(time.perf_counter() - started)
            done(number)
        seconds = time.perf_counter() - began
    show({**rates(records, records * size, seconds), **latencies(waits)}, as_json=json)
