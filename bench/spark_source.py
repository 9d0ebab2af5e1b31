"""Spark reads a topic: `format("odradek")` beside Spark's own `format("kafka")`, in one session, as a ratio of medians.

    python bench/spark_source.py [--records 2000000] [--rounds 3] [--master local[2]] [--jars DIR]

Both read the same records of 100 bytes from one broker, in turns; a query counts them and sums the lengths of their
values, so that every row and every value crosses into the JVM. DIR holds the connector's jars, which
`mvn dependency:copy-dependencies` of tests/spark/kafka_connector/pom.xml brings (the tests do that too).
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from odradek import KafkaAdminClient, KafkaProducer, NewTopic
from odradek.testing.up import UpCluster

ROOT = Path(__file__).resolve().parent.parent
TOPIC, PARTITIONS, VALUE_BYTES = "bench", 6, 100
GOAL = 1.0
FORMATS = ("odradek", "kafka")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--jars", type=Path, default=ROOT / ".cache" / "spark-kafka" / "jars")
    arguments = parser.parse_args()
    jars = sorted(arguments.jars.glob("*.jar"))
    if not jars:
        sys.exit(f"no jars in {arguments.jars}: run pytest tests/spark once, or mvn as the help says")
    with tempfile.TemporaryDirectory() as folder, UpCluster(Path(folder) / "cluster", brokers=1) as cluster:
        fill(cluster.bootstrap, arguments.records)
        spark = session(arguments.master, jars)
        times = measured(spark, cluster.bootstrap, arguments.records, arguments.rounds)
        spark.stop()
    report(times, arguments.records)


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
    builder = SparkSession.builder.master(master).appName("spark_source")
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


def measured(spark: Any, bootstrap: str, records: int, rounds: int) -> dict[str, list[float]]:
    """Seconds by format; a first round of each, which warms up the JVM, is not counted."""
    times: dict[str, list[float]] = {name: [] for name in FORMATS}
    for number in range(rounds + 1):
        for name in FORMATS:
            seconds = read_once(spark, name, bootstrap, records)
            print(f"{'warm-up' if not number else f'round {number}'} {name:8} {seconds:6.2f} s", flush=True)
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


def report(times: dict[str, list[float]], records: int) -> None:
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    for name, seconds in medians.items():
        print(f"{name:8} {records / seconds:12,.0f} records/s (median of {len(times[name])})")
    ratio = medians["kafka"] / medians["odradek"]
    print(f"ratio    {ratio:.2f} of Spark's own connector, goal {GOAL}: {'met' if ratio >= GOAL else 'MISSED'}")


if __name__ == "__main__":
    main()
