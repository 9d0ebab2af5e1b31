"""A disk that is full while the broker runs: writes are refused, nothing else is, and they go on when there is room."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.log_environments import make_batch
from odradek.testing.needs import CANNOT_BE_HAD
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.testing.small_disk import CannotMount, fill, free, small_disk
from odradek.testing.up import UpCluster

pytestmark = pytest.mark.cluster

TOPIC = "t"
DISK_BYTES = 32 << 20
VALUE = b"x" * 10_000
OFTEN = [
    "log.segment.bytes=200000",
    "replica.high.watermark.checkpoint.interval.ms=100",
    "log.flush.offset.checkpoint.interval.ms=100",
    "log.initial.task.delay.ms=0",
]
"""Segments and checkpoints are written all the time, so that there is no room for them either."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    try:
        with small_disk(tmp_path / "disk", DISK_BYTES) as mounted:
            yield mounted
    except CannotMount as why:
        pytest.skip(f"{CANNOT_BE_HAD}{why}")


@pytest.fixture
def cluster(tmp_path: Path, disk: Path) -> Iterator[UpCluster]:
    """A cluster of one: ZooKeeper and logs beside the small disk, the data on it."""
    with UpCluster(tmp_path / "cluster", brokers=1, overrides=[f"log.dirs={disk / 'data'}", *OFTEN]) as up:
        yield up


def produce(connection: RawConnection, partition: int = 0) -> Any:
    data = [PartitionProduceData(index=partition, records=bytes(make_batch([VALUE])))]
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)])
    return connection.ask(request, 9).responses[0].partition_responses[0]


def fetch_offsets(connection: RawConnection, offset: int) -> Any:
    partitions = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    request = FetchRequest(max_wait_ms=100, topics=[FetchTopic(topic=TOPIC, partitions=partitions)])
    return connection.ask(request, 11).responses[0].partitions[0]


def test_writes_go_on_when_there_is_room_again(cluster: UpCluster, disk: Path) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(PATIENCE_SECONDS)
    with RawConnection(cluster.bootstrap) as connection:
        wait_until(lambda: produce(connection).error_code == 0, "the first record")
        fill(disk)
        last_written = 0
        while not (answer := produce(connection)).error_code:
            last_written = answer.base_offset
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert ErrorCode(produce(connection, 1).error_code) == ErrorCode.KAFKA_STORAGE_ERROR
        wait_until(lambda: "no space for" in cluster.log_file(0).read_text(), "a checkpoint that could not be written")
        read = fetch_offsets(connection, 0)
        assert read.error_code == 0 and len(read.records) > len(VALUE)
        assert read.high_watermark == last_written + 1
        free(disk)
        answers: list[Any] = []
        wait_until(lambda: answers.append(produce(connection)) or not answers[-1].error_code, "room")
        written = answers[-1]
        assert written.base_offset == last_written + 1
        assert produce(connection, 1).error_code == 0
        assert fetch_offsets(connection, written.base_offset).error_code == 0
    cluster.terminate(0)
    wait_until(lambda: "has stopped" in cluster.log_file(0).read_text(), "the end of the broker")
    cluster.start(0)
    wait_until(lambda: cluster.log_file(0).read_text().count("has started") == 2, "the next start")
    with RawConnection(cluster.bootstrap) as connection:
        wait_until(lambda: fetch_offsets(connection, 0).high_watermark == written.base_offset + 1, "what was written")
