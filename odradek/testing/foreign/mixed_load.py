"""Load of clients on a mixed cluster, and what they must find in it afterwards."""

from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, TopicPartition

from odradek.protocol.errors import ErrorCode
from odradek.testing.foreign.corpus import CODECS, SequencedProducer, make_records, produce_all, produce_batch
from odradek.testing.foreign.interface import Record
from odradek.testing.foreign.mixed_cluster import MixedCluster
from odradek.testing.foreign.relay import as_sent, check_producer
from odradek.testing.foreign.seen import read
from odradek.testing.load import ask_again
from odradek.testing.patience import PATIENCE_SECONDS

GROUPS = ("readers", "writers", "others")
RECORDS = 40
LEADER_ALONE = 1
"""acks"""
BATCHES_FOR_NOBODY = 8
"""Batches that a leader takes before it dies, of which its follower may get some but not all."""


@dataclass
class MixedLoad:
    cluster: MixedCluster
    sent: dict[str, list[Record]] = field(default_factory=dict)
    """Records sent to topics `by-N`."""
    committed: dict[str, int] = field(default_factory=dict)
    """Offsets for the first topic, by group."""
    producers: dict[str, SequencedProducer] = field(default_factory=dict)
    """Producers of topics `sequenced-N`."""

    def __post_init__(self) -> None:
        self.sent = {topic: [] for topic in self.cluster.topics if topic.startswith("by")}

    def write(self, *topics: str) -> None:
        """Write with acks=all, in another codec each time: to these `by-N`, or to everything there is."""
        wanted = topics or tuple(self.sent)
        records = {topic: make_records(topic, len(self.sent[topic]), RECORDS) for topic in wanted}
        codec = CODECS[len(self.sent[wanted[0]]) // RECORDS % len(CODECS)]
        produce_all(self.cluster.bootstrap, records, codec, **{"enable.idempotence": True})
        for topic in wanted:
            self.sent[topic] += records[topic]
        if not topics:
            self._write_sequenced()
            self._commit()

    def _write_sequenced(self) -> None:
        """Send one batch after the other to whoever leads by now, which must know what came before."""
        for topic in self.cluster.topics:
            if topic in self.sent:
                continue
            address = self.cluster.leader_address(topic)
            if topic not in self.producers:
                self.producers[topic] = SequencedProducer.begin(address, topic)
            for size in (1, 2, 3, 1, 2, 3):
                self.producers[topic].send(address, size)

    def _commit(self) -> None:
        first, *_ = self.sent
        for number, group in enumerate(GROUPS):
            self.committed[group] = sum(map(len, self.sent.values())) + number
            member = self._consumer(group)
            offsets = [TopicPartition(first, 0, self.committed[group])]
            ask_again(partial(member.commit, offsets=offsets, asynchronous=False))
            member.close()

    def _consumer(self, group: str) -> Consumer:
        return Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": group, "log_level": 2})

    def check(self) -> None:
        """Assert that all that was acknowledged is there, once and in order, with producers and groups' offsets."""
        found = read(self.cluster.bootstrap, self.cluster.topics)
        for topic, sent in self.sent.items():
            assert as_sent(found[topic]) == sent, topic
        for topic, producer in self.producers.items():
            values = [f"sequence {number}".encode() for number in range(producer.sequence)]
            assert [record.value for record in found[topic]] == values, topic
            check_producer(self.cluster.leader_address(topic), producer, batches_known=5)
        first, *_ = self.sent
        for group, offset in self.committed.items():
            member = self._consumer(group)
            [committed] = ask_again(partial(member.committed, [TopicPartition(first, 0)], PATIENCE_SECONDS))
            member.close()
            assert committed.offset == offset, (group, committed.offset, offset)

    def diverge(self, leader: int, follower: int) -> None:
        """The leader takes what nobody else gets, with acks=1, and dies. Only these two brokers may run.

        The first batches may reach the follower in the answer to the fetch that waits for them: Kafka looks after that
        when it has answered the producer. The last cannot.
        """
        topic = f"sequenced-{leader}"
        address, producer = self.cluster.stages[leader].address, self.producers[topic]
        end_offset = producer.sequence
        self.cluster.pause(follower)
        beyond = range(end_offset, end_offset + 4 * BATCHES_FOR_NOBODY, 4)
        for sequence in beyond:
            batch = producer.batch(sequence, 4)
            assert produce_batch(address, topic, batch, acks=LEADER_ALONE) == (ErrorCode.NONE, sequence)
        self.cluster.kill(leader)
        self.cluster.resume(follower)
        self.cluster.wait_controller(follower)
        self.cluster.wait_in_sync()
        left = len(read(self.cluster.stages[follower].address, [topic])[topic]) - end_offset
        assert left % 4 == 0 and left < len(beyond) * 4, left
        for sequence in beyond[: left // 4]:
            producer.sent.append((sequence, 4, sequence))
            producer.sequence += 4

    def check_files(self) -> None:
        """Assert, when all brokers have stopped, that every replica is the same, whoever wrote it."""
        first, *others = self.cluster.stages
        for topic in self.cluster.topics:
            segments, epochs = self.cluster.log_bytes(first, topic), self._epochs(first, topic)
            assert sum(map(len, segments.values())) > 1000 and len(epochs) > 2, topic
            for broker in others:
                assert self.cluster.log_bytes(broker, topic) == segments, (broker, topic)
                assert self._epochs(broker, topic) == epochs, (broker, topic)

    def _epochs(self, broker: int, topic: str) -> list[list[int]]:
        """Return the epochs in which something was written: the last ones of a leader may have nothing yet."""
        count = len(self.sent[topic]) if topic in self.sent else self.producers[topic].sequence
        return [[epoch, start] for epoch, start in self.cluster.epochs(broker, topic) if start < count]
