"""Epochs as brokers keep them: none of them ever falls while a broker lives.

What a leader counts of its followers is of its own epoch.
"""

from odradek.broker.replication.partition import Partition
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
        """When ZooKeeper took a partition's leader epoch."""

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
