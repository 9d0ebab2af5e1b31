"""What replication promises at every moment, checked from outside: of brokers that live, of those that are away, and of
what ZooKeeper says.

- An acknowledged record (acks=all) is on at least `min.insync.replicas` replicas when the producer is told.
- The leader is in the ISR, and the ISR is among the assigned replicas.
- Every member of the maximal ISR has all that its leader counts as committed.
- Who joins the ISR has the leader's log up to the start of the leader's epoch.
- Records below a follower's high watermark are those that everybody else has seen there.

None of them needs luck to be seen: a fault that breaks one shows at the next look, whether or not somebody would have
lost a record by it.
"""

from collections.abc import Callable

from odradek.broker.replication.partition import Partition
from odradek.client.records import TopicPartition
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.history import History
from odradek.zk_schema.znodes.topics import TOPICS_PATH, PartitionState, TopicAssignment, state_path, topic_path


class Safety:
    """The promises of one cluster.

    `min_isr`: its `min.insync.replicas`. `suspended()` is true while what one disk held may be missing: after a power
    failure, until all replicas are in sync again.
    """

    def __init__(self, cluster: EmbeddedCluster, history: History, min_isr: int, suspended: Callable[[], bool]) -> None:
        self._cluster, self._history = cluster, history
        self._min_isr, self._suspended = min_isr, suspended
        self._seen: dict[str, bytes] = {}
        self._states: dict[tuple[str, int], PartitionState] = {}
        self._replicas: dict[tuple[str, int], tuple[int, ...]] = {}
        self._members: dict[tuple[int, int, str, int, int], frozenset[int]] = {}

    # acknowledgements

    def acknowledged(self, partition: TopicPartition, offset: int) -> None:
        """A producer has been told that its record is at `offset`."""
        if self._suspended():
            return
        where = (partition.topic, partition.partition)
        ends = {broker.broker_id: broker.log_end(*where) for broker in self._cluster.brokers}
        holders = sum(end is not None and end > offset for end in ends.values())
        if holders < self._min_isr:
            self._history.violated(f"{partition} offset {offset} is acknowledged; log ends by broker: {ends}")

    # looks

    def look(self) -> None:
        """Look at ZooKeeper and at all leaders."""
        self._look_at_zookeeper()
        for broker in self._cluster.brokers:
            if broker.running:
                for (topic, index), partition in list(broker.server.services.replicas.partitions.items()):
                    state = self._states.get((topic, index))
                    if partition.is_leader and state is not None and state.leader_epoch == partition.leader_epoch:
                        self._look_at_isr(broker, partition)

    def _look_at_zookeeper(self) -> None:
        tree = self._cluster.zookeeper.tree
        parent = tree.get(TOPICS_PATH)
        topics = sorted(parent.children) if parent is not None else []
        for gone in {topic for topic, _ in self._states} - set(topics):
            self._forget(gone)
        for topic in topics:
            data = tree.node(topic_path(topic)).data
            if self._seen.get(topic) != data:
                self._forget(topic)
                self._seen[topic] = data
                for index, held in TopicAssignment.decode(topic, data).partitions.items():
                    self._replicas[(topic, index)] = tuple(held.replicas)
        for where in self._replicas:
            self._look_at_state(*where)

    def _forget(self, topic: str) -> None:
        for where in [where for where in self._replicas if where[0] == topic]:
            del self._replicas[where]
            self._states.pop(where, None)
        self._seen.pop(topic, None)

    def _look_at_state(self, topic: str, index: int) -> None:
        node = self._cluster.zookeeper.tree.get(state_path(topic, index))
        if node is None:
            self._states.pop((topic, index), None)
            return
        path = state_path(topic, index)
        if self._seen.get(path) == node.data and (topic, index) in self._states:
            return
        self._seen[path] = node.data
        state = self._states[(topic, index)] = PartitionState.decode(topic, index, node.data)
        if state.leader >= 0 and state.leader not in state.isr:
            self._history.violated(f"{topic}-{index}: the leader is not in the ISR: {state}")
        if not set(state.isr) <= set(self._replicas[(topic, index)]):
            replicas = self._replicas[(topic, index)]
            self._history.violated(f"{topic}-{index}: ISR {state.isr} is not among the replicas {replicas}")

    def _look_at_isr(self, leader: EmbeddedBroker, partition: Partition) -> None:
        where = (partition.topic, partition.index)
        life = (leader.broker_id, leader.lives, *where, partition.leader_epoch)
        before = self._members.get(life, partition.committed_isr)
        self._members[life] = partition.committed_isr
        if self._suspended():
            return
        for member in partition.maximal_isr:
            if member == leader.broker_id or member >= len(self._cluster.brokers):
                continue
            end = self._cluster.brokers[member].log_end(*where)
            if end is not None and end < partition.high_watermark:
                self._history.violated(
                    f"{partition}: high watermark {partition.high_watermark}, broker {member} in the ISR ends at {end}"
                )
            joined = member in partition.committed_isr and member not in before
            if joined and end is not None and end < partition.leader_epoch_start_offset:
                self._history.violated(
                    f"{partition}: broker {member} has joined the ISR with {end}, "
                    f"the epoch begins at {partition.leader_epoch_start_offset}"
                )
