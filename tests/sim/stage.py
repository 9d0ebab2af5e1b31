"""A stage for damage: brokers that hold one partition, into which a test plants what must never be."""

from types import SimpleNamespace
from typing import Any, cast

from odradek.broker.log.batches import Origin
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.settings.topic_settings import LogConfig
from odradek.client.records import TopicPartition
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch, make_environment, open_test_log
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.simulation.history import History
from odradek.testing.simulation.run import Simulation
from odradek.testing.simulation.safety import Safety
from odradek.testing.simulation.verdict import Verdict
from odradek.testing.virtual_clock import ManualClock
from odradek.zk_schema.store import Create, SetData
from odradek.zk_schema.znodes.topics import PartitionReplicas, PartitionState, TopicAssignment

T0 = TopicPartition("t", 0)
WHERE = ("t", 0)
STATE = PartitionState(leader=0, leader_epoch=5, isr=(0, 1, 2), controller_epoch=3)


class Stage:
    """Brokers that hold one partition, led by broker 0 in epoch 5, with what a test plants into them."""

    def __init__(self, topic: str = "t") -> None:
        self.clock = ManualClock()
        self.history = History(self.clock)
        self.topic = topic
        self.groups: list[list[Any]] = [[]]
        """Readers who are to have seen everything together."""
        self.replicas = [self._replica(broker) for broker in range(3)]
        self.brokers = [self._broker(broker, replica) for broker, replica in enumerate(self.replicas)]
        self.zookeeper = MemoryZooKeeper(self.clock)
        self.cluster = cast(
            EmbeddedCluster,
            SimpleNamespace(overrides={}, brokers=self.brokers, clock=self.clock, zookeeper=self.zookeeper),
        )
        view = PartitionView(0, 5, (0, 1, 2), 0, (0, 1, 2))
        for replica in self.replicas:
            if replica.local_id == 0:
                replica.lead(view, 0.0)
            else:
                replica.follow(view)

    @property
    def leader(self) -> Partition:
        return self.replicas[0]

    @property
    def seen(self) -> str:
        """The first violation."""
        return str(self.history.violation or "")

    def _replica(self, broker: int) -> Partition:
        return Partition(self.topic, 0, broker, open_test_log(make_environment(), LogConfig(min_insync_replicas=2)))

    def _broker(self, broker_id: int, replica: Partition) -> Any:
        held = {(self.topic, 0): replica}
        services = SimpleNamespace(
            replicas=SimpleNamespace(partitions=held),
            controller=SimpleNamespace(controller_epoch=-1, state=None),
            controller_requests=SimpleNamespace(controller_epoch=3),
            groups=SimpleNamespace(groups=[], partition_for=lambda group: 0, list_groups=lambda *_: (0, [])),
            transactions=SimpleNamespace(list_transactions=lambda: (0, []), partition_for=lambda name: 0),
            logs=SimpleNamespace(directories={}),
            producer_ids=SimpleNamespace(left=range(broker_id * 10, broker_id * 10 + 10)),
            identity=SimpleNamespace(broker_epoch=-1),
        )
        server = SimpleNamespace(services=services, tasks=SimpleNamespace(deaths=[]))
        return SimpleNamespace(
            broker_id=broker_id, host=f"broker-{broker_id}", lives=1, running=True, suspended=False, server=server,
            clock=self.clock, log_end=lambda topic, index: replica.log.log_end_offset, spans_at_death={},
        )  # fmt: skip

    def write(self, *batches: bytearray, to: tuple[int, ...] = (0, 1, 2)) -> None:
        """Append to the leader, and have those of `to` copy it; the leader knows of it."""
        for batch in batches:
            self.leader.log.append_as_leader(batch, 5, origin=Origin.COORDINATOR)
        for follower in to:
            if follower:
                log = self.replicas[follower].log
                records = self.leader.log.read(
                    log.log_end_offset, 1 << 20, self.leader.log.log_end_offset, whole_first_batch=True
                ).records
                log.append_as_follower(records if isinstance(records, bytes) else records.read())
                self.leader.follower_fetched(follower, log.log_end_offset, 0, -1, 1.0)

    @staticmethod
    def other(value: bytes) -> bytes:
        """Make what another leader has written at the beginning of its log."""
        log = open_test_log(make_environment(), LogConfig())
        log.append_as_leader(make_batch([value]), 5)
        records = log.read(0, 1 << 20, 1, whole_first_batch=True).records
        return records if isinstance(records, bytes) else records.read()

    def in_zookeeper(self, state: PartitionState) -> None:
        """Have ZooKeeper take a state of the partition."""
        path = f"/brokers/topics/{self.topic}/partitions/0/state"
        if self.zookeeper.tree.get(path) is not None:
            self.zookeeper.commit([SetData(path, state.encode(), -1)], 0)
            return
        assignment = TopicAssignment({0: PartitionReplicas((0, 1, 2))}, b"i" * 16).encode()
        above = f"/brokers/topics/{self.topic}"
        for node, data in (
            ("/controller_epoch", b"3"), ("/brokers", b""), ("/brokers/topics", b""), (above, assignment),
            (f"{above}/partitions", b""), (f"{above}/partitions/0", b""), (path, state.encode()),
        ):  # fmt: skip
            self.zookeeper.commit([Create(node, data)], 0)

    def safety(self) -> Safety:
        """Make the watcher of safety, which knows the partition's state."""
        safety = Safety(self.cluster, self.history, 2)
        self.in_zookeeper(STATE)
        return safety

    def verdict(self) -> Verdict:
        run = SimpleNamespace(
            cluster=self.cluster, history=self.history, inspection=SimpleNamespace(topic="t", newest={}), members=[],
            programs=SimpleNamespace(groups=self.groups), plan=SimpleNamespace(seed=1),
        )  # fmt: skip
        return Verdict(cast(Simulation, run))
