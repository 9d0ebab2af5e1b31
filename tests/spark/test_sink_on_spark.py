"""The sink as Spark calls it: pickled, in processes of its own, by its own order of calls."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from odradek import KafkaAdminClient, KafkaProducer, NewTopic
from odradek.client.spark.epochs import decision_of
from odradek.testing import Cluster
from odradek.testing.foreign.spark_home import QUERY_SECONDS

pytestmark = pytest.mark.cluster

CreateTopic = Callable[..., str]
Load = Callable[..., DataFrame]


def values(load: Load, topic: str) -> list[str]:
    rows = load(topic, **{"kafka.isolation.level": "read_committed"}).collect()
    return sorted(row.value.decode() for row in rows)


def test_batch(spark: SparkSession, cluster: Cluster, new_topic: CreateTopic, load: Load) -> None:
    topic = new_topic(2)
    header = f.array(f.struct(f.lit("h").alias("key"), f.col("id").cast("string").cast("binary").alias("value")))
    frame = spark.range(100, numPartitions=2).select(
        f.col("id").cast("string").alias("value"),
        f.when(f.col("id") % 2 == 0, f.col("id").cast("string")).alias("key"),
        (f.col("id") % 2).cast("int").alias("partition"),
        f.lit(topic).alias("topic"),
        header.alias("headers"),
    )
    writer = frame.write.format("odradek").option("kafka.bootstrap.servers", cluster.bootstrap).mode("append")
    writer.save()
    rows = load(topic, includeHeaders="true").collect()
    assert len(rows) == 100
    for row in rows:
        number = row.value.decode()
        assert row.key == (number.encode() if int(number) % 2 == 0 else None) and row.partition == int(number) % 2
        assert [(one.key, one.value.decode()) for one in row.headers] == [("h", number)]
    once = writer.option("transactionalId", "batch").option("epoch", "1")
    for _ in range(2):
        once.save()
    assert len(values(load, topic)) == 200
    with pytest.raises(PySparkException, match="column value must be string or binary, not bigint: cast it"):
        spark.range(1).withColumnRenamed("id", "value").write.format("odradek").option("topic", topic).option(
            "kafka.bootstrap.servers", cluster.bootstrap
        ).mode("append").save()


class Copy:
    """A query that copies one topic to another, 40 records at a time; `fail` and `restart` at will."""

    def __init__(self, spark: SparkSession, cluster: Cluster, source: str, sink: str, folder: Path) -> None:
        self._spark, self._bootstrap = spark, cluster.bootstrap
        self._source, self._sink, self._folder = source, sink, folder

    def run(self, value: str = "value", **options: str) -> Any:
        """Copy what there is; the query, ended."""
        frame = self._spark.readStream.format("odradek").options(
            **{"kafka.bootstrap.servers": self._bootstrap, "subscribe": self._source},
            startingOffsets="earliest",
            maxOffsetsPerTrigger="40",
            groupIdPrefix="copy",
        )
        writer = frame.load().selectExpr(f"{value} as value", "key").writeStream.format("odradek")
        writer = (
            writer.option("kafka.bootstrap.servers", self._bootstrap).option("topic", self._sink).options(**options)
        )
        query = writer.option("checkpointLocation", str(self._folder)).trigger(availableNow=True).start()
        assert query.awaitTermination(QUERY_SECONDS), "the query has not ended"
        return query


def test_stream_exactly_once(
    spark: SparkSession, cluster: Cluster, new_topic: CreateTopic, load: Load, tmp_path: Path
) -> None:
    source, sink = new_topic(2, suffix="-from"), new_topic(3, suffix="-to")
    expected = sorted(str(number) for number in range(100))
    frame = spark.range(100, numPartitions=1).select(f.col("id").cast("string").alias("value"))
    frame.write.format("odradek").option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", source).mode(
        "append"
    ).save()
    copy = Copy(spark, cluster, source, sink, tmp_path / "checkpoint")
    with pytest.raises(PySparkException, match="75"):
        copy.run("if(value = '75', raise_error('75'), value)", transactionalId="copy")
    partly = values(load, sink)
    assert len(partly) < 100 and len(set(partly)) == len(partly) and len(partly) % 40 == 0, "an epoch is whole or not"
    query = copy.run(transactionalId="copy")
    assert values(load, sink) == expected
    last = max(int(path.name) for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    for path in (tmp_path / "checkpoint" / "commits").glob(f"*{last}*"):
        path.unlink()  # as if the driver had died before it wrote that down
    copy.run(transactionalId="copy")
    assert values(load, sink) == expected, "a repeated epoch is recognised"
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        decision = decision_of(admin.list_group_offsets(f"copy-{query.id}"))
        assert decision.number == last
        groups = [group.group_id for group in admin.list_groups() if group.group_id.startswith("copy-")]
    assert any(group.endswith("-task-0") for group in groups)


def test_a_driver_that_is_killed_between_the_writes_of_its_tasks_and_its_commit(
    spark: SparkSession, cluster: Cluster, new_topic: CreateTopic, load: Load, tmp_path: Path
) -> None:
    source, sink = new_topic(2, suffix="-from"), new_topic(3, suffix="-to", min_insync_replicas="2", replicas=3)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(100):
            producer.send(source, str(number).encode(), partition=number % 2)
    checkpoint = tmp_path / "checkpoint"
    program = Path(__file__).with_name("dying_driver.py")
    command = [sys.executable, str(program), cluster.bootstrap, source, sink, str(checkpoint), "1"]
    log = tmp_path / "log"
    with log.open("w") as said:
        done = subprocess.run(
            command, start_new_session=True, stdout=said, stderr=said, timeout=QUERY_SECONDS, check=False
        )
    assert done.returncode == -signal.SIGKILL, log.read_text()[-3000:]
    written = load(sink).count()
    assert written == 80, "two epochs are in the topic"
    assert len(values(load, sink)) == 40, "one of them is committed"
    frame = spark.readStream.format("odradek").options(
        **{"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": source},
        startingOffsets="earliest",
        maxOffsetsPerTrigger="40",
    )
    writer = frame.load().selectExpr("value", "value as key").writeStream.format("odradek")
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", sink)
    writer = writer.options(checkpointLocation=str(checkpoint), transactionalId="dying")
    assert writer.trigger(availableNow=True).start().awaitTermination(QUERY_SECONDS)
    assert values(load, sink) == sorted(str(number) for number in range(100))


def test_the_examples_of_the_guide(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    assert len(examples) == 6
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(name, 2, 1) for name in ("numbers", "copies", "left", "right", "daily")])
    known: dict[str, Any] = {"spark": spark}
    for example in examples:
        here = example.replace("127.0.0.1:9092", cluster.bootstrap).replace("/checkpoints", str(tmp_path))
        exec(compile(here, "docs/spark.md", "exec"), known)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        assert admin.group_lag("numbers-on-spark") is not None
        names = [group.group_id for group in admin.list_groups()]
    assert sum(name.startswith(("left-", "right-")) and not name.endswith("-task-0") for name in names) >= 2
