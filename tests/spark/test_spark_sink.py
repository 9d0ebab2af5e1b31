"""The sink without Spark: rows as Spark hands them over, on the virtual clock."""

import random
from collections.abc import Mapping
from typing import Any

import pyarrow
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from odradek.client.errors import ClientError, ConfigError
from odradek.client.producer.config import KAFKAS_BATCH_BYTES
from odradek.client.producer.partitioners import murmur2, partition_for_key
from odradek.client.spark.rows import murmur2_of_all, records_of
from odradek.client.spark.sink_options import parse_sink
from odradek.client.spark.writing import BatchWriter, StreamWriter, check_schema
from odradek.testing.spark_stage import SERVERS, rows, stage

PLAIN = parse_sink(SERVERS)
HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


def test_every_column_arrives() -> None:
    with stage() as one:
        one.create("a", 2)
        one.create("b", 2)
        headers = pyarrow.array([[{"key": "h", "value": b"1"}, {"key": "n", "value": None}], None, [], None], HEADERS)
        batch = rows(
            "0",
            "1",
            "2",
            "3",
            key=[None, b"", b"k", b"k"],
            topic=["a", "b", "b", "a"],
            partition=pyarrow.array([1, 0, None, None], pyarrow.int32()),
            headers=headers,
        )
        one.task(0, None, batch, options=PLAIN)
        by_key = partition_for_key(b"k", 2)
        found = {record.value: record for topic in "ab" for record in one.records(topic)}
        assert [(found[v].topic, found[v].partition, found[v].key) for v in (b"0", b"1", b"2", b"3")] == [
            ("a", 1, None),
            ("b", 0, b""),
            ("b", by_key, b"k"),
            ("a", by_key, b"k"),
        ]
        assert list(found[b"0"].headers) == [("h", b"1"), ("n", None)]
        assert not any(found[value].headers for value in (b"1", b"2", b"3"))
        assert abs(found[b"0"].timestamp - one.clock.now_ms()) < 60_000


def test_the_option_topic_is_for_all_rows_and_null_values_are_tombstones() -> None:
    with stage() as one:
        one.create()
        batch = pyarrow.RecordBatch.from_pydict({"value": [None, b"v"], "key": ["text", None], "topic": ["no", "no"]})
        one.task(0, None, batch, options=parse_sink({**SERVERS, "topic": "t"}))
        assert {(record.key, record.value) for record in one.records()} == {(b"text", None), (None, b"v")}


def test_a_great_many_rows_are_spread_and_none_is_lost() -> None:
    with stage() as one:
        one.create()
        options = parse_sink({**SERVERS, "topic": "t", "kafka.batch.size": "2000", "kafka.buffer.memory": "8000"})
        batches = [rows(*(f"{number:05}" for number in range(first, first + 500))) for first in range(0, 3_000, 500)]
        one.task(0, None, *batches, options=options)
        assert one.values() == [f"{number:05}" for number in range(3_000)]
        assert {record.partition for record in one.records()} == {0, 1, 2}


def test_batches_of_which_nobody_says_that_they_are_too_large_are_small() -> None:
    assert PLAIN.config().batch_bytes == 131_072
    silent = {**SERVERS, "kafka.acks": "0"}
    assert parse_sink(silent).config().batch_bytes == KAFKAS_BATCH_BYTES
    assert parse_sink({**silent, "kafka.batch.size": "5"}).config().batch_bytes == 5


def test_without_batches_every_row_goes_alone() -> None:
    """`kafka.batch.size=0` is Kafka's way to say so: rows without keys failed with a division by zero."""
    with stage() as one:
        one.create()
        options = parse_sink({**SERVERS, "topic": "t", "kafka.batch.size": "0"})
        one.task(0, None, rows(*(f"{number:02}" for number in range(50))), options=options)
        assert one.values() == [f"{number:02}" for number in range(50)]
        assert {record.partition for record in one.records()} == {0, 1, 2}


def test_a_batch_that_a_broker_finds_too_large_is_split() -> None:
    with stage() as one:
        one.cluster.overrides["message.max.bytes"] = "3000"
        one.run(one.cluster.brokers[0].stop())
        one.run(one.cluster.brokers[0].start())
        one.create()
        options = parse_sink({**SERVERS, "topic": "t"})
        one.task(0, None, rows(*(f"{number:0100}" for number in range(200))), options=options)
        assert one.values() == [f"{number:0100}" for number in range(200)]
        with pytest.raises(Exception, match=r"MESSAGE_TOO_LARGE|too large"):
            one.task(0, None, rows("x" * 5_000), options=options)


def test_a_row_without_topic_and_a_topic_that_is_not_there() -> None:
    with stage() as one:
        one.create()
        with pytest.raises(ClientError, match="a row has no topic"):
            one.task(0, None, rows("a", "b", topic=["t", None]), options=PLAIN)
        with pytest.raises(ClientError, match="partition 7 of topic t: the topic has only 3 partitions"):
            batch = rows("a", topic=["t"], partition=pyarrow.array([7], pyarrow.int32()))
            one.task(0, None, batch, options=parse_sink({**SERVERS, "kafka.max.block.ms": "1000"}))
        with pytest.raises(ClientError, match="-2 is not a partition"):
            one.task(0, None, rows("a", topic=["t"], partition=pyarrow.array([-2], pyarrow.int32())), options=PLAIN)


def test_keys_are_hashed_as_by_every_kafka_client() -> None:
    source = random.Random(1)
    lengths = [source.choice((1, 2, 3, 4, 5, 8, 11, 255, 256, 257, 700)) for _ in range(200)]
    keys = [None, b"", *map(source.randbytes, lengths)]
    hashes = murmur2_of_all(pyarrow.array([b"before", *keys], pyarrow.binary())[1:]).tolist()
    assert [one for one, key in zip(hashes, keys, strict=True) if key is not None] == [
        murmur2(key) for key in keys if key is not None
    ]


def test_a_digest_is_of_the_records_and_not_of_their_order() -> None:
    def digest(*values: str, **columns: list[Any]) -> int:
        return sum(records.digest() for records in records_of(rows(*values, **columns), "t")) % 2**64

    assert digest("a", "b", "c") == digest("c", "a", "b") != digest("a", "b", "d")
    assert digest("a", key=[None]) != digest("a", key=[b""]) != digest("a", key=[b"k"])


HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
SCHEMAS: dict[str, dict[str, DataType]] = {
    "column key must be string or binary, not int: cast it": {"key": IntegerType(), "value": StringType()},
    "there is no column `value`, which is written; the columns are key": {"key": StringType()},
    "column value must be string or binary, not double": {"value": DoubleType()},
    "column partition must be integer, not bigint": {"value": StringType(), "partition": LongType()},
    "column headers must be array<struct<key:string,value:binary>>, not array<string>": {
        "value": StringType(),
        "headers": ArrayType(StringType()),
    },
}


def schema(columns: Mapping[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize("words", SCHEMAS)
def test_columns_that_cannot_be_written(words: str) -> None:
    with pytest.raises(ConfigError, match=f"^{words}"):
        check_schema(schema(SCHEMAS[words]), parse_sink({**SERVERS, "topic": "t"}))


def test_columns_that_can() -> None:
    kinds: dict[str, DataType] = {
        "value": BinaryType(),
        "key": StringType(),
        "topic": StringType(),
        "partition": IntegerType(),
    }
    check_schema(schema({**kinds, "headers": HEADERS_TYPE, "more": LongType()}), PLAIN)
    with pytest.raises(ConfigError, match="no topic: give the option topic, or a column"):
        check_schema(schema({"value": StringType()}), PLAIN)


OPTIONS: dict[str, tuple[dict[str, str], str]] = {
    "": ({}, "kafka.bootstrap.servers is missing"),
    "unknown": ({**SERVERS, "topik": "t"}, "unknown option topik: did you mean topic"),
    "transactional.id": ({**SERVERS, "kafka.transactional.id": "x"}, "give the option transactionalId"),
    "serializer": ({**SERVERS, "kafka.key.serializer": "x"}, "keys are written as they are"),
    "empty id": ({**SERVERS, "transactionalId": " "}, "transactionalId is empty"),
    "epoch alone": ({**SERVERS, "epoch": "3"}, "give that as well"),
    "epoch too high": (
        {**SERVERS, "transactionalId": "x", "epoch": "9223372036854775807"},
        "epoch must be at most 9223372036854775806",
    ),
    "acks": ({**SERVERS, "transactionalId": "x", "kafka.acks": "1"}, "transactional.id needs acks=all"),
    "setting": ({**SERVERS, "kafka.linger.mss": "1"}, "did you mean linger.ms"),
    "of the source": ({**SERVERS, "subscribe": "t"}, "unknown option subscribe"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_are_refused(name: str) -> None:
    given, words = OPTIONS[name]
    with pytest.raises(ConfigError) as refused:
        parse_sink(given)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_what_only_one_kind_of_writer_refuses() -> None:
    with pytest.raises(ConfigError, match="cannot be overwritten: use mode append"):
        BatchWriter(PLAIN, overwrite=True)
    with pytest.raises(ConfigError, match="epoch is for batch jobs"):
        StreamWriter(parse_sink({**SERVERS, "transactionalId": "x", "epoch": "1"}))
    assert parse_sink({**SERVERS, "checkpointLocation": "/c", "topic": "t"}).topic == "t"
