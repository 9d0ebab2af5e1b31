"""A cluster of brokers that are Kafka's and brokers that are ours."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.testing.broker_process import BrokerProcess
from odradek.testing.foreign.corpus import CODECS, make_records, produce_all
from odradek.testing.foreign.interface import Record
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.foreign.seen import DEADLINE_SECONDS, read
from odradek.testing.foreign.stage import Stage

GROUPS = ("readers", "writers", "others")


@dataclass(frozen=True)
class PartitionSeen:
    """Of one partition, as one broker tells it."""

    leader: int
    isr: frozenset[int]


@dataclass
class MixedCluster:
    """Topics `by-N` have one partition whose preferred leader is broker N and whose replicas are everywhere."""

    stages: Mapping[int, Stage]
    kafkas: frozenset[int]
    """The brokers that are Kafka's."""
    lives: dict[int, BrokerProcess] = field(default_factory=dict)
    sent: dict[str, list[Record]] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return ",".join(stage.address for stage in self.stages.values())

    @property
    def topics(self) -> list[str]:
        return [f"by-{broker}" for broker in self.stages]

    def start(self, *brokers: int) -> None:
        """One after the other."""
        for broker in brokers:
            stage = self.stages[broker]
            self.lives[broker] = stage.kafka() if broker in self.kafkas else stage.odradek()

    def stop(self, broker: int) -> None:
        self.lives.pop(broker).stop()

    def kill(self, broker: int) -> None:
        self.lives.pop(broker).kill()

    def pause(self, broker: int) -> None:
        os.kill(self.lives[broker].pid, signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        os.kill(self.lives[broker].pid, signal.SIGCONT)

    def create_topics(self) -> None:
        brokers = list(self.stages)
        wanted = []
        for number, broker in enumerate(brokers):
            replicas = [*brokers[number:], *brokers[:number]]
            config = {"segment.bytes": "6000", "index.interval.bytes": "500"}
            wanted.append(NewTopic(f"by-{broker}", 1, replica_assignment=[replicas], config=config))
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        for made in admin.create_topics(wanted).values():
            made.result(DEADLINE_SECONDS)

    def controller(self, asked: int) -> int:
        return self._ask(asked, [])[0]

    def seen_by(self, asked: int) -> dict[str, PartitionSeen]:
        return self._ask(asked, self.topics)[1]

    def _ask(self, asked: int, topics: Sequence[str]) -> tuple[int, dict[str, PartitionSeen]]:
        wanted = [MetadataRequestTopic(name=topic) for topic in topics]
        with RawConnection(self.stages[asked].address) as connection:
            answer = connection.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 8)
        return answer.controller_id, {
            topic.name: PartitionSeen(topic.partitions[0].leader_id, frozenset(topic.partitions[0].isr_nodes))
            for topic in answer.topics
            if topic.partitions
        }

    def wait(self, condition: Callable[[dict[str, PartitionSeen]], bool], what: str, *, of: Sequence[int] = ()) -> None:
        """Until all running brokers, or those `of`, know the topics and tell this of them."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not all(self._is(condition, told := self.seen_by(broker)) for broker in (of or self.lives)):
            assert time.monotonic() < deadline, f"{what}: {told}"
            time.sleep(0.05)

    def _is(self, condition: Callable[[dict[str, PartitionSeen]], bool], told: dict[str, PartitionSeen]) -> bool:
        return len(told) == len(self.topics) and condition(told)

    def wait_in_sync(self) -> None:
        """Every running broker is in every ISR."""
        running = frozenset(self.lives)
        self.wait(lambda told: all(told[topic].isr == running for topic in self.topics), f"in sync: {set(running)}")

    def wait_controller(self, broker: int) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while any(self.controller(asked) != broker for asked in self.lives):
            assert time.monotonic() < deadline, f"{broker} is not the controller"
            time.sleep(0.05)

    def write(self, *topics: str, count: int = 40) -> None:
        """With acks=all, in another codec each time; to all topics when none is named, and offsets for groups then."""
        wanted = topics or self.topics
        records = {topic: make_records(topic, len(self.sent.setdefault(topic, [])), count) for topic in wanted}
        codec = CODECS[len(self.sent[wanted[0]]) // count % len(CODECS)]
        produce_all(self.bootstrap, records, codec, **{"enable.idempotence": True})
        for topic in wanted:
            self.sent[topic] += records[topic]
        if not topics:
            self._commit()

    def _commit(self) -> None:
        for number, group in enumerate(GROUPS):
            self.committed[group] = sum(map(len, self.sent.values())) + number
            member = self._consumer(group)
            offset = TopicPartition(self.topics[0], 0, self.committed[group])
            member.commit(offsets=[offset], asynchronous=False)
            member.close()

    def _consumer(self, group: str) -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 2})

    def check(self) -> None:
        """Everything that was acknowledged is there, once and in order, and so are the groups' offsets."""
        for topic, records in read(self.bootstrap, self.topics).items():
            found = [Record(one.key, one.value, one.headers, one.timestamp_ms) for one in records]
            assert found == self.sent[topic], topic
            assert [one.offset for one in records] == list(range(len(records))), topic
        for group, offset in self.committed.items():
            member = self._consumer(group)
            [found_at] = member.committed([TopicPartition(self.topics[0], 0)], DEADLINE_SECONDS)
            member.close()
            assert found_at.offset == offset, (group, found_at.offset, offset)

    def elect_preferred(self) -> None:
        """Asked of whoever is the controller."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        partitions = [TopicPartition(topic, 0) for topic in self.topics]
        admin.elect_leaders(ElectionType.PREFERRED, partitions).result(DEADLINE_SECONDS)
        self.wait(
            lambda told: all(told[f"by-{broker}"].leader == broker for broker in self.stages), "preferred leaders"
        )

    def log_bytes(self, broker: int, topic: str) -> dict[str, bytes]:
        """Segments of one replica, by the names of their files."""
        return {file.name: file.read_bytes() for file in sorted(self.stages[broker].directory(topic).glob("*.log"))}

    def epochs(self, broker: int, topic: str) -> list[str]:
        """Leader epochs in which something was written: the last leader's own may have nothing yet."""
        _, _, *lines = (self.stages[broker].directory(topic) / "leader-epoch-checkpoint").read_text().splitlines()
        return [line for line in lines if int(line.split()[1]) < len(self.sent[topic])]
