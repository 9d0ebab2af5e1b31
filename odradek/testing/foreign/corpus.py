"""Corpus that is written to one broker so that another one can be asked for it: some of all that a log can hold.

Records come from librdkafka; batches with producer ids, whose sequences must be known, from requests of our own.
"""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records import encode_batch
from odradek.testing.foreign.interface import Record
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.foreign.seen import (
    STARTING,
    SeenRecord,
    committed_offsets,
    read,
    segment_offsets,
    wait_for_leaders,
)
from odradek.testing.load import ask_again
from odradek.testing.patience import PATIENCE_SECONDS, wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BATCH_RECORDS = 7
SMALL_SEGMENTS = {"segment.bytes": "2000", "index.interval.bytes": "300"}
CODEC_TOPICS = {f"codec-{codec}": codec for codec in CODECS}
TOPICS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(CODEC_TOPICS, SMALL_SEGMENTS),
    "append-time": {**SMALL_SEGMENTS, "message.timestamp.type": "LogAppendTime"},
    "trimmed": SMALL_SEGMENTS,
    "sequenced": SMALL_SEGMENTS,
    "compacted": {
        "segment.bytes": "1000",
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "1000",
    },
}
TRIMMED_TO = 43


@dataclass
class SequencedProducer:
    """An idempotent producer whose every number is known; writes one batch at a time to partition 0 of `topic`."""

    topic: str
    producer_id: int
    epoch: int
    sequence: int = 0
    sent: list[tuple[int, int, int]] = field(default_factory=list)
    """(first sequence, records, base offset) of the batches that were acknowledged."""

    @classmethod
    def begin(cls, address: str, topic: str) -> "SequencedProducer":
        deadline = time.monotonic() + PATIENCE_SECONDS
        with RawConnection(address) as connection:
            while True:
                answer = connection.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
                if not answer.error_code:
                    return cls(topic, answer.producer_id, answer.producer_epoch)
                assert time.monotonic() < deadline, answer
                time.sleep(0.05)

    def batch(self, sequence: int, count: int) -> bytearray:
        numbers = range(sequence, sequence + count)
        return encode_batch(
            0,
            [hour_ago_ms() + number for number in numbers],
            [b"key"] * count,
            [f"sequence {number}".encode() for number in numbers],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
        )

    def send(self, address: str, count: int) -> None:
        """The next batch; it must be taken."""
        error, base_offset = self.offer(address, self.sequence, count)
        assert not error, error
        self.sent.append((self.sequence, count, base_offset))
        self.sequence += count

    def offer(self, address: str, sequence: int, count: int) -> tuple[int, int]:
        """Error code and base offset of the answer, whatever the sequence."""
        return produce_batch(address, self.topic, self.batch(sequence, count))


def produce_batch(address: str, topic: str, batch: bytes | bytearray, *, acks: int = -1) -> tuple[int, int]:
    """Error code and base offset."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    with RawConnection(address) as connection:
        answer = connection.ask(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data]), 9)
    [partition] = answer.responses[0].partition_responses
    return partition.error_code, partition.base_offset


_HOUR_AGO_MS = int(time.time() * 1000) - 3_600_000


def hour_ago_ms() -> int:
    """Return a time that is the same during one run, by which nothing expires yet (ms since 1970)."""
    return _HOUR_AGO_MS


def make_records(topic: str, first: int, count: int, *, headers: bool = True) -> list[Record]:
    """Text that compresses, in part; null keys, null values, empty ones, headers; times that go back now and then."""
    records, choose = [], random.Random(topic)
    for number in range(first, first + count):
        key = None if number % 11 == 3 else f"key {number % 5}".encode()
        value = (
            None
            if number % 13 == 5 and key
            else b""
            if number % 17 == 7
            else f"{topic} {number} ".encode() * 3 + choose.randbytes(20)
        )
        lines = (("number", str(number).encode()), ("nothing", None), ("number", b"")) if headers else ()
        records.append(Record(key, value, lines, hour_ago_ms() + (number - 4 * (number % 9 == 8)) * 1000))
    return records


def with_keys(records: Sequence[Record]) -> list[Record]:
    """Return the records with a key in each, for topics that are compacted."""
    return [replace(record, key=record.key or b"no key") for record in records]


def produce(address: str, topic: str, codec: str, records: Sequence[Record]) -> None:
    """Produce in batches of seven; return when all are acknowledged."""
    produce_all(address, {topic: records}, codec)


def produce_all(address: str, records: Mapping[str, Sequence[Record]], codec: str, **settings: Any) -> None:
    """The same, to several topics."""
    produce_in_codecs(address, {topic: (codec, of_topic) for topic, of_topic in records.items()}, **settings)


def produce_in_codecs(address: str, records: Mapping[str, tuple[str, Sequence[Record]]], **settings: Any) -> None:
    """The same, to several topics in several codecs, all at the same time."""
    failures: list[str] = []
    in_order = {"max.in.flight.requests.per.connection": 1, "acks": "all"}  # unless one is refused
    given = {"bootstrap.servers": address, "linger.ms": 50, "batch.num.messages": BATCH_RECORDS, **in_order}
    producers: dict[str, Producer] = {}
    for topic, (codec, of_topic) in records.items():
        if codec not in producers:
            producers[codec] = Producer({**given, "compression.type": codec, "log_level": 2, **settings})
        send_all(producers[codec], topic, of_topic, failures)
    left = sum(producer.flush(PATIENCE_SECONDS) for producer in producers.values())
    assert not left and not failures, (list(records), left, failures[:3])


def send_all(producer: Producer, topic: str, records: Sequence[Record], failures: list[str]) -> None:
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition=0,
            on_delivery=lambda error, _: failures.append(str(error)) if error else None,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )


def create_topics(address: str, topics: Mapping[str, Mapping[str, str]], partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 2})
    wanted = [NewTopic(name, partitions, 1, config=dict(config)) for name, config in topics.items()]
    for made in admin.create_topics(wanted).values():
        made.result(PATIENCE_SECONDS)
    wait_for_leaders(address, list(topics))


def wait_compacted(address: str, topics: Sequence[str]) -> None:
    """Wait until a cleaner, whoever's, has left no key twice before the active segments."""

    def compacted() -> bool:
        return not any(_has_twice(address, topic, records) for topic, records in read(address, topics).items())

    wait_until(compacted, f"compacted: {topics}")


def _has_twice(address: str, topic: str, records: Sequence[SeenRecord]) -> bool:
    with RawConnection(address) as connection:
        _, active, *_ = segment_offsets(connection, topic)
    keys = [record.key for record in records if record.offset < active]
    return len(keys) > len(set(keys))


@dataclass
class Corpus:
    """Corpus of topics and groups, and what was written of it so far."""

    address: str
    sent: dict[str, list[Record]] = field(default_factory=dict)
    producer: SequencedProducer = field(init=False)

    def create(self) -> None:
        create_topics(self.address, TOPICS)
        self.producer = SequencedProducer.begin(self.address, "sequenced")
        join_for_long(self.address, "codec-none")

    def write(self, count: int = 60) -> None:
        """Write another `count` records to each topic that takes such; then commit offsets for a group."""
        records = {topic: self._next(topic, count) for topic in TOPICS if topic != "sequenced"}
        wanted = {topic: (CODEC_TOPICS.get(topic, "none"), of_topic) for topic, of_topic in records.items()}
        produce_in_codecs(self.address, wanted)
        for topic, of_topic in records.items():
            self.sent.setdefault(topic, []).extend(of_topic)
        for size in (1, 2, 3, 4, 5, 6):
            self.producer.send(self.address, size)
        commit_often(self.address, {topic: len(self.sent[topic]) - 3 for topic in CODEC_TOPICS})

    def _next(self, topic: str, count: int) -> list[Record]:
        records = make_records(topic, len(self.sent.get(topic, ())), count)
        return with_keys(records) if topic == "compacted" else records

    def trim(self) -> None:
        """DeleteRecords, in the midst of a batch; returns when the segments below are gone.

        Until then Kafka finds no offset for a time that one of those segments has.
        """
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 2})
        for deleted in admin.delete_records([TopicPartition("trimmed", 0, TRIMMED_TO)]).values():
            assert deleted.result(PATIENCE_SECONDS).low_watermark == TRIMMED_TO
        deadline = time.monotonic() + PATIENCE_SECONDS
        with RawConnection(self.address) as connection:
            while sum(base <= TRIMMED_TO for base in segment_offsets(connection, "trimmed")) > 1:
                assert time.monotonic() < deadline, "segments below the log start stay"
                time.sleep(0.05)


READERS, STAYING = "readers", "staying"
COMMITS = 25
LASTING_MS = 1_200_000


@dataclass(frozen=True)
class SeenGroup:
    """Offsets are (offset, leader epoch, metadata) by topic; members have all that Kafka keeps of them."""

    offsets: tuple[tuple[str, tuple[int, int, str | None]], ...]
    state: str
    protocol: tuple[str, str]
    members: tuple[tuple[str, str | None, str, str, bytes, bytes], ...]


def commit_often(address: str, offsets: Mapping[str, int]) -> None:
    """The last commit is what counts."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": READERS, "log_level": 2})
    for back in range(COMMITS, -1, -1):
        wanted = [TopicPartition(topic, 0, offset - back, metadata=f"-{back}") for topic, offset in offsets.items()]
        ask_again(partial(consumer.commit, offsets=wanted, asynchronous=False))
    consumer.close()


def join_for_long(address: str, topic: str) -> None:
    """A static member, which stays in its group when it closes."""
    settings = {"group.id": STAYING, "group.instance.id": "one", "session.timeout.ms": LASTING_MS, "log_level": 2}
    more = {"max.poll.interval.ms": LASTING_MS, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": address, **settings, **more})
    consumer.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not consumer.assignment():
        assert time.monotonic() < deadline, "no assignment"
        consumer.poll(0.05)
    offsets = [TopicPartition(topic, 0, 5, metadata="five")]
    ask_again(lambda: consumer.commit(offsets=offsets, asynchronous=False))
    consumer.close()


def see_group(address: str, group: str) -> SeenGroup:
    """Return what a group's coordinator tells of it, as soon as it has loaded it."""
    offsets = committed_offsets(address, group)
    told = _describe(address, group)
    assert not told.error_code, told
    members = sorted(
        (
            one.member_id,
            one.group_instance_id,
            one.client_id,
            one.client_host,
            one.member_metadata,
            one.member_assignment,
        )
        for one in told.members
    )
    protocol = (told.protocol_type, told.protocol_data)
    return SeenGroup(tuple(sorted(offsets.items())), told.group_state, protocol, tuple(members))


def _describe(address: str, group: str) -> DescribedGroup:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with RawConnection(address) as connection:
            told: DescribedGroup = connection.ask(DescribeGroupsRequest(groups=[group]), 5).groups[0]
        if told.error_code not in STARTING:
            return told
        assert time.monotonic() < deadline, told
        time.sleep(0.03)
