"""Choice of the replica that a consumer is sent to (KIP-392): the nearest by rack that has what it asks for."""

from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.cluster.metadata_cache import Node
from odradek.broker.replication.partition import Partition

LEADER = -1
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Candidate(NamedTuple):
    """A replica in the reader's rack; the greatest is the most caught up (Java: ReplicaView.comparator)."""

    log_end: int
    last_caught_up_ms: float
    broker_id: int


class RackAwareReplicaSelector:
    """Prefers a replica in the consumer's rack: the leader if it stands there, else the most caught up of the ISR."""

    def __init__(self, node: Callable[[int, str], Node | None]) -> None:
        """`node` returns a live broker's node by its id and a listener's name."""
        self._node = node

    def select(self, partition: Partition, rack: str, listener: str, offset: int) -> int:
        """Return the broker that a consumer in `rack` should ask for `offset`, or LEADER for this one, which leads.

        A replica outside the ISR, or without the offset, is no candidate. Source: Kafka 3.9,
        ReplicaManager.findPreferredReadReplica and RackAwareReplicaSelector.
        """
        if self._stands_in(rack, partition.local_id, listener):
            return LEADER
        candidates = [
            Candidate(follower.log_end, follower.last_caught_up_ms, broker_id)
            for broker_id, follower in partition.followers.items()
            if broker_id in partition.committed_isr
            and follower.log_start <= offset <= follower.log_end
            and self._stands_in(rack, broker_id, listener)
        ]
        return max(candidates).broker_id if candidates else LEADER

    def _stands_in(self, rack: str, broker_id: int, listener: str) -> bool:
        node = self._node(broker_id, listener)
        return node is not None and node.rack == rack
