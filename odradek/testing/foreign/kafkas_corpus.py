"""Corpus that only an older Kafka writes: message formats 0 and 1, and what transactions leave behind.

For a broker with inter.broker.protocol.version=2.8: later ones know no `message.format.version`.
"""

from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.testing.foreign.corpus import (
    SMALL_SEGMENTS,
    create_topics,
    make_records,
    produce,
    produce_in_codecs,
    send_all,
    with_keys,
)
from odradek.testing.foreign.interface import Record
from odradek.testing.foreign.seen import SeenTopic, committed_offsets
from odradek.testing.patience import PATIENCE_SECONDS

OLD_CODECS = ("none", "gzip", "snappy", "lz4")
FORMATS = {0: "0.9.0", 1: "0.10.2"}
OLD_TOPICS = {f"format-{magic}-{codec}": (magic, codec) for magic in FORMATS for codec in OLD_CODECS}
OLD_COMPACTED = {f"format-{magic}-compacted": (magic, "gzip") for magic in FORMATS}
OLD_APPEND_TIME = "format-1-append-time"
TRANSACTIONS = "transactions"
OFFSETS_GROUP = "transactional-readers"
COMPACTION = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


def settings_of(topic: str) -> dict[str, str]:
    if topic == TRANSACTIONS:
        return SMALL_SEGMENTS
    version = {"message.format.version": FORMATS[int(topic.split("-")[1])]}
    if topic in OLD_COMPACTED:
        return {**SMALL_SEGMENTS, **version, **COMPACTION}
    if topic == OLD_APPEND_TIME:
        return {**SMALL_SEGMENTS, **version, "message.timestamp.type": "LogAppendTime"}
    return {**SMALL_SEGMENTS, **version}


TOPICS = {topic: settings_of(topic) for topic in (*OLD_TOPICS, *OLD_COMPACTED, OLD_APPEND_TIME, TRANSACTIONS)}


@dataclass
class KafkasCorpus:
    address: str
    sent: dict[str, list[Record]] = field(default_factory=dict)
    committed: list[bytes | None] = field(default_factory=list)
    """Values that a read_committed consumer of the transactions' topic must get, in their order."""
    committed_later: list[bytes | None] = field(default_factory=list)
    """Values behind the open transaction, which are readable when that has ended."""
    _open: Producer | None = None

    def create(self) -> None:
        create_topics(self.address, TOPICS)

    def write_old(self) -> None:
        """Write once more to each topic that has an old format, or had one."""
        wanted = {}
        for topic, (_, codec) in {**OLD_TOPICS, **OLD_COMPACTED, OLD_APPEND_TIME: (1, "lz4")}.items():
            records = make_records(topic, len(self.sent.get(topic, ())), 60, headers=False)
            wanted[topic] = (codec, with_keys(records) if topic in OLD_COMPACTED else records)
        produce_in_codecs(self.address, wanted)
        for topic, (_, of_topic) in wanted.items():
            self.sent.setdefault(topic, []).extend(of_topic)

    def write_transactions(self) -> None:
        """Committed and aborted ones of two producers, others' records between them, offsets with both ends.

        The group has a coordinator before: librdkafka asks three times for one that is not yet there, and then not
        again until a connection changes, which is when the broker closes it as idle, ten minutes later.
        """
        committed_offsets(self.address, OFFSETS_GROUP)
        one, two = self._producer("first"), self._producer("second")
        number = 0
        for commit in (True, False, False, True, False, True):
            for producer in (one, two):
                producer.begin_transaction()
                self._send(producer, number, 9, committed=commit)
                number += 9
            produce(self.address, TRANSACTIONS, "none", self._records(number, 2))
            self.committed += [record.value for record in self._records(number, 2)]
            number += 2
            self._end(one, commit, number)
            self._end(two, commit, number)

    def write_between(self, first: int) -> None:
        """Records of no transaction, which wait for the open one like all that comes after it."""
        records = self._records(first, 5)
        produce(self.address, TRANSACTIONS, "zstd", records)
        self.committed_later += [record.value for record in records]

    def leave_open(self) -> None:
        """A transaction that has not ended when the broker stops."""
        self._open = self._producer("open")
        self._open.begin_transaction()
        self._send(self._open, 1000, 5, committed=False)

    def abort_open(self) -> None:
        """Do what a coordinator does when the same producer comes anew."""
        self._open = self._producer("open")
        self.committed += self.committed_later

    def _producer(self, name: str) -> Producer:
        settings = {"bootstrap.servers": self.address, "transactional.id": name, "linger.ms": 5, "log_level": 2}
        producer = Producer({**settings, "batch.num.messages": 4, "transaction.timeout.ms": 600_000})
        producer.init_transactions(PATIENCE_SECONDS)
        return producer

    def _records(self, first: int, count: int) -> list[Record]:
        return make_records(TRANSACTIONS, first, count)

    def _send(self, producer: Producer, first: int, count: int, *, committed: bool) -> None:
        failures: list[str] = []
        records = self._records(first, count)
        send_all(producer, TRANSACTIONS, records, failures)
        assert not producer.flush(PATIENCE_SECONDS) and not failures, failures[:3]
        if committed:
            self.committed += [record.value for record in records]

    def _end(self, producer: Producer, commit: bool, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": OFFSETS_GROUP, "log_level": 2})
        offsets = [TopicPartition(TRANSACTIONS, 0, offset)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_SECONDS)
        if commit:
            producer.commit_transaction(PATIENCE_SECONDS)
        else:
            producer.abort_transaction(PATIENCE_SECONDS)
        consumer.close()


def check_sent(corpus: KafkasCorpus, seen: dict[str, SeenTopic]) -> None:
    """Format 0 has no timestamps; the rest is what was sent."""
    for topic, (magic, _) in OLD_TOPICS.items():
        found, sent = seen[topic].records, corpus.sent[topic]
        assert [(one.key, one.value, one.headers) for one in found] == [(one.key, one.value, ()) for one in sent], topic
        assert [one.offset for one in found] == list(range(len(sent))), topic
        if magic:
            assert [one.timestamp_ms for one in found] == [one.timestamp_ms for one in sent], topic
    assert {one.timestamp_type for one in seen[OLD_APPEND_TIME].records} == {2}
    for topic in OLD_COMPACTED:
        found, sent = seen[topic].records, corpus.sent[topic]
        assert {one.key: one.value for one in found} == {one.key: one.value for one in sent}, topic
    transactions = seen[TRANSACTIONS]
    committed = [one.value for one in transactions.records if one.offset in set(transactions.committed)]
    assert committed == corpus.committed
    assert len(transactions.records) > len(committed)
