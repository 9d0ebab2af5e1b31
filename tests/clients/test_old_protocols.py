"""Clients as they were from 0.8 to 0.10, on the same topics as those of today.

They do not ask for ApiVersions. They write message sets, which the log keeps as record batches, and get message sets.
Messages of 0.8 and 0.9 have no timestamp, and none before 0.11 has headers.
"""

from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from odradek.testing import Cluster
from odradek.testing.foreign.confluent import ConfluentClient
from odradek.testing.foreign.interface import Client, Record
from odradek.testing.foreign.kafka_python import KafkaPythonClient
from odradek.testing.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.cluster

OF_0_8 = ("gzip", "snappy")
OF_0_8_2 = (*OF_0_8, "lz4")
KAFKA_PYTHON = {"0.8.0": OF_0_8, "0.8.1": OF_0_8, "0.8.2": OF_0_8_2, "0.9": OF_0_8_2, "0.10.0": OF_0_8_2}
"""Its lz4 of before 0.10, with KIP-57's wrong checksum, needs the package xxhash."""
LIBRDKAFKA = {"0.8.0": OF_0_8, "0.8.2.2": OF_0_8_2, "0.9.0": OF_0_8_2}
WITH_TIMES = ("0.10.0",)
"""Fetch version 2 and Produce version 2 carry timestamps."""


def _cases(releases: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(release, codec) for release, codecs in releases.items() for codec in ("none", *codecs)]


def kafka_python(cluster: Cluster, release: str) -> KafkaPythonClient:
    version = tuple(int(part) for part in release.split("."))
    return KafkaPythonClient(cluster.bootstrap, api_version=version)


def librdkafka(cluster: Cluster, release: str) -> ConfluentClient:
    settings = {"api.version.request": False, "broker.version.fallback": release, "log_level": 4}
    return ConfluentClient(cluster.bootstrap, **settings)


def _bare(records: list[Record]) -> list[Record]:
    """Without headers, for which a message has no place."""
    return [Record(one.key, one.value, (), one.timestamp_ms) for one in records]


def _mixed(topic: str, old: Client, codec: str, new: Client, records: list[Record]) -> list[Record]:
    """Old, new and old again write thirds, the new with headers. What the new one must read."""
    third = len(records) // 3
    written = [*_bare(records[:third]), *records[third : 2 * third], *_bare(records[2 * third :])]
    old.produce(topic, codec, written[:third])
    new.produce(topic, codec, written[third : 2 * third])
    old.produce(topic, codec, written[2 * third :])
    return written


def _same(read: list[Record], records: list[Record], timed: Callable[[int], bool], who: str) -> None:
    """As `records`; where there is no time, it must say so."""
    expected = [
        Record(one.key, one.value, one.headers, one.timestamp_ms if timed(number) else got.timestamp_ms)
        for number, (one, got) in enumerate(zip(records, read, strict=True))
    ]
    assert read == expected, who
    for number, got in enumerate(read):
        assert timed(number) or got.timestamp_ms in (-1, 0, None), f"{who}: a time from nowhere at {number}: {got}"


@pytest.mark.parametrize(("release", "codec"), _cases(KAFKA_PYTHON))
def test_kafka_python(
    release: str,
    codec: str,
    cluster: Cluster,
    new_topic: Callable[..., str],
    make_records: Callable[..., list[Record]],
    confluent: Client,
) -> None:
    topic, old = new_topic(), kafka_python(cluster, release)
    written = _mixed(topic, old, codec, confluent, make_records(nulls=release != "0.8.0"))
    timed = release in WITH_TIMES
    _same(old.consume(topic, len(written)), _bare(written), lambda _: timed, "the old client")
    _same(confluent.consume(topic, len(written)), written, lambda number: timed or 10 <= number < 20, "the new client")


@pytest.mark.parametrize(("release", "codec"), _cases(LIBRDKAFKA))
def test_librdkafka(
    release: str,
    codec: str,
    cluster: Cluster,
    new_topic: Callable[..., str],
    make_records: Callable[..., list[Record]],
    confluent: Client,
) -> None:
    topic, old = new_topic(), librdkafka(cluster, release)
    written = _mixed(topic, old, codec, confluent, make_records())
    _same(old.consume(topic, len(written)), _bare(written), lambda _: False, "the old client")
    _same(confluent.consume(topic, len(written)), written, lambda number: 10 <= number < 20, "the new client")


@pytest.mark.parametrize("name", ["kafka-python", "aiokafka"])
def test_others_of_today_write_for_the_old(
    name: str,
    cluster: Cluster,
    new_topic: Callable[..., str],
    make_records: Callable[..., list[Record]],
    get_client: Callable[[str], Client],
) -> None:
    """A batch of every codec, one behind the other in one topic."""
    topic, records = new_topic(), make_records(40)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4")):
        get_client(name).produce(topic, codec, records[10 * number : 10 * (number + 1)])
    for old in (*map(partial(kafka_python, cluster), KAFKA_PYTHON), *map(partial(librdkafka, cluster), LIBRDKAFKA)):
        read = old.consume(topic, len(records))
        assert [(one.key, one.value, one.headers) for one in read] == [(one.key, one.value, ()) for one in records]


@pytest.mark.parametrize("release", KAFKA_PYTHON)
def test_zstd_is_refused_to_the_old(release: str, cluster: Cluster, new_topic: Callable[..., str]) -> None:
    """They could not open it: UNSUPPORTED_COMPRESSION_TYPE (KIP-110). What is before it they get."""
    topic = new_topic()
    for codec in ("gzip", "zstd"):
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec})
        producer.produce(topic, b"Odradek " * 100)
        assert producer.flush(PATIENCE_SECONDS) == 0
    old = kafka_python(cluster, release)
    assert old.consume(topic, 1)[0].value == b"Odradek " * 100
    with pytest.raises(Exception, match=r"UnsupportedCompression|Error 76|UnsupportedCodec|UNSUPPORTED_COMPRESSION"):
        old.consume(topic, 2)


@pytest.mark.parametrize("release", ["0.8.1", "0.8.2", "0.9"])
def test_offsets_of_a_group(
    release: str, cluster: Cluster, new_topic: Callable[..., str], make_records: Callable[..., list[Record]]
) -> None:
    """0.8.1 commits to ZooKeeper (version 0 of OffsetCommit), the others to the group's coordinator."""
    topic = new_topic()
    kafka_python(cluster, release).produce(topic, "none", make_records(5, headers=False))
    partition = TopicPartition(topic, 0)
    version = tuple(int(part) for part in release.split("."))
    for start, committed in ((None, 2), (2, 4)):
        consumer = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap.split(","),
            group_id=f"{topic}-group",
            api_version=version,
            enable_auto_commit=False,
        )
        consumer.assign([partition])
        assert consumer.committed(partition) == start
        consumer.commit({partition: OffsetAndMetadata(committed, "", -1)})
        consumer.close()
