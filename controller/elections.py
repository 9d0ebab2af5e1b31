"""Election of partition leaders: Kafka's four strategies on plain collections (Kafka's Election.scala).

Each takes what ZooKeeper says now and what is known of the brokers, and answers with the next state of the partition,
or None when nobody may lead it. Nothing here knows of ZooKeeper or of requests.
"""

from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple

NO_LEADER = -1
FIRST_LEADER_EPOCH = 0


class Strategy(Enum):
    """Why a leader is elected."""

    OFFLINE_PARTITION = "OfflinePartition"
    REASSIGN_PARTITION = "ReassignPartition"
    PREFERRED_REPLICA = "PreferredReplica"
    CONTROLLED_SHUTDOWN = "ControlledShutdown"


class LeaderAndIsr(NamedTuple):
    """A partition's leader and in-sync replicas: the data and the version of its state znode."""

    leader: int
    """Broker id, or NO_LEADER."""
    leader_epoch: int
    isr: tuple[int, ...]
    recovering: bool
    """The leader was elected outside the ISR and has not yet said that it has recovered (KIP-704)."""
    controller_epoch: int
    partition_epoch: int
    """Version of the znode."""

    def led_by(self, leader: int, isr: Sequence[int], *, recovering: bool | None = None) -> "LeaderAndIsr":
        """A new leader (or NO_LEADER) and ISR: always one leader epoch further."""
        return self._replace(
            leader=leader,
            leader_epoch=self.leader_epoch + 1,
            isr=tuple(isr),
            recovering=self.recovering if recovering is None else recovering,
        )


def first_leader_and_isr(replicas: Sequence[int], live: Collection[int], controller_epoch: int) -> LeaderAndIsr | None:
    """Make the state of a new partition: the first live replica leads, all live ones (they are empty) are in sync."""
    live_replicas = tuple(broker for broker in replicas if broker in live)
    if not live_replicas:
        return None
    return LeaderAndIsr(live_replicas[0], FIRST_LEADER_EPOCH, live_replicas, False, controller_epoch, 0)


def elect_offline(
    current: LeaderAndIsr, replicas: Sequence[int], live: Collection[int], *, unclean_allowed: bool
) -> LeaderAndIsr | None:
    """Elect the first live replica in assignment order that is in the ISR.

    If there is none and an unclean election is allowed, the first live replica: the ISR becomes that leader alone,
    marked as recovering, for it may lack acknowledged records.
    """
    leader = _first(replicas, live, current.isr)
    if leader is not None:
        return current.led_by(leader, [broker for broker in current.isr if broker in live])
    if not unclean_allowed:
        return None
    leader = _first(replicas, live, replicas)
    return None if leader is None else current.led_by(leader, [leader], recovering=True)


def elect_reassigned(
    current: LeaderAndIsr, target_replicas: Sequence[int], live: Collection[int]
) -> LeaderAndIsr | None:
    """Elect the first of the target replicas that is live and in the ISR."""
    leader = _first(target_replicas, live, current.isr)
    return None if leader is None else current.led_by(leader, current.isr)


def elect_preferred(current: LeaderAndIsr, replicas: Sequence[int], live: Collection[int]) -> LeaderAndIsr | None:
    """Elect the first assigned replica if it is live and in the ISR."""
    leader = _first(replicas[:1], live, current.isr)
    return None if leader is None else current.led_by(leader, current.isr)


def elect_for_shutdown(
    current: LeaderAndIsr,
    replicas: Sequence[int],
    live_or_shutting_down: Collection[int],
    shutting_down: Collection[int],
) -> LeaderAndIsr | None:
    """Elect the first live replica in the ISR on a broker that stays; brokers that shut down leave the ISR."""
    staying = [broker for broker in current.isr if broker not in shutting_down]
    leader = _first(replicas, live_or_shutting_down, staying)
    return None if leader is None else current.led_by(leader, staying)


def is_unclean(before: LeaderAndIsr, after: LeaderAndIsr) -> bool:
    """True when the leader was elected outside the ISR."""
    return after.leader != NO_LEADER and after.leader not in before.isr


def without_replica(current: LeaderAndIsr, broker: int) -> LeaderAndIsr:
    """Take a replica that went offline out of the ISR, unless it is the last one, which may be needed to come back."""
    leader = NO_LEADER if current.leader == broker else current.leader
    isr = current.isr if len(current.isr) == 1 else tuple(member for member in current.isr if member != broker)
    return current.led_by(leader, isr)


def _first(candidates: Sequence[int], live: Collection[int], eligible: Collection[int]) -> int | None:
    return next((broker for broker in candidates if broker in live and broker in eligible), None)
