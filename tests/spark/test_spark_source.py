"""The source on a real cluster and a real Spark."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from odradek import KafkaProducer
from odradek.testing import Cluster
from odradek.testing.foreign.spark_home import QUERY_SECONDS
from odradek.testing.needs import CANNOT_BE_HAD, need
from odradek.testing.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.cluster

KAFKA_SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
)
HEADERS_TYPE = "array<struct<key:string,value:binary>>"
NewTopic = Callable[..., str]
Load = Callable[..., DataFrame]


def produce(cluster: Cluster, topic: str, count: int, partitions: int = 1, first: int = 0, **settings: Any) -> None:
    """Record n goes to partition n % partitions; keys, values and headers are there, null and empty in turn."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, **settings) as producer:
        for number in range(first, first + count):
            producer.send(
                topic,
                None if number % 7 == 3 else b"value %d " % number + b"x" * (number % 150),
                key=(None, b"", b"key %d" % number)[number % 3],
                headers=[("h", b"%d" % number), ("empty", b""), ("null", None)] if number % 4 == 0 else (),
                partition=number % partitions,
                timestamp_ms=1_700_000_000_000 + number * 10,
            )
        producer.flush()


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))


class Stream:
    """A query that reads what there is, again and again from one checkpoint; `batches` has the rows of each."""

    def __init__(self, spark: SparkSession, cluster: Cluster, checkpoint: Path, **options: str) -> None:
        self.batches: dict[int, list[Row]] = {}
        self.fail_at: int | None = None
        self.checkpoint = checkpoint
        self._spark = spark
        self._options = {"kafka.bootstrap.servers": cluster.bootstrap, **options}

    def start(self) -> StreamingQuery:
        frame = self._spark.readStream.format("odradek").options(**self._options).load()
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(availableNow=True).start()

    def run(self) -> list[Row]:
        """All rows so far, in order."""
        query = self.start()
        assert query.awaitTermination(QUERY_SECONDS), "the query has not ended"
        return in_order([row for rows in self.batches.values() for row in rows])

    def _take(self, frame: DataFrame, batch: int) -> None:
        if batch == self.fail_at:
            raise RuntimeError(f"batch {batch} fails")
        self.batches[batch] = frame.collect()


@pytest.fixture
def stream(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Callable[..., Stream]:
    return lambda **options: Stream(spark, cluster, tmp_path / "checkpoint", **options)


def test_schema_is_that_of_sparks_kafka_source(load: Load, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert load(topic).schema.simpleString() == KAFKA_SCHEMA
    with_headers = load(topic, includeHeaders="true").schema.simpleString()
    assert with_headers == KAFKA_SCHEMA[:-1] + f",headers:{HEADERS_TYPE}>"
    assert load(topic).collect() == []


def test_batch_bounds(load: Load, new_topic: NewTopic, cluster: Cluster) -> None:
    topic = new_topic(2)
    produce(cluster, topic, 100, 2)
    assert load(topic).count() == 100
    ends = json.dumps({topic: {"0": 20, "1": -1}})
    rows = load(topic, startingOffsets=json.dumps({topic: {"0": 15, "1": 45}}), endingOffsets=ends).collect()
    found = [(row.partition, row.offset) for row in in_order(rows)]
    assert found == [(0, offset) for offset in range(15, 20)] + [(1, offset) for offset in range(45, 50)]
    late = load(topic, startingTimestamp=str(1_700_000_000_000 + 905)).collect()
    assert {(row.partition, row.offset) for row in late} == {(n % 2, n // 2) for n in range(91, 100)}
    split = load(topic, minPartitions="7")
    assert split.rdd.getNumPartitions() >= 7 and in_order(split.collect()) == in_order(load(topic).collect())


def test_stream_reads_what_a_batch_reads(
    load: Load, new_topic: NewTopic, cluster: Cluster, stream: Callable[..., Stream]
) -> None:
    topics = [new_topic(3, suffix=suffix) for suffix in ("-1", "-2")]
    for topic in topics:
        produce(cluster, topic, 300, 3)
    pattern = topics[0][:-1] + "[0-9]"
    options = {"subscribePattern": pattern, "includeHeaders": "true", "startingOffsets": "earliest"}
    query = stream(**options, maxOffsetsPerTrigger="150", minPartitions="8")
    rows = query.run()
    assert [len(found) for found in query.batches.values()] == [150, 150, 150, 150]
    assert rows == in_order(load(",".join(topics), includeHeaders="true").collect())
    last = max((query.checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(last.read_text().splitlines()[-1]) == {topic: {"0": 100, "1": 100, "2": 100} for topic in topics}
    produce(cluster, topics[1], 30, 3, first=300)
    assert len(query.run()) == 630, "the second run reads only what is new"


def test_a_start_at_the_end_survives_a_crash_in_the_first_micro_batch(
    new_topic: NewTopic, cluster: Cluster, stream: Callable[..., Stream]
) -> None:
    topic = new_topic()
    produce(cluster, topic, 10)
    query = stream(subscribe=topic)
    query.fail_at = 0
    with pytest.raises(PySparkException, match="batch 0 fails"):
        query.run()
    query.fail_at = None
    produce(cluster, topic, 5, first=10)
    assert [row.offset for row in query.run()] == [10, 11, 12, 13, 14]


def test_lost_records_are_named(
    new_topic: NewTopic, cluster: Cluster, stream: Callable[..., Stream], load: Load, tmp_path: Path
) -> None:
    topic = new_topic()
    produce(cluster, topic, 10)
    query = stream(subscribe=topic, startingOffsets="earliest")
    assert len(query.run()) == 10
    produce(cluster, topic, 40, first=10)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 30)]).values():
        deleted.result(PATIENCE_SECONDS)
    shutil.copytree(query.checkpoint, tmp_path / "copy")
    with pytest.raises(
        PySparkException, match=rf"data loss: {topic}-0 offsets 10 to 29 \(20\): the log now starts at 30"
    ):
        query.run()
    lenient = stream(subscribe=topic, failOnDataLoss="false")
    assert [row.offset for row in lenient.run()] == list(range(30, 50))
    with pytest.raises(PySparkException, match=r"offsets 5 to 29 \(25\)"):
        load(topic, startingOffsets=json.dumps({topic: {"0": 5}})).count()
    rows = load(topic, startingOffsets=json.dumps({topic: {"0": 5}}), failOnDataLoss="false")
    assert rows.count() == 20
    with pytest.raises(PySparkException, match=f"{topic}-0 has no offset 51 yet, its log ends at 50"):
        load(topic, endingOffsets=json.dumps({topic: {"0": 51}})).count()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"subscribe": "no-such-topic"}, "has no topic no-such-topic: create it, or correct the option"),
        ({"kafka.bootstrap.servers": "127.0.0.1:1"}, "broker 127.0.0.1:1: not reachable"),
        ({"startingOffsets": '{"errors":{"7":1}}'}, "startingOffsets lacks"),
    ],
)
def test_errors_one_can_act_on(load: Load, cluster: Cluster, options: dict[str, str], words: str) -> None:
    produce(cluster, "errors", 1)
    with pytest.raises(PySparkException, match=words):
        load("errors", **options).count()


def test_sparks_own_connector_gives_the_same_rows(
    load: Load, new_topic: NewTopic, cluster: Cluster, connector_jars: list[Path]
) -> None:
    need("mvn")
    if not connector_jars:
        pytest.skip(f"{CANNOT_BE_HAD}Spark's own connector")
    topic, appended = new_topic(3), new_topic(suffix="-appended", message_timestamp_type="LogAppendTime")
    for place, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        produce(cluster, topic, 300, 3, first=place * 300, compression_type=codec)
    produce(cluster, appended, 20)
    both = f"{topic},{appended}"
    theirs = in_order(load(both, "kafka", includeHeaders="true").collect())
    ours = in_order(load(both, includeHeaders="true").collect())
    assert len(theirs) == 1520
    assert ours == theirs
    assert {row.timestampType for row in ours if row.topic == appended} == {1}
