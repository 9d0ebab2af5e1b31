"""Safety of replication: what it promises at every moment, checked of all brokers, also those away, and ZooKeeper.

- An acknowledged record (acks=all) is on at least `min.insync.replicas` replicas when the producer is told, and one
  that consumers read. It is below a high watermark.
- The leader is in the ISR, and the ISR is among the assigned replicas. No election for want of a leader leaves somebody
  in it of whom the controller knows that he is gone.
- Every member of the ISR, as ZooKeeper has it or as the leader has asked for it, has all that its leader, or any before
  it, has counted as committed.
- Who joins the ISR has the leader's log up to the start of the leader's epoch.
- Within a leader epoch the ISR is what the leader has asked for. What `broken_rule` says holds for each new state.
- No replica in sync has a transaction open before the last stable offset.
- Nobody from outside the ISR leads, but of a topic that allows it, and while nobody of the ISR can.
- With fewer in the ISR than `min.insync.replicas` the high watermark stands still.

None of them needs luck to be seen: a fault that breaks one shows at the next look, and in the very moment in which
ZooKeeper takes a new ISR, whether or not somebody would have lost a record by it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from odradek.broker.replication.partition import NO_EPOCH, Partition
from odradek.client.records import TopicPartition
from odradek.controller.cluster_state import Broker, ClusterState
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.memory_tree import Change
from odradek.testing.simulation.history import History
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH
from odradek.zk_schema.znodes.topics import (
    LEADER_RECOVERING,
    TOPICS_PATH,
    PartitionState,
    TopicAssignment,
    state_path,
    topic_path,
)

Where = tuple[str, int]
STATE = "/state"


class Safety:
    """The promises of one cluster. `min_isr`: its `min.insync.replicas`."""

    def __init__(self, cluster: EmbeddedCluster, history: History, min_isr: int) -> None:
        self._cluster, self._history, self._min_isr = cluster, history, min_isr
        self._seen: dict[str, bytes] = {}
        self._seen_zxid = -1  # the last transaction of ZooKeeper when all of it was looked at
        self._states: dict[Where, PartitionState] = {}
        self._versions: dict[Where, int] = {}
        self._replicas: dict[Where, tuple[int, ...]] = {}
        self._stands: dict[tuple[int, int, Where, int], int] = {}
        """High watermarks of leaders, by their lives, at an ISR (partition epoch) that is too small."""
        self._doubtful: set[tuple[int, Where]] = set()
        """Replicas whose disk has lost something, until they are out of the ISR."""
        self._lost: dict[tuple[int, Where], int] = {}
        """End offsets of those logs."""
        self._committed: dict[Where, int] = {}
        """Highest watermark that a leader of the partition has had."""
        self._holders: dict[Where, set[int]] = {}
        """Brokers that held the partition at the last look, and replicas that did and may not have been told of it."""
        self._highest: dict[Where, int] = {}
        """Highest watermark that anybody was seen with, also who was no leader any more, and did not know it yet."""
        self._born: dict[str, int] = {}
        """Zxids at which the topics were made."""
        self.on_elected: Callable[[Where, int], object] = lambda where, leader_epoch: None
        """Called in the moment in which ZooKeeper takes a new leader epoch."""
        self.allows_unclean: Callable[[str], bool] = lambda topic: False
        self.on_leader: Callable[[Where, bool], object] = lambda where, unclean: None
        """Called in the moment in which ZooKeeper takes a new leader, with whether the election was unclean."""
        cluster.zookeeper.committed = self._changed
        cluster.dying = self._take_leave

    def doubt(self, broker: EmbeddedBroker) -> None:
        """A broker that has died is going to miss something of what was on its disk."""
        for where, state in self._states.items():
            if broker.broker_id in state.isr:
                self._doubtful.add((broker.broker_id, where))
            end = broker.log_end(*where)
            if end is not None:
                self._lost[(broker.broker_id, where)] = max(end, self._lost.get((broker.broker_id, where), 0))

    # acknowledgements

    def acknowledged(self, partition: TopicPartition, offset: int) -> None:
        """A producer has been told that its record is at `offset`."""
        self._look_at_holders(partition, offset, "is acknowledged")
        where = (partition.topic, partition.partition)
        if all(broker.running for broker in self._cluster.brokers):
            held = self._held(where)
            highest = max(self._committed.get(where, 0), self._highest.get(where, 0), *held.values())
            if highest <= offset and held.keys() >= self._holders.get(where, set()):
                self._history.violated(
                    f"{partition} offset {offset} is acknowledged, no high watermark was above {highest}"
                )

    def _held(self, where: Where) -> dict[int, int]:
        """Return who runs and holds a partition, with the high watermark. Who gives it up takes along what it knew."""
        running = {one.broker_id: one.server.services.replicas for one in self._cluster.brokers if one.running}
        found = {broker: replicas.partitions.get(where) for broker, replicas in running.items()}
        return {broker: partition.high_watermark for broker, partition in found.items() if partition is not None}

    def read(self, partition: TopicPartition, offset: int) -> None:
        """A consumer has been given the record at `offset`, which is to be below the high watermark."""
        self._look_at_holders(partition, offset, "is read")

    def _look_at_holders(self, partition: TopicPartition, offset: int, what: str) -> None:
        where = (partition.topic, partition.partition)
        ends = {broker.broker_id: broker.log_end(*where) for broker in self._cluster.brokers}
        holders = sum(
            max(-1 if end is None else end, self._lost.get((broker, where), -1)) > offset
            for broker, end in ends.items()
        )
        if holders < self._min_isr:
            self._history.violated(f"{partition} offset {offset} {what}; log ends by broker: {ends}")

    # ZooKeeper

    def _changed(self, changes: Sequence[Change]) -> None:
        """A transaction of ZooKeeper is done."""
        for change in changes:
            if change.path.endswith(STATE) and change.path.startswith(TOPICS_PATH):
                topic, _, index = change.path.removeprefix(TOPICS_PATH + "/").split("/")[:3]
                self._look_at_assignment(topic)
                if (topic, int(index)) in self._replicas:
                    self._look_at_state(topic, int(index))

    def _look_at_zookeeper(self) -> None:
        if self._seen_zxid == self._cluster.zookeeper.tree.last_zxid:
            return
        self._seen_zxid = self._cluster.zookeeper.tree.last_zxid
        parent = self._cluster.zookeeper.tree.get(TOPICS_PATH)
        topics = sorted(parent.children) if parent is not None else []
        for gone in {topic for topic, _ in self._replicas} - set(topics):
            self._forget(gone)
        for topic in topics:
            self._look_at_assignment(topic)
        for where in self._replicas:
            self._look_at_state(*where)

    def _look_at_assignment(self, topic: str) -> None:
        node = self._cluster.zookeeper.tree.get(topic_path(topic))
        if node is not None and self._seen.get(topic) != node.data:
            if self._born.get(topic) != node.czxid:
                self._forget(topic)
            self._seen[topic], self._born[topic] = node.data, node.czxid
            for index, held in TopicAssignment.decode(topic, node.data).partitions.items():
                self._replicas[(topic, index)] = tuple(held.replicas)

    def _forget(self, topic: str) -> None:
        for where in [where for where in self._replicas if where[0] == topic]:
            for known in (self._replicas, self._states, self._committed, self._highest):
                known.pop(where, None)
        self._seen.pop(topic, None)

    def _look_at_state(self, topic: str, index: int) -> None:
        where, path = (topic, index), state_path(topic, index)
        node = self._cluster.zookeeper.tree.get(path)
        if node is None:
            self._states.pop(where, None)
            return
        self._versions[where] = node.version
        if self._seen.get(path) == node.data and where in self._states:
            return
        self._seen[path] = node.data
        before = self._states.get(where)
        state = self._states[where] = PartitionState.decode(topic, index, node.data)
        if state.leader >= 0 and state.leader not in state.isr:
            self._history.violated(f"{topic}-{index}: the leader is not in the ISR: {state}")
        replicas = self._replicas[where]
        came = set(state.isr) - (set(before.isr) if before is not None else set())
        if not came <= set(replicas):  # those that are no replicas any more leave one by one
            self._history.violated(f"{topic}-{index}: ISR {state.isr} is not among the replicas {replicas}")
        self._doubtful -= {(broker, where) for broker in replicas if broker not in state.isr}
        if before is not None:
            self._look_at_change(where, before, state)
            if before.leader != state.leader >= 0:
                self._look_at_loss(where, before, state)
        if before is None or before.leader_epoch != state.leader_epoch:
            self.on_elected(where, state.leader_epoch)
        if before is not None and before.leader_epoch == state.leader_epoch:
            self._look_at_newcomers(where, state, set(state.isr) - set(before.isr))
        elif before is not None and before.leader != state.leader >= 0:
            self._look_at_election(where, before, state)

    def _look_at_change(self, where: Where, before: PartitionState, state: PartitionState) -> None:
        epoch = self._cluster.zookeeper.tree.get(CONTROLLER_EPOCH_PATH)
        written = int(epoch.data) if epoch is not None else state.controller_epoch
        broken = broken_rule(before, state, written, unclean=self.allows_unclean(where[0]))
        if broken is not None:
            self._history.violated(f"{where[0]}-{where[1]}: {state}: {broken}")
        leader = self._leader(where, state)
        if leader is None or before.leader_epoch != state.leader_epoch or set(before.isr) == set(state.isr):
            return
        asked = leader.pending_isr
        if asked is None or asked.broker_ids != set(state.isr):
            self._history.violated(f"{leader}: the ISR is {list(state.isr)}, its leader has asked for {asked}")
        else:
            newcomers = {one: life for one, life in asked.isr if one not in before.isr}
            self._look_at_lives(leader, newcomers, state.controller_epoch)

    def _look_at_lives(self, leader: Partition, newcomers: Mapping[int, int], controller_epoch: int) -> None:
        """Require that those who join do so in the life in which they have fetched, as far as the controller knows that
        has written it."""
        known = self._known_to(controller_epoch)
        for newcomer, life in newcomers.items():
            if newcomer in known and life not in (NO_EPOCH, known[newcomer].epoch):
                self._history.violated(
                    f"{leader}: broker {newcomer} has joined the ISR by what it had fetched in its life {life}, "
                    f"its controller knows of {known[newcomer].epoch}"
                )

    def _active(self, controller_epoch: int) -> ClusterState | None:
        """Return what the controller of that epoch knows; None when it is gone."""
        for broker in self._cluster.brokers:
            active = broker.server.services.controller.state if broker.running else None
            if active is not None and active.controller_epoch == controller_epoch:
                return active
        return None

    def _known_to(self, controller_epoch: int) -> Mapping[int, Broker]:
        """Return the brokers of which the controller of that epoch knows that they live; none when it is gone."""
        active = self._active(controller_epoch)
        return {} if active is None else active.brokers

    def _look_at_newcomers(self, where: Where, state: PartitionState, newcomers: set[int]) -> None:
        leader = self._leader(where, state)
        if leader is not None and newcomers:
            self._look_at_members(leader, newcomers)
            for member, end in self._ends(leader, newcomers):
                self._look_at_begin(leader, member, end)

    def _look_at_begin(self, leader: Partition, member: int, end: int) -> None:
        if end < leader.leader_epoch_start_offset:
            self._history.violated(
                f"{leader}: broker {member} joins the ISR with {end}, "
                f"the epoch begins at {leader.leader_epoch_start_offset}"
            )

    def _look_at_loss(self, where: Where, before: PartitionState, state: PartitionState) -> None:
        """Look at who leads now: from outside the ISR only if nobody of it can; then what was committed may be lost."""
        unclean = is_unclean(before, state)
        if unclean:
            self._committed.pop(where, None)
            self._highest.pop(where, None)
            able = [one for one in before.isr if self._is_online(one, where, state.controller_epoch)]
            if able:
                self._history.violated(f"{where}: {state} is elected from outside the ISR, though {able} could lead")
        self.on_leader(where, unclean)

    def _is_online(self, broker_id: int, where: Where, controller_epoch: int) -> bool:
        active = self._active(controller_epoch)
        return active is not None and active.is_online(broker_id, TopicPartition(*where))

    def _look_at_election(self, where: Where, before: PartitionState, state: PartitionState) -> None:
        """Look at who is in the ISR when another leader is elected because the former is gone."""
        known = self._known_to(state.controller_epoch)
        gone = set(state.isr) - set(known)
        if known and before.leader not in known and gone:
            self._history.violated(f"{where}: {state} is elected with {sorted(gone)} in the ISR, who are gone")

    # leaders

    def look(self) -> None:
        """Look at ZooKeeper and at all leaders."""
        self._look_at_zookeeper()
        for where, state in self._states.items():
            held, away = self._held(where), self._holders.get(where, set()).intersection(self._replicas.get(where, ()))
            self._holders[where] = away.union(held)
            self._highest[where] = max([self._highest.get(where, 0), *held.values()])
            leader = self._leader(where, state)
            if leader is not None:
                pending = leader.pending_isr.broker_ids if leader.pending_isr is not None else ()
                self._look_at_members(leader, {*state.isr, *leader.committed_isr, *pending})
                self._look_at_watermark(leader, state)
                self._look_at_open_transactions(leader, state)
                if pending:
                    for member, end in self._ends(leader, set(pending) - leader.committed_isr):
                        self._look_at_begin(leader, member, end)

    def present_leader(self, where: Where) -> Partition | None:
        """Return the leader that ZooKeeper names, if it knows of its epoch."""
        state = self._states.get(where)
        return None if state is None else self._leader(where, state)

    def replicated(self, where: Where) -> int:
        """Return the offset up to which all replicas in sync have the partition, or have had it."""
        state = self._states.get(where)
        members = [self._cluster.brokers[one] for one in state.isr] if state is not None else []
        ends = [max(one.log_end(*where) or 0, self._lost.get((one.broker_id, where), 0)) for one in members]
        return max(min(ends, default=0), self._committed.get(where, 0))

    def _leader(self, where: Where, state: PartitionState) -> Partition | None:
        """Return the leader as it sees itself, if it knows of this epoch."""
        if not 0 <= state.leader < len(self._cluster.brokers):
            return None
        broker = self._cluster.brokers[state.leader]
        partitions = broker.server.services.replicas.partitions if broker.running else {}
        partition = partitions.get(where)
        if partition is None or not partition.is_leader or partition.leader_epoch != state.leader_epoch:
            return None
        return partition

    def _ends(self, leader: Partition, members: Iterable[int]) -> list[tuple[int, int]]:
        """Return the members and the ends of their logs, for those that can be told."""
        where = (leader.topic, leader.index)
        known = []
        for member in sorted(members):
            if member != leader.local_id and member < len(self._cluster.brokers):
                end = self._cluster.brokers[member].log_end(*where)
                if end is not None and (member, where) not in self._doubtful:
                    known.append((member, end))
        return known

    def _take_leave(self, broker: EmbeddedBroker) -> None:
        """Note what a broker that is about to die has counted as committed."""
        for where, state in self._states.items():
            leader = self._leader(where, state) if state.leader == broker.broker_id else None
            if leader is not None:
                self._note_committed(leader)

    def _note_committed(self, leader: Partition) -> int:
        """Return what this leader, or any before it, has counted as committed."""
        where = (leader.topic, leader.index)
        committed = self._committed[where] = max(leader.high_watermark, self._committed.get(where, 0))
        return committed

    def _look_at_members(self, leader: Partition, members: Iterable[int]) -> None:
        committed = self._note_committed(leader)
        for member, end in self._ends(leader, members):
            if end < committed:
                self._history.violated(
                    f"{leader}: high watermark {leader.high_watermark}, the highest yet {committed}, "
                    f"broker {member} in the ISR ends at {end}"
                )

    def _look_at_watermark(self, leader: Partition, state: PartitionState) -> None:
        where = (leader.topic, leader.index)
        too_small = len(state.isr) < min(leader.log.config.min_insync_replicas, len(self._replicas[where]))
        life = (leader.local_id, self._cluster.brokers[leader.local_id].lives, where, leader.partition_epoch)
        if not too_small or leader.partition_epoch != self._versions[where]:
            self._stands.pop(life, None)  # the setting may change while the ISR stays
            return
        stood = self._stands.setdefault(life, leader.high_watermark)
        if leader.high_watermark > stood:
            self._history.violated(
                f"{leader}: high watermark {stood} -> {leader.high_watermark} with an ISR of {len(state.isr)}"
            )

    def _look_at_open_transactions(self, leader: Partition, state: PartitionState) -> None:
        """Require that no replica in sync has a transaction open before the leader's last stable offset.

        A snapshot of producers holds no transaction that has ended, Kafka's neither: a leader that was started on a
        marker which a replica still lacks does not know where its transaction began. It is decided, and stays so.
        """
        where, stable = (leader.topic, leader.index), leader.last_stable_offset
        _, loaded_end = self._cluster.brokers[leader.local_id].spans_at_death.get(where, (0, 0))
        for member in state.isr:
            broker = self._cluster.brokers[member]
            replica = broker.server.services.replicas.partitions.get(where) if broker.running else None
            if replica is None or replica.leader_epoch != leader.leader_epoch:
                continue
            if replica.log.log_end_offset < loaded_end:
                continue
            begin = leader.log.log_start_offset
            for producer in replica.log.producers.producers.values():
                if begin <= producer.transaction_first_offset < stable:
                    self._history.violated(
                        f"{leader}: last stable offset {stable}, on broker {member} a transaction is open from "
                        f"{producer.transaction_first_offset}"
                    )


def broken_rule(
    before: PartitionState, after: PartitionState, controller_epoch: int, *, unclean: bool = False
) -> str | None:
    """Return which rule a state breaks that follows upon another; None when it breaks none.

    `controller_epoch` is what `/controller_epoch` says in that moment. A deposed controller writes nothing; the leader
    epoch never falls, and has one leader; nobody enters the ISR by an election. Unless the topic allows `unclean` ones:
    then one leads who was not in the ISR, alone, and only then it is written that the partition is to recover.
    """
    if after.controller_epoch != controller_epoch:
        return f"written in controller epoch {after.controller_epoch}, the present one is {controller_epoch}"
    if after.leader_epoch < before.leader_epoch:
        return f"the leader epoch falls from {before.leader_epoch}"
    if after.leader_epoch == before.leader_epoch:
        return f"the leader was {before.leader} in the same epoch" if after.leader != before.leader else None
    recovers = before.leader_recovery_state != LEADER_RECOVERING == after.leader_recovery_state
    if recovers and after.leader in before.isr:
        return f"to recover, though {after.leader} was in the ISR, which was {list(before.isr)}"
    strangers = set(after.isr) - set(before.isr)
    if strangers and not (unclean and is_unclean(before, after)):
        return f"elected with {sorted(strangers)} in the ISR, which was {list(before.isr)}"
    return None


def is_unclean(before: PartitionState, after: PartitionState) -> bool:
    """Tell whether a state is that of an election from outside of the ISR, as it has to be."""
    alone = after.isr == (after.leader,) and after.leader_recovery_state == LEADER_RECOVERING
    return alone and after.leader not in before.isr
