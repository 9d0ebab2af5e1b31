"""Epochs as brokers keep them: none of them ever falls while a broker lives.

What a leader counts of its followers is of its own epoch, and is there. What a follower adds to its log in an epoch is
in the log of the leader of that epoch, and so is all before it: a leader answers only whose history is its own so far.
"""

from odradek.broker.replication.isr import FollowerProgress
from odradek.broker.replication.partition import NO_EPOCH, Partition
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.history import History

Where = tuple[str, int]
Epochs = tuple[int, int]


class Fences:
    """Watches the epochs of one cluster's brokers."""

    def __init__(self, cluster: EmbeddedCluster, history: History) -> None:
        self._cluster, self._history = cluster, history
        self._controllers: dict[tuple[int, int], int] = {}
        """Highest controller epoch that a broker has obeyed, by its id and life."""
        self._partitions: dict[tuple[int, Where], tuple[Partition, Epochs]] = {}
        """Each replica as it was last seen, with its leader epoch and partition epoch."""
        self._led_since_ms: dict[tuple[Where, int], float] = {}
        """Time at which ZooKeeper took a partition's leader epoch."""
        self._ends: dict[tuple[int, Where], tuple[Partition, int, int]] = {}
        """Each follower's replica as it was last seen, with its leader epoch and the end of its log."""

    def elected(self, where: Where, leader_epoch: int) -> None:
        """Note that ZooKeeper has taken a new leader epoch in this moment."""
        self._led_since_ms[where, leader_epoch] = self._cluster.clock.monotonic_ms()

    def look(self) -> None:
        """Look at all brokers that run."""
        for broker in self._cluster.brokers:
            if broker.running:
                self._look_at_controller_epoch(broker)
                for where, partition in broker.server.services.replicas.partitions.items():
                    self._look_at_epochs(broker, where, partition)
                    if partition.is_leader:
                        self._look_at_followers(where, partition)
                    else:
                        self._look_at_growth(broker, where, partition)

    def _look_at_controller_epoch(self, broker: EmbeddedBroker) -> None:
        life = (broker.broker_id, broker.lives)
        obeyed = broker.server.services.controller_requests.controller_epoch
        before = self._controllers.get(life, obeyed)
        if obeyed < before:
            self._history.violated(f"{broker.host} obeys controller epoch {obeyed} after {before}")
        self._controllers[life] = obeyed

    def _look_at_epochs(self, broker: EmbeddedBroker, where: Where, partition: Partition) -> None:
        key = (broker.broker_id, where)
        seen, before = self._partitions.get(key, (partition, (-1, -1)))
        epochs = (partition.leader_epoch, partition.partition_epoch)
        if seen is partition and epochs < before:
            self._history.violated(
                f"{broker.host}: {partition} goes from leader and partition epoch {before} back to {epochs}"
            )
        if seen is not partition or epochs != before:
            self._partitions[key] = (partition, epochs)

    def _look_at_followers(self, where: Where, leader: Partition) -> None:
        since_ms = self._led_since_ms.get((where, leader.leader_epoch))
        for broker, follower in leader.followers.items():
            if since_ms is not None and follower.log_end >= 0 and follower.last_fetch_ms < since_ms:
                self._history.violated(
                    f"{leader} counts {follower.log_end} of broker {broker}, fetched before its epoch began"
                )
            end = self._end(broker, follower, leader, where)
            if end is not None and follower.log_end > end and not self._may_copy_again(broker, follower, leader):
                self._history.violated(f"{leader} counts {follower.log_end} of broker {broker}, which ends at {end}")

    @staticmethod
    def _may_copy_again(broker: int, follower: FollowerProgress, leader: Partition) -> bool:
        """Tell whether a follower may have truncated since it fetched: where compaction has left holes, below the high
        watermark and outside the ISR, it may lack markers (broker/replication/truncation.py). Nothing depends on what
        is counted of it there."""
        return broker not in leader.maximal_isr and follower.log_end < leader.high_watermark

    def _end(self, broker_id: int, counted: FollowerProgress, leader: Partition, where: Where) -> int | None:
        """Return where a follower's log ends that has fetched in its present life and follows in the same epoch."""
        broker = self._cluster.brokers[broker_id]
        if not broker.running or broker.server.services.identity.broker_epoch != counted.broker_epoch:
            return None
        held = broker.server.services.replicas.partitions.get(where)
        same = held is not None and held.leader_epoch == leader.leader_epoch and not held.offline
        return held.log.log_end_offset if held is not None and same else None

    def _look_at_growth(self, broker: EmbeddedBroker, where: Where, follower: Partition) -> None:
        now = (follower, follower.leader_epoch, follower.log.log_end_offset)
        before = self._ends.get((broker.broker_id, where))
        if now == before:
            return
        self._ends[broker.broker_id, where] = now
        epoch, end = follower.log.epochs.latest, follower.log.log_end_offset
        if before is None or before[:2] != now[:2] or end <= before[2] or epoch == NO_EPOCH:
            return
        leader = self._leader(follower, where)
        if leader is not None and 0 <= (ends := leader.log.end_offset_for_epoch(epoch)[1]) < end:
            self._history.violated(
                f"{broker.host}: {follower} has added records of epoch {epoch} up to {end}, its leader has {ends} of it"
            )

    def _leader(self, follower: Partition, where: Where) -> Partition | None:
        """Return whom it follows, if that one knows of the same epoch."""
        if not 0 <= follower.leader < len(self._cluster.brokers):
            return None
        broker = self._cluster.brokers[follower.leader]
        leader = broker.server.services.replicas.partitions.get(where) if broker.running else None
        same = leader is not None and leader.is_leader and leader.leader_epoch == follower.leader_epoch
        return leader if same else None
