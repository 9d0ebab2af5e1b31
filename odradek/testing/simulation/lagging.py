"""Lagging: who has not had all of its leader's log for `replica.lag.time.max.ms` is proposed to leave the ISR.

One that stays harms no record. But nothing is acknowledged any more until it comes back.
"""

from collections import deque

from odradek.broker.replication.partition import Partition
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.history import History

SLACK_MS = 4_000.0
"""For a leader to look at its followers, which it does twice in the time that they may lag, and for a busy one."""

Led = tuple[int, str, int]


class _Leader:
    """A leader in its present epoch, since it was free to look after its followers: when its log has ended where."""

    def __init__(self, leader: Partition, now_ms: float) -> None:
        self.life, self.since_ms = (leader, leader.leader_epoch), now_ms
        self.free_since_ms = now_ms
        """Since when it has had no change of its ISR in flight: it proposes one at a time."""
        self.ends: deque[tuple[float, int]] = deque()
        self.caught_up_ms: dict[int, float] = {}
        """When a member of the ISR was seen last to have all, or to come in: for that the high watermark is enough."""

    def lacks_since_ms(self, member: int, has: int, now_ms: float) -> float:
        """Tell since when a follower that ends at `has` has lacked something; now, if it lacks nothing."""
        if has >= self.ends[-1][1]:
            self.caught_up_ms[member] = now_ms
            return now_ms
        written_ms = next(at_ms for at_ms, end in self.ends if end > has)
        return max(self.since_ms, written_ms, self.caught_up_ms[member])


class Lagging:
    """Watches the followers of one cluster's leaders."""

    def __init__(self, cluster: EmbeddedCluster, history: History, lag_time_ms_max: float) -> None:
        self._cluster, self._history, self._limit_ms = cluster, history, lag_time_ms_max + SLACK_MS
        self._leaders: dict[Led, _Leader] = {}

    def look(self) -> None:
        """Look at all leaders."""
        free = [broker for broker in self._cluster.brokers if broker.running and not broker.suspended]
        led = {
            (broker.broker_id, *where): partition
            for broker in free
            for where, partition in broker.server.services.replicas.partitions.items()
            if partition.is_leader
        }
        self._leaders = {key: one for key, one in self._leaders.items() if key in led}
        for key, leader in led.items():
            self._look_at(key, leader)

    def _look_at(self, key: Led, leader: Partition) -> None:
        now_ms = self._cluster.clock.monotonic_ms()
        known = self._leaders.get(key)
        if known is None or known.life != (leader, leader.leader_epoch):
            known = self._leaders[key] = _Leader(leader, now_ms)
        end = leader.log.log_end_offset
        if not known.ends or known.ends[-1][1] != end:
            known.ends.append((now_ms, end))
        has = {one: self._end(one, leader) for one in leader.committed_isr if one != leader.local_id}
        known.caught_up_ms = {member: known.caught_up_ms.get(member, now_ms) for member in has}
        while len(known.ends) > 1 and known.ends[0][1] <= min(has.values(), default=end):
            known.ends.popleft()
        if leader.pending_isr is not None:
            known.free_since_ms = now_ms
        for member, there in has.items():
            lacks_ms = now_ms - known.lacks_since_ms(member, there, now_ms)
            if lacks_ms > self._limit_ms and now_ms - known.free_since_ms > SLACK_MS:
                self._history.violated(
                    f"{leader} keeps broker {member} in the ISR, which has lacked something for {lacks_ms:.0f} ms: "
                    f"it ends at {there} of {end}"
                )

    def _end(self, member: int, leader: Partition) -> int:
        return self._cluster.brokers[member].log_end(leader.topic, leader.index) or 0
