"""Everything that clients can see of a broker's logs, so that two brokers on the same files can be compared.

Records are read by librdkafka; offsets by time, epochs, producers and committed offsets are asked for with requests.
Partition 0 of each topic.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import describe_producers as producers
from odradek.protocol.messages import list_offsets, offset_fetch
from odradek.protocol.messages import offset_for_leader_epoch as epochs
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.patience import PATIENCE_SECONDS

NO_TIMESTAMP = -1
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
STARTING = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


@dataclass(frozen=True)
class SeenRecord:
    offset: int
    timestamp_type: int
    """0 none, 1 CreateTime, 2 LogAppendTime: librdkafka's numbers."""
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass
class SeenTopic:
    """Offsets by time are (offset, timestamp); epochs are (epoch found, end offset)."""

    start: int = 0
    end: int = 0
    last_stable: int = 0
    records: tuple[SeenRecord, ...] = ()
    committed: tuple[int, ...] = ()
    """Offsets that a read_committed consumer gets."""
    by_time: dict[int, tuple[int, int]] = field(default_factory=dict)
    segments: tuple[int, ...] = ()
    """What ListOffsets v0 answers: the log end and the base offsets of the segments."""
    epochs: dict[int, tuple[int, int]] = field(default_factory=dict)
    producers: tuple[tuple[int, int, int, int, int], ...] = ()
    """(producer id, epoch, last sequence, coordinator epoch, start of the open transaction)."""


def see(address: str, topics: Sequence[str]) -> dict[str, SeenTopic]:
    """Return all there is in these topics. The broker must lead them all by itself."""
    wait_for_leaders(address, topics)
    with ThreadPoolExecutor(2) as pool:
        every, committed = pool.map(partial(read, address, topics), ("read_uncommitted", "read_committed"))
    found = {
        topic: SeenTopic(records=every[topic], committed=tuple(record.offset for record in committed[topic]))
        for topic in topics
    }
    with RawConnection(address) as connection:
        _ask_offsets(connection, found)
        for topic, seen in found.items():
            seen.segments = segment_offsets(connection, topic)
            _ask_epochs(connection, topic, seen)
            _ask_producers(connection, topic, seen)
    return found


def wait_for_leaders(address: str, topics: Sequence[str]) -> dict[str, int]:
    """Leader epochs, as soon as all have a leader."""
    wanted = [MetadataRequestTopic(name=topic) for topic in topics]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with RawConnection(address) as connection:
            answer = connection.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 8)
        led = {
            topic.name: topic.partitions[0].leader_epoch
            for topic in answer.topics
            if topic.partitions and topic.partitions[0].leader_id >= 0 and not topic.partitions[0].error_code
        }
        if len(led) == len(topics):
            return led
        assert time.monotonic() < deadline, f"no leaders: {answer}"
        time.sleep(0.03)


def read(address: str, topics: Sequence[str], isolation: str = "read_uncommitted") -> dict[str, tuple[SeenRecord, ...]]:
    """Read each topic to its end: the high watermark, or the last stable offset."""
    settings = {"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(
        {
            **settings,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
    found: dict[str, list[SeenRecord]] = {topic: [] for topic in topics}
    at_end: set[str | None] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(at_end) < len(topics):
        assert time.monotonic() < deadline, f"no end of {set(topics) - at_end} within {PATIENCE_SECONDS:.0f} s"
        for message in consumer.consume(1000, 0.2):
            error = message.error()
            if error is None:
                found[str(message.topic())].append(_record(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, (message.topic(), error)
                at_end.add(message.topic())
    consumer.close()
    return {topic: tuple(records) for topic, records in found.items()}


def _record(message: Any) -> SeenRecord:
    kind, timestamp_ms = message.timestamp()
    if not kind or timestamp_ms == NO_TIMESTAMP:  # a message of format 0, as it is or converted
        kind, timestamp_ms = 0, NO_TIMESTAMP
    headers = tuple(message.headers() or ())
    return SeenRecord(message.offset(), kind, timestamp_ms, message.key(), message.value(), headers)


def offsets_at(
    connection: RawConnection, times: Mapping[str, int], *, isolation: int = 0
) -> dict[str, tuple[int, int]]:
    """Ask for the (offset, timestamp) of one time of each topic."""
    wanted = []
    for topic, timestamp_ms in times.items():
        partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms)
        wanted.append(list_offsets.ListOffsetsTopic(name=topic, partitions=[partition]))
    request = list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=wanted)
    found = {}
    for topic in connection.ask(request, 7).topics:
        [answer] = topic.partitions
        assert not answer.error_code, (topic, times)
        found[topic.name] = (answer.offset, answer.timestamp)
    return found


def segment_offsets(connection: RawConnection, topic: str) -> tuple[int, ...]:
    """Return what ListOffsets v0 answers: the log end and where segments begin, the log start in place of the first."""
    partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=LATEST, max_num_offsets=1000)
    wanted = [list_offsets.ListOffsetsTopic(name=topic, partitions=[partition])]
    [answer] = connection.ask(list_offsets.ListOffsetsRequest(replica_id=-1, topics=wanted), 0).topics[0].partitions
    assert not answer.error_code, (topic, answer)
    return tuple(answer.old_style_offsets)


def _ask_offsets(connection: RawConnection, seen: Mapping[str, SeenTopic]) -> None:
    """Ask for the offsets at both ends, by 0, by MAX_TIMESTAMP, and by times of records, each second one 1 ms later."""
    starts = offsets_at(connection, dict.fromkeys(seen, EARLIEST))
    ends = offsets_at(connection, dict.fromkeys(seen, LATEST))
    stable = offsets_at(connection, dict.fromkeys(seen, LATEST), isolation=1)
    asked: dict[str, list[int]] = {}
    for topic, one in seen.items():
        one.start, one.end, one.last_stable = starts[topic][0], ends[topic][0], stable[topic][0]
        times = sorted({record.timestamp_ms for record in one.records if record.timestamp_ms >= 0})
        asked[topic] = sorted({0, MAX_TIMESTAMP, *(each + number % 2 for number, each in enumerate(times))})
    while asked := {topic: times for topic, times in asked.items() if times}:
        now = {topic: times.pop() for topic, times in asked.items()}
        for topic, answer in offsets_at(connection, now).items():
            seen[topic].by_time[now[topic]] = answer


def _ask_epochs(connection: RawConnection, topic: str, seen: SeenTopic) -> None:
    wanted = [MetadataRequestTopic(name=topic)]
    now = connection.ask(MetadataRequest(topics=wanted), 8).topics[0].partitions[0].leader_epoch
    for epoch in range(now + 1):
        partition = epochs.OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        topics = [epochs.OffsetForLeaderTopic(topic=topic, partitions=[partition])]
        [answer] = connection.ask(epochs.OffsetForLeaderEpochRequest(topics=topics), 3).topics[0].partitions
        assert not answer.error_code, (topic, epoch, answer)
        seen.epochs[epoch] = (answer.leader_epoch, answer.end_offset)


def _ask_producers(connection: RawConnection, topic: str, seen: SeenTopic) -> None:
    wanted = [producers.TopicRequest(name=topic, partition_indexes=[0])]
    [answer] = connection.ask(producers.DescribeProducersRequest(topics=wanted), 0).topics[0].partitions
    assert not answer.error_code, (topic, answer)
    seen.producers = tuple(
        sorted(
            (
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            )
            for one in answer.active_producers
        )
    )


def committed_offsets(address: str, group: str) -> dict[str, tuple[int, int, str | None]]:
    """Return the committed offsets by topic: the offset, its leader epoch, the metadata.

    Asks again until the group's coordinator has loaded them.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with RawConnection(address) as connection:
            connection.ask(FindCoordinatorRequest(key=group, key_type=0), 3)
            answer = connection.ask(offset_fetch.OffsetFetchRequest(group_id=group, topics=None), 7)
        if answer.error_code not in STARTING:
            break
        assert time.monotonic() < deadline, answer
        time.sleep(0.03)
    assert not answer.error_code, answer
    return {
        topic.name: (one.committed_offset, one.committed_leader_epoch, one.metadata)
        for topic in answer.topics
        for one in topic.partitions
    }
