"""A cluster of brokers that are Kafka's and brokers that are ours."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.testing.broker_process import BrokerProcess, OdradekBroker
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.foreign.stage import Stage
from odradek.testing.load import ASKED_AGAIN
from odradek.testing.patience import PATIENCE_SECONDS, wait_until

ALREADY_ELECTED = KafkaError.ELECTION_NOT_NEEDED
NOT_IN_SYNC = KafkaError.PREFERRED_LEADER_NOT_AVAILABLE
"""A busy machine may let it fall out of the ISR at any time; it comes back."""
TOPIC_SETTINGS = {"segment.bytes": "6000", "index.interval.bytes": "500"}


@dataclass(frozen=True)
class PartitionSeen:
    """State of a partition 0, as one broker tells it."""

    leader: int
    isr: frozenset[int]


@dataclass
class MixedCluster:
    """Topics `by-N` and `sequenced-N` have one partition, which broker N is to lead; their replicas are everywhere."""

    stages: Mapping[int, Stage]
    kafkas: frozenset[int]
    """The brokers that are Kafka's."""
    lives: dict[int, BrokerProcess] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return ",".join(stage.address for stage in self.stages.values())

    def new_admin(self) -> AdminClient:
        """Make an admin client that knows who is the controller now; to be kept until it has its answers."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    @property
    def topics(self) -> list[str]:
        return [f"{kind}-{broker}" for kind in ("by", "sequenced") for broker in self.stages]

    def start(self, *brokers: int) -> None:
        """Start brokers, one after the other."""
        for broker in brokers:
            stage = self.stages[broker]
            self.lives[broker] = stage.kafka() if broker in self.kafkas else stage.odradek()

    def stop(self, broker: int) -> None:
        self.lives.pop(broker).stop()

    def kill(self, broker: int) -> None:
        self.lives.pop(broker).kill()

    def pause(self, broker: int) -> None:
        """Return when none of its threads runs any more."""
        pid = self.lives[broker].pid
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: all(state == "T" for state in thread_states(pid)), f"broker {broker} stands still")

    def resume(self, broker: int) -> None:
        os.kill(self.lives[broker].pid, signal.SIGCONT)

    def create_topics(self) -> None:
        brokers = list(self.stages)
        wanted = []
        for topic in self.topics:
            at = brokers.index(int(topic.rpartition("-")[2]))
            replicas = [*brokers[at:], *brokers[:at]]
            wanted.append(NewTopic(topic, 1, replica_assignment=[replicas], config=TOPIC_SETTINGS))
        admin = self.new_admin()
        for made in admin.create_topics(wanted).values():
            made.result(PATIENCE_SECONDS)

    def controller(self, asked: int) -> int:
        return self._ask(asked, [])[0]

    def seen_by(self, asked: int, topics: Sequence[str] = ()) -> dict[str, PartitionSeen]:
        """Return what a broker tells of topics that it knows: the cluster's own when none is named."""
        return self._ask(asked, topics or self.topics)[1]

    def _ask(self, asked: int, topics: Sequence[str]) -> tuple[int, dict[str, PartitionSeen]]:
        wanted = [MetadataRequestTopic(name=topic) for topic in topics]
        with RawConnection(self.stages[asked].address) as connection:
            answer = connection.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 8)
        return answer.controller_id, {
            topic.name: PartitionSeen(topic.partitions[0].leader_id, frozenset(topic.partitions[0].isr_nodes))
            for topic in answer.topics
            if topic.partitions
        }

    def leader_address(self, topic: str) -> str:
        """Return the address of partition 0's leader, as any running broker tells it."""
        [seen] = self.seen_by(next(iter(self.lives)), [topic]).values()
        return self.stages[seen.leader].address

    def wait(self, condition: Callable[[dict[str, PartitionSeen]], bool], what: str, *, of: Sequence[int] = ()) -> None:
        """Wait until all running brokers, or those `of`, know the cluster's topics and tell this of them."""

        def holds(broker: int) -> bool:
            told = self.seen_by(broker)
            return len(told) == len(self.topics) and condition(told)

        wait_until(lambda: all(holds(broker) for broker in (of or self.lives)), what)

    def wait_in_sync(self) -> None:
        """Wait until every running broker is in every ISR, those of the internal topics too."""
        running = frozenset(self.lives)
        self.wait(lambda told: all(told[topic].isr == running for topic in self.topics), f"in sync: {set(running)}")
        wait_until(
            lambda: all(partition.isr == running for told in self.internals().values() for partition in told.values()),
            f"internal topics in sync: {set(running)}",
            lambda: str(self.internals()),
        )

    def internals(self) -> dict[int, dict[str, PartitionSeen]]:
        """Return what each running broker tells of every partition of the internal topics."""
        told: dict[int, dict[str, PartitionSeen]] = {}
        for broker in self.lives:
            with RawConnection(self.stages[broker].address) as connection:
                answer = connection.ask(MetadataRequest(topics=None), 8)
            told[broker] = {
                f"{topic.name}-{seen.partition_index}": PartitionSeen(seen.leader_id, frozenset(seen.isr_nodes))
                for topic in answer.topics
                if topic.is_internal
                for seen in topic.partitions
            }
        return told

    def transactions(self, ids: Sequence[str]) -> dict[int, list[str]]:
        """Return what each running broker tells of transactional ids."""
        told: dict[int, list[str]] = {}
        for broker in self.lives:
            with RawConnection(self.stages[broker].address) as connection:
                answer = connection.ask(DescribeTransactionsRequest(transactional_ids=list(ids)), 0)
            told[broker] = [str(state) for state in answer.transaction_states]
        return told

    def wait_controller(self, broker: int) -> None:
        wait_until(lambda: all(self.controller(asked) == broker for asked in self.lives), f"controller {broker}")

    def elect_preferred(self) -> None:
        """Have the preferred leaders elected and known everywhere.

        Asks again when the controller changes or takes its time, and when a leader loses its place once more.
        """
        partitions = [TopicPartition(topic, 0) for topic in self.topics]

        def elected() -> bool:
            admin = self.new_admin()  # kept until it has answered: its end would be that of the request
            election = admin.elect_leaders(ElectionType.PREFERRED, partitions)
            try:
                outcomes: dict[TopicPartition, KafkaError | None] = election.result(PATIENCE_SECONDS)
            except KafkaException as error:
                failures = {error.args[0].code()}
            else:
                failures = {error.code() for error in outcomes.values() if error} - {ALREADY_ELECTED}
            assert failures <= ASKED_AGAIN | {NOT_IN_SYNC}, failures
            return not failures and all(map(known, self.lives))

        def known(broker: int) -> bool:
            told = self.seen_by(broker)
            return all(topic in told and told[topic].leader == int(topic.rpartition("-")[2]) for topic in self.topics)

        wait_until(elected, "preferred leaders")

    def check_logs(self) -> None:
        """Assert that none of our brokers has logged an error."""
        for stage in self.stages.values():
            for life in stage.lives:
                ours = life.complaints() if isinstance(life, OdradekBroker) else []
                assert not [line for line in ours if " WARNING " not in line], ours

    def log_bytes(self, broker: int, topic: str) -> dict[str, bytes]:
        """Segments of one replica, by the names of their files."""
        return {file.name: file.read_bytes() for file in sorted(self.stages[broker].directory(topic).glob("*.log"))}

    def epochs(self, broker: int, topic: str) -> list[list[int]]:
        """List the [leader epoch, start offset] of one replica."""
        _, _, *lines = (self.stages[broker].directory(topic) / "leader-epoch-checkpoint").read_text().splitlines()
        return [[int(word) for word in line.split()] for line in lines]


def thread_states(pid: int) -> list[str]:
    """Return the kernel's letter for each thread of a process: T is stopped (proc(5))."""
    stats = [task.joinpath("stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return [stat.rpartition(")")[2].split()[0] for stat in stats]
