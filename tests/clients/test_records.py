"""What one client has written, it and others read: keys, values, headers and times, in every codec.

KafkaJS itself has gzip only. Its other codecs are plugged in, as its documentation says, with packages of plain
JavaScript or WebAssembly: kafkajs-snappy, lz4, zstd-codec.
"""

from collections.abc import Callable

import pytest

from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.record_batch import BatchHeader, batches
from odradek.testing import Cluster
from odradek.testing.foreign.interface import ALL_CODECS, Client, Record
from odradek.testing.foreign.raw import RawConnection, place_of
from odradek.testing.needs import RUNTIMES, lacking

pytestmark = pytest.mark.cluster

CODEC_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
READERS = ("confluent", "kafka-python", "aiokafka", "kafkajs", "java", "kcat")


def _stored(cluster: Cluster, topic: str) -> list[BatchHeader]:
    """The batches of partition 0 as the leader keeps them."""
    asked = FetchTopic(topic=topic, partitions=[FetchPartition(fetch_offset=0, partition_max_bytes=1 << 20)])
    with RawConnection(place_of(cluster.bootstrap, topic).leader) as connection:
        fetched = connection.ask(FetchRequest(max_wait_ms=100, min_bytes=1, topics=[asked]), 11)
    part = fetched.responses[0].partitions[0]
    assert part.error_code == 0
    return [header for _, header in batches(part.records)]


def _check(records: list[Record], read: list[Record], writer: Client, reader: Client) -> None:
    times = [record.timestamp_ms for record in read]
    if not writer.sets_timestamps:
        assert times == sorted(times) and times[0] > records[0].timestamp_ms
        read = [Record(r.key, r.value, r.headers, sent.timestamp_ms) for r, sent in zip(read, records, strict=True)]
    assert read == records, f"written by {writer.name}, read by {reader.name}"


@pytest.mark.parametrize("codec", ["none", *ALL_CODECS])
def test_written_by_one_read_by_all(
    client: Client,
    codec: str,
    cluster: Cluster,
    new_topic: Callable[..., str],
    make_records: Callable[..., list[Record]],
    get_client: Callable[[str], Client],
) -> None:
    """By itself and by all others. One without a runtime here is passed over as a reader: its own tests say so."""
    topic = new_topic()
    records = make_records(headers_per_record=client.headers_per_record)
    client.produce(topic, codec, records)
    headers = _stored(cluster, topic)
    assert {header.codec for header in headers} == {CODEC_NUMBERS[codec]}, "the batch keeps its producer's codec"
    times = set()
    for name in READERS:
        if lacking(*RUNTIMES.get(name, ())):
            continue
        reader = get_client(name)
        read = reader.consume(topic, len(records))
        _check(records, read, client, reader)
        times.add(tuple(record.timestamp_ms for record in read))
    assert len(times) == 1, "all readers see the same times"


BYTES = bytes(range(256))
AWKWARD = [
    Record(b"", b"", (), 1),
    Record(BYTES, BYTES * 300, (("", b""),), 2),
    Record(None, b"", (("one", None), ("two", b""), ("one", BYTES), ("one", None)), 3),
    Record(b"key", b"value", tuple((f"header-{number}", b"x" * number) for number in range(100)), 4),
    Record("schlüssel".encode(), b"value", (("überschrift", b"\0"),), 1),
]
"""With times of 1970, so the topic must keep what is a week old."""


@pytest.mark.parametrize("name", ["confluent", "aiokafka", "java"])
def test_awkward_records(name: str, new_topic: Callable[..., str], get_client: Callable[[str], Client]) -> None:
    """Null and repeated headers, empty and binary keys: written by the clients that can say all this."""
    topic = new_topic(retention_ms="-1")
    get_client(name).produce(topic, "zstd", AWKWARD)
    for reader in (name, "confluent", "kafka-python"):
        assert get_client(reader).consume(topic, len(AWKWARD)) == AWKWARD, reader


def test_idempotent_producer(
    client: Client,
    cluster: Cluster,
    new_topic: Callable[..., str],
    make_records: Callable[..., list[Record]],
    confluent: Client,
) -> None:
    topic = new_topic()
    records = make_records(headers_per_record=client.headers_per_record)
    client.produce(topic, "lz4", records, idempotent=True)
    headers = _stored(cluster, topic)
    assert all(header.producer_id >= 0 and header.producer_epoch >= 0 for header in headers), headers
    sequence = 0
    for header in headers:
        assert header.base_sequence == sequence
        sequence += header.last_offset_delta + 1
    _check(records, confluent.consume(topic, len(records)), client, confluent)
