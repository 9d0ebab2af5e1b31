"""Options by tables: what is understood, and what is refused with which words."""

from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from odradek.client.errors import ConfigError
from odradek.client.records import TopicPartition
from odradek.client.spark.data_source import OdradekSource, spark_schema
from odradek.client.spark.offsets import check_complete, from_json, to_json
from odradek.client.spark.options import Bound, Limit, for_batch, for_stream, parse

SERVER = {"kafka.bootstrap.servers": "localhost:9092"}
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)

UNDERSTOOD: list[tuple[dict[str, str], str, Any]] = [
    ({"subscribe": "a, b,a"}, "topics", ("a", "b")),
    ({"SUBSCRIBE": "a"}, "topics", ("a",)),
    ({"subscribepattern": "a.*"}, "pattern", "a.*"),
    ({"assign": '{"a":[1,0]}'}, "assigned", (A0, A1)),
    ({"subscribe": "a"}, "start", None),
    ({"subscribe": "a", "startingoffsets": "Earliest"}, "start", Limit(Bound.EARLIEST, option="startingOffsets")),
    (
        {"subscribe": "a", "startingOffsets": '{"a":{"0":5,"1":-2}}'},
        "start",
        Limit(Bound.OFFSETS, {A0: 5, A1: -2}, option="startingOffsets"),
    ),
    (
        {"subscribe": "a", "startingTimestamp": "17", "startingOffsets": "earliest"},
        "start",
        Limit(Bound.TIMESTAMPS, None, 17, "startingTimestamp"),
    ),
    (
        {"subscribe": "a", "endingOffsetsByTimestamp": '{"a":{"0":9}}'},
        "end",
        Limit(Bound.TIMESTAMPS, {A0: 9}, option="endingOffsetsByTimestamp"),
    ),
    ({"subscribe": "a", "startingOffsetsByTimestampStrategy": "latest"}, "latest_when_none", True),
    ({"subscribe": "a"}, "fail_on_data_loss", True),
    ({"subscribe": "a", "failondataloss": "FALSE"}, "fail_on_data_loss", False),
    ({"subscribe": "a", "maxoffsetspertrigger": "100"}, "max_offsets_per_trigger", 100),
    ({"subscribe": "a", "minPartitions": "7"}, "min_partitions", 7),
    ({"subscribe": "a", "includeHeaders": "true"}, "include_headers", True),
]


@pytest.mark.parametrize(("given", "field", "value"), UNDERSTOOD)
def test_understood(given: dict[str, str], field: str, value: Any) -> None:
    assert getattr(parse({**SERVER, **given}), field) == value


REFUSED = [
    ({"subscribe": "a", "startingOfsets": "latest"}, "unknown option startingOfsets: did you mean startingOffsets?"),
    ({"subscribe": "a", "frobnicate": "1"}, "unknown option frobnicate"),
    (
        {"subscribe": "a", "fetchoffset.numretries": "1"},
        "fetchOffset.numRetries is not for this source",
    ),
    (
        {"subscribe": "a", "kafka.auto.offset.reset": "earliest"},
        "kafka.auto.offset.reset is not for this source: startingOffsets says where to begin",
    ),
    ({"subscribe": "a", "kafka.Key.Deserializer": "x"}, "key is binary: cast it in the query"),
    (
        {"subscribe": "a", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
        "minOffsetsPerTrigger=9 is",
    ),
    ({"subscribe": "a", "maxTriggerDelay": "15 parsecs"}, "maxTriggerDelay must be a duration such as 15m"),
    ({"subscribe": "a", "maxRecordsPerPartition": "0"}, "maxRecordsPerPartition must be at least 1"),
    ({}, "exactly one of subscribe, subscribePattern, assign; there is none"),
    ({"subscribe": "a", "assign": '{"a":[0]}'}, "there is subscribe and assign"),
    ({"subscribe": " , "}, "subscribe names no topic"),
    ({"subscribePattern": "a("}, "is not a regular expression"),
    ({"assign": "a"}, "assign is not JSON"),
    ({"assign": '{"a":["0"]}'}, "assign must be like"),
    ({"assign": "{}"}, "assign names no partition"),
    ({"subscribe": "a", "startingOffsets": "newest"}, "must be earliest, latest or JSON"),
    ({"subscribe": "a", "startingOffsets": '{"a":{"0":-3}}'}, "a-0 has -3: give a whole number of at least -2"),
    ({"subscribe": "a", "startingOffsets": '{"a":{"x":3}}'}, "'x' is not a partition of topic a"),
    ({"subscribe": "a", "startingOffsets": '{"a":{"0":3,"00":4}}'}, "'00' is not a partition of topic a"),
    ({"subscribe": "a", "startingOffsets": '{"a":{"0":3,"0":4}}'}, "startingOffsets names '0' twice: '{"),
    ({"subscribe": "a", "startingOffsets": f'{{"a":{{"{"1" * 5000}":3}}}}'}, "11' is not a partition of topic a"),
    ({"assign": '{"a":[0],"a":[1]}'}, "assign names 'a' twice"),
    ({"assign": "[" * 100_000}, "assign is not JSON (maximum recursion depth"),
    ({"subscribe": "a", "startingTimestamp": "soon"}, "startingTimestamp must be a whole number"),
    ({"subscribe": "a", "startingOffsetsByTimestampStrategy": "guess"}, "must be error or latest"),
    ({"subscribe": "a", "failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false"),
    ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger must be at least 1"),
    *(
        (
            {"subscribe": "a", option: "9" * 20},
            f"{option} must be at most 9223372036854775807, not 99999999999999999999",
        )
        for option in ("startingTimestamp", "endingTimestamp", "maxOffsetsPerTrigger")
    ),
    (
        {"subscribe": "a", "endingOffsetsByTimestamp": '{"a":{"0":9223372036854775808}}'},
        "a-0 has 9223372036854775808: it must be at most 9223372036854775807",
    ),
    (
        {"subscribe": "a", "kafka.session.timeout.ms": "30000"},
        "kafka.session.timeout.ms is not for this source: Spark's",
    ),
    ({"subscribe": "a", "kafka.max.poll.records": "9"}, "kafka.max.partition.fetch.bytes limits its size"),
    ({"subscribe": "a", "kafka.client.rack": "r"}, "tasks read from leaders"),
    ({"subscribe": "a", "kafka.isolation.levl": "x"}, "did you mean isolation.level?"),
    ({"subscribe": "a", "kafka.isolation.level": "dirty"}, "must be one of read_uncommitted, read_committed"),
    ({"subscribe": "a", "kafka.security.protocol": "NONE"}, "security.protocol must be one of PLAINTEXT"),
    ({"subscribe": "a", "kafka.bootstrap.servers": "nowhere"}, "'nowhere' is not host:port"),
    ({"subscribe": "a", "bootstrap.servers": "other:1"}, "contradict each other"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED)
def test_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse({**SERVER, **given})
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_bootstrap_servers_is_needed_with_or_without_its_prefix() -> None:
    assert parse({"subscribe": "a", "bootstrap.servers": "h:1"}).settings.bootstrap_servers == ["h:1"]
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        parse({"subscribe": "a"})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "latest"}, "cannot start at the latest"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "cannot start at the latest"),
        ({"endingOffsets": "earliest"}, "cannot end at the earliest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "cannot end at the earliest"),
        (
            {"startingOffsets": '{"a":{"0":20}}', "endingOffsets": '{"a":{"0":10}}'},
            "startingOffsets of a-0 is 20, which is behind endingOffsets: 10",
        ),
        (
            {"startingTimestamp": "20", "endingTimestamp": "10"},
            "startingTimestamp is 20, which is behind endingTimestamp: 10",
        ),
        (
            {"startingTimestamp": "20", "endingOffsetsByTimestamp": '{"a":{"0":30,"1":10}}'},
            "startingTimestamp of a-1 is 20, which is behind endingOffsetsByTimestamp: 10",
        ),
    ],
)
def test_batch_bounds(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        for_batch(parse({**SERVER, "subscribe": "a", **given}))


@pytest.mark.parametrize("end", ['{"a":{"0":20}}', '{"a":{"0":-1}}', "latest"])
def test_a_start_that_is_not_behind_its_end(end: str) -> None:
    given = {"subscribe": "a", "startingOffsets": '{"a":{"0":20}}', "endingOffsets": end}
    assert for_batch(parse({**SERVER, **given}))[0].numbers == {A0: 20}


def test_defaults_of_batch_and_stream() -> None:
    options = parse({**SERVER, "subscribe": "a"})
    assert for_batch(options) == (Limit(Bound.EARLIEST), Limit(Bound.LATEST))
    assert for_stream(options) == Limit(Bound.LATEST)
    with pytest.raises(ConfigError, match="endingOffsets is for batch queries"):
        for_stream(parse({**SERVER, "subscribe": "a", "endingOffsets": "latest"}))


def test_offsets_as_in_sparks_checkpoints() -> None:
    offsets = {TopicPartition("b", 0): 7, TopicPartition("a", 10): 2, TopicPartition("a", 9): 1}
    assert to_json(offsets) == {"a": {"9": 1, "10": 2}, "b": {"0": 7}}
    assert list(to_json(offsets)["a"]) == ["9", "10"], "equal offsets must give equal text"
    assert from_json(to_json(offsets)) == offsets


def test_offsets_must_be_of_the_partitions_read() -> None:
    check_complete("startingOffsets", [A0, A1], [A1, A0])
    with pytest.raises(ConfigError, match="lacks a-1"):
        check_complete("startingOffsets", [A0], [A0, A1])
    with pytest.raises(ConfigError, match="names a-1, which this query does not read"):
        check_complete("startingOffsets", [A0, A1], [A0])


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("15m", 900_000), ("2 min", 120_000), ("30s", 30_000), ("500", 500), ("1H", 3_600_000)]
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse({**SERVER, "subscribe": "a", "maxTriggerDelay": text}).max_trigger_delay_ms == milliseconds


def test_limits_and_groups() -> None:
    given = {
        "minOffsetsPerTrigger": "5",
        "maxRecordsPerPartition": "7",
        "groupIdPrefix": "p",
        "kafka.group.id": "g",
        "kafkaConsumer.pollTimeoutMs": "9",
    }
    options = parse({**SERVER, "subscribe": "a", **given})
    assert (options.min_offsets_per_trigger, options.max_records_per_partition, options.poll_timeout_ms) == (5, 7, 9)
    assert (options.group_id_prefix, options.settings.group_id) == ("p", "g")
    assert parse({**SERVER, "subscribe": "a"}).max_trigger_delay_ms == 15 * 60 * 1000


@pytest.mark.parametrize("kind", ["reader", "streamReader"])
def test_columns_of_ones_own_are_refused(kind: str) -> None:
    """Each task failed instead, with an error of Spark's Python worker."""
    source = OdradekSource({**SERVER, "subscribe": "a"})
    assert getattr(source, kind)(spark_schema(include_headers=False))
    value = StructType([StructField("value", BinaryType())])
    texts = StructType([StructField(one.name, StringType()) for one in spark_schema(include_headers=False)])
    for given in (value, texts, spark_schema(include_headers=True)):
        with pytest.raises(ConfigError, match=r"the columns are always struct<key:binary,.*: leave out schema\(\)"):
            getattr(source, kind)(given)
