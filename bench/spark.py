"""Spark reads and writes a topic: `format("odradek")` beside Spark's own `format("kafka")`, in one session, in turns.

    python bench/spark.py [--records 2000000] [--rounds 3] [--master local[2]] [--jars DIR]

Both read the same records of 100 bytes from one broker; a query counts them and sums the lengths of their values, so
that every row and every value crosses into the JVM. Then both write as many rows, with acks=all, without keys, which
Spark makes from numbers; ours at least once as theirs, and for comparison exactly once. DIR holds the connector's jars,
which `mvn dependency:copy-dependencies` of tests/spark/kafka_connector/pom.xml brings (the tests do that too).
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import this_tree  # noqa: F401

from odradek import KafkaAdminClient, KafkaProducer, NewTopic, TopicPartition
from odradek.testing.up import UpCluster

ROOT = Path(__file__).resolve().parent.parent
TOPIC, PARTITIONS, VALUE_BYTES = "bench", 6, 100
GOAL = 1.0
LATEST = -1
FORMATS = ("odradek", "kafka")
EXACTLY_ONCE = "odradek, exactly once"
WRITERS = (*FORMATS, EXACTLY_ONCE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000, help="number of records")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds, of which the medians are shown")
    parser.add_argument("--master", default="local[2]", help="Spark's master")
    parser.add_argument(
        "--jars", type=Path, default=ROOT / ".cache" / "spark-kafka" / "jars", help="Spark's own connector"
    )
    arguments = parser.parse_args()
    jars = sorted(arguments.jars.glob("*.jar"))
    if not jars:
        sys.exit(f"no jars in {arguments.jars}: run pytest tests/spark once, or mvn as the help says")
    with tempfile.TemporaryDirectory() as folder, UpCluster(Path(folder) / "cluster", brokers=1) as cluster:
        fill(cluster.bootstrap, arguments.records)
        spark = session(arguments.master, jars)
        read = measured(FORMATS, lambda name: read_once(spark, name, cluster.bootstrap, arguments.records), arguments)
        write = measured(WRITERS, lambda name: write_once(spark, name, cluster.bootstrap, arguments.records), arguments)
        spark.stop()
    report("read", read, arguments.records)
    report("written", write, arguments.records)


def fill(bootstrap: str, records: int) -> None:
    """Values of 100 bytes, all different, without keys."""
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
    started = time.monotonic()
    with KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, batch_size=131_072, acks=1) as producer:
        for number in range(records):
            producer.send(TOPIC, b"%0*d" % (VALUE_BYTES, number), partition=number % PARTITIONS)
        producer.flush()
    print(f"{records:,} records of {VALUE_BYTES} B written in {time.monotonic() - started:.1f} s", flush=True)


def session(master: str, jars: list[Path]) -> Any:
    from pyspark.sql import SparkSession

    from odradek.client.spark import register

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("bench")
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def measured(
    names: Sequence[str], once: Callable[[str], float], arguments: argparse.Namespace
) -> dict[str, list[float]]:
    """Seconds by format; a first round of each, which warms up the JVM, is not counted."""
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(arguments.rounds + 1):
        for name in names:
            seconds = once(name)
            print(f"{'warm-up' if not number else f'round {number}'} {name:21} {seconds:6.2f} s", flush=True)
            if number:
                times[name].append(seconds)
    return times


def read_once(spark: Any, name: str, bootstrap: str, records: int) -> float:
    started = time.monotonic()
    frame = spark.read.format(name).option("kafka.bootstrap.servers", bootstrap).option("subscribe", TOPIC).load()
    row = frame.selectExpr("count(*)", "sum(length(value))").first()
    seconds = time.monotonic() - started
    if tuple(row) != (records, records * VALUE_BYTES):
        sys.exit(f"{name} has read {tuple(row)}, not {records} records of {VALUE_BYTES} bytes")
    return seconds


def write_once(spark: Any, name: str, bootstrap: str, records: int) -> float:
    """Write into a topic of its own, so that nothing but the time is left of it."""
    topic = f"written-{time.monotonic_ns()}"
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    rows = spark.range(records, numPartitions=2).selectExpr(f"lpad(cast(id as string), {VALUE_BYTES}, '0') as value")
    writer = rows.write.format(name.split(",")[0]).option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
    if name == EXACTLY_ONCE:
        writer = writer.option("transactionalId", topic)
    started = time.monotonic()
    writer.mode("append").save()
    seconds = time.monotonic() - started
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        ends = admin.list_offsets({TopicPartition(topic, number): LATEST for number in range(PARTITIONS)})
        written = sum(end.offset for end in ends.values() if end is not None)
        admin.delete_topics([topic])
    if written < records:
        sys.exit(f"{name} has written {written} of {records} records")
    return seconds


def report(what: str, times: dict[str, list[float]], records: int) -> None:
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    for name, seconds in medians.items():
        print(f"{name:21} {records / seconds:12,.0f} records/s {what} (median of {len(times[name])})")
    ratio = medians["kafka"] / medians["odradek"]
    met = "met" if ratio >= GOAL else "MISSED"
    print(f"{'ratio':21} {ratio:12.2f} of Spark's own connector, goal {GOAL}: {met}")


if __name__ == "__main__":
    main()
