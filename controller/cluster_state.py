"""The cluster as the active controller knows it (Kafka's ControllerContext). Filled from ZooKeeper at failover.

Only the flow that handles an event changes it; each change follows a successful ZooKeeper write or a read.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.znodes.brokers import BrokerRegistration
from odradek.zk_schema.znodes.topics import NO_LEADER

FIRST_LEADER_EPOCH = 0


class Replica(NamedTuple):
    """A partition's copy on one broker."""

    partition: TopicPartition
    broker: int

    def __str__(self) -> str:
        return f"{self.partition} on broker {self.broker}"


class Broker(NamedTuple):
    """A registered broker."""

    epoch: int
    """Czxid of its registration: another epoch under the same id is another life of the broker."""
    registration: BrokerRegistration


class LeaderAndIsr(NamedTuple):
    """A partition's leader and in-sync replicas: the data and the version of its state znode."""

    leader: int
    """Broker id, or NO_LEADER."""
    leader_epoch: int
    isr: tuple[int, ...]
    recovering: bool
    """True if the leader was elected outside the ISR and has not yet said that it has recovered (KIP-704)."""
    controller_epoch: int
    partition_epoch: int
    """Version of the znode."""

    def led_by(self, leader: int, isr: Sequence[int], *, recovering: bool | None = None) -> "LeaderAndIsr":
        """Return the state with a new leader (or NO_LEADER) and ISR, always one leader epoch further."""
        return self._replace(
            leader=leader,
            leader_epoch=self.leader_epoch + 1,
            isr=tuple(isr),
            recovering=self.recovering if recovering is None else recovering,
        )

    def without(self, broker: int, replicas: Collection[int]) -> "LeaderAndIsr":
        """Take a replica that went offline out of the ISR, unless it is the last one, which may be needed to come
        back.

        Whoever is in the ISR and not among the partition's `replicas` is to go, and its controller died before it could
        say so: it does not count, and goes when it is all that would be left.
        """
        isr = tuple(member for member in self.isr if member != broker)
        if not set(isr).intersection(replicas):
            isr = (broker,) if broker in replicas else self.isr
        leader = self.leader if self.leader in isr and self.leader != broker else NO_LEADER
        return self.led_by(leader, isr)

    def facts(self) -> dict[str, object]:
        """Return the state as the journal records it."""
        return {
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
            "isr": list(self.isr),
            "partition_epoch": self.partition_epoch,
            "controller_epoch": self.controller_epoch,
            "recovering": self.recovering,
        }

    def is_unclean_after(self, before: "LeaderAndIsr") -> bool:
        """Tell whether the leader was elected from outside the ISR of the state `before`."""
        return self.leader != NO_LEADER and self.leader not in before.isr


class Assignment(NamedTuple):
    """The brokers that hold a partition; while it is being reassigned (KIP-455), `replicas` are old and new ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas as they will be when the reassignment is done."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before it began: what a cancel goes back to."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    def reassigned_to(self, target: Iterable[int]) -> "Assignment":
        """Return the assignment on the way from `origin` to `target`, which replaces an earlier target."""
        wanted, origin = tuple(target), self.origin
        full = wanted + tuple(broker for broker in origin if broker not in wanted)
        return Assignment(
            full,
            tuple(broker for broker in full if broker not in origin),
            tuple(broker for broker in origin if broker not in wanted),
        )

    def without(self, broker: int) -> "Assignment":
        """Return the assignment without a replica on that broker."""
        return Assignment(
            tuple(b for b in self.replicas if b != broker),
            tuple(b for b in self.adding if b != broker),
            tuple(b for b in self.removing if b != broker),
        )


NOT_ASSIGNED = Assignment(())


class Topic(NamedTuple):
    """A topic as `/brokers/topics/[topic]` has it."""

    topic_id: bytes | None
    """Id of the topic; None for one that is older than topic ids."""
    partitions: dict[int, Assignment]


class PartitionPhase(Enum):
    """Stage in the life of a partition (Kafka's PartitionState); partition_machine.py says which may follow which."""

    NON_EXISTENT = "NonExistent"
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"


class ReplicaPhase(Enum):
    """Stage in the life of a replica (Kafka's ReplicaState); replica_machine.py says which may follow which."""

    NON_EXISTENT = "NonExistent"
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"
    DELETION_STARTED = "DeletionStarted"
    DELETION_SUCCESSFUL = "DeletionSuccessful"
    DELETION_INELIGIBLE = "DeletionIneligible"


@dataclass(slots=True)
class ClusterState:
    """The cluster as seen in one controller epoch."""

    controller_id: int
    controller_epoch: int
    brokers: dict[int, Broker] = field(default_factory=dict)
    """Registered brokers, including those that are shutting down."""
    shutting_down: set[int] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    topic_names: dict[bytes, str] = field(default_factory=dict)
    assignments: dict[str, dict[int, Assignment]] = field(default_factory=lambda: defaultdict(dict))
    leader_and_isr: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    partition_phases: dict[TopicPartition, PartitionPhase] = field(default_factory=dict)
    replica_phases: dict[Replica, ReplicaPhase] = field(default_factory=dict)
    offline_directories: dict[int, set[TopicPartition]] = field(default_factory=lambda: defaultdict(set))
    """By broker: partitions for which it has answered KAFKA_STORAGE_ERROR, so that its replicas cannot serve."""
    reassigning: set[TopicPartition] = field(default_factory=set)
    topics_to_delete: set[str] = field(default_factory=set)
    deletion_halted: set[str] = field(default_factory=set)
    """Topics to delete that wait for a replica to come back."""

    # Brokers.

    def is_live(self, broker: int) -> bool:
        """Tell whether a broker is registered and not shutting down."""
        return broker in self.brokers and broker not in self.shutting_down

    @property
    def live_broker_ids(self) -> set[int]:
        return set(self.brokers) - self.shutting_down

    def is_online(self, broker: int, partition: TopicPartition, *, or_shutting_down: bool = False) -> bool:
        """Tell whether a replica can serve: its broker lives and its log directory is not known to be broken."""
        there = broker in self.brokers if or_shutting_down else self.is_live(broker)
        return there and partition not in self.offline_directories.get(broker, ())

    def online_among(
        self, brokers: Iterable[int], partition: TopicPartition, *, or_shutting_down: bool = False
    ) -> set[int]:
        """Return those of the brokers whose replica of a partition can serve."""
        return {broker for broker in brokers if self.is_online(broker, partition, or_shutting_down=or_shutting_down)}

    # Topics.

    def add_topic(self, topic: str, topic_id: bytes | None) -> None:
        """Take in a topic; `topic_id` is None for one that has no id."""
        self.topics.add(topic)
        if topic_id is not None:
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic

    def remove_topic(self, topic: str) -> None:
        """Forget everything of a topic."""
        for partition in list(self.partitions_of(topic)):
            self.leader_and_isr.pop(partition, None)
            self.partition_phases.pop(partition, None)
            self.reassigning.discard(partition)
        for replica in [replica for replica in self.replica_phases if replica.partition.topic == topic]:
            del self.replica_phases[replica]
        for broken in self.offline_directories.values():
            broken.difference_update([partition for partition in broken if partition.topic == topic])
        self.assignments.pop(topic, None)
        self.topic_names.pop(self.topic_ids.pop(topic, b""), None)
        for topics in (self.topics, self.topics_to_delete, self.deletion_halted):
            topics.discard(topic)

    # Partitions and replicas.

    def assignment(self, partition: TopicPartition) -> Assignment:
        """Return the replicas of a partition; NOT_ASSIGNED for one that is not known."""
        return self.assignments.get(partition.topic, {}).get(partition.partition, NOT_ASSIGNED)

    def assign(self, partition: TopicPartition, assignment: Assignment) -> None:
        self.assignments[partition.topic][partition.partition] = assignment

    def replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        return self.assignment(partition).replicas

    def partitions(self) -> Iterator[TopicPartition]:
        for topic, partitions in self.assignments.items():
            for index in partitions:
                yield TopicPartition(topic, index)

    def partitions_of(self, topic: str) -> Iterator[TopicPartition]:
        return (TopicPartition(topic, index) for index in self.assignments.get(topic, ()))

    def replicas_on(self, brokers: Iterable[int]) -> list[Replica]:
        """List the replicas that are assigned to these brokers, of all topics."""
        wanted = set(brokers)
        return [
            Replica(TopicPartition(topic, index), broker)
            for topic, partitions in self.assignments.items()
            for index, assignment in partitions.items()
            if not wanted.isdisjoint(assignment.replicas)
            for broker in assignment.replicas
            if broker in wanted
        ]

    def all_replicas(self) -> Iterator[Replica]:
        for partition in self.partitions():
            for broker in self.replicas(partition):
                yield Replica(partition, broker)

    def replicas_of(self, topic: str) -> list[Replica]:
        return [Replica(partition, b) for partition in self.partitions_of(topic) for b in self.replicas(partition)]

    def phase(self, partition: TopicPartition) -> PartitionPhase:
        return self.partition_phases.get(partition, PartitionPhase.NON_EXISTENT)

    def replica_phase(self, replica: Replica) -> ReplicaPhase:
        return self.replica_phases.get(replica, ReplicaPhase.NON_EXISTENT)

    def being_deleted(self, partition: TopicPartition) -> bool:
        """Tell whether the partition's topic is to be deleted."""
        return partition.topic in self.topics_to_delete

    def without_live_leader(self) -> list[TopicPartition]:
        """List the partitions whose leader is not online, without those of topics to be deleted."""
        return [
            partition
            for partition, current in self.leader_and_isr.items()
            if not self.being_deleted(partition) and not self.is_online(current.leader, partition)
        ]
