"""Waiting until the cluster is as a test wants it. Nothing sleeps: see conditions.py."""

from collections.abc import Callable, Iterable

from odradek.testing.cluster.brokers import BrokerFaults
from odradek.testing.cluster.core import WAIT_S
from odradek.testing.cluster.options import ClusterError
from odradek.testing.cluster.protocol_faults import Fault

WAITED_FOR = ("leader", "isr", "start", "records", "lag", "members", "state", "controller", "brokers", "fault")
GROUP_STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead")


class Waits(BrokerFaults):
    """`wait_for`."""

    async def wait_for(
        self,
        topic: str | None = None,
        partition: int = 0,
        *,
        leader: int | None = None,
        isr: int | Iterable[int] | None = None,
        start: int | None = None,
        records: int | None = None,
        group: str | None = None,
        lag: int | None = None,
        members: int | None = None,
        state: str | None = None,
        controller: int | Iterable[int] | None = None,
        brokers: int | None = None,
        fault: Fault | None = None,
        timeout: float = WAIT_S,
    ) -> None:
        """Wait until all given conditions hold at once.

        Of `topic` and `partition`: `leader` (a broker; -1: none), `isr` (a size, or the brokers), `start` (the log
        starts at this offset or later), `records` (the whole topic has at least this many committed ones). Of `group`:
        `lag` (at most this many records, over `topic` or over all partitions that it has committed), `members` (their
        number), `state` (`Stable`, `Empty`, …). Of the cluster: `controller` (this broker, or one of these), `brokers`
        (how many run). `fault`: it has struck, or holds an answer.

        Raises TimeoutError after `timeout` seconds, with the conditions that do not hold; ClusterError for a topic,
        partition or group that does not exist.
        """
        conditions: list[Callable[[], str | None]] = []
        if any(one is not None for one in (leader, isr, start, records)):
            if topic is None:
                raise ClusterError("leader, isr, start and records are those of a `topic`")
            name = topic
            conditions += [lambda: self._not_of_partition(name, partition, leader, isr, start, records)]
        if any(one is not None for one in (lag, members, state)):
            if group is None:
                raise ClusterError("lag, members and state are those of a `group`")
            if state is not None and state not in GROUP_STATES:
                raise ClusterError(f"state={state!r}: one of {', '.join(GROUP_STATES)}")
            group_id = group
            conditions += [lambda: self._not_of_group(group_id, topic, lag, members, state)]
        if controller is not None or brokers is not None:
            conditions += [lambda: self._not_of_cluster(controller, brokers)]
        if fault is not None:
            active = self.faults.get(fault)
            conditions += [lambda: None if active.struck else f"{active.fault} has not struck"]
        if not conditions:
            raise ClusterError(f"wait_for what? {', '.join(WAITED_FOR)}")
        if not await self.conditions.until(lambda: not any(condition() for condition in conditions), timeout):
            now = "; ".join(text for condition in conditions if (text := condition()))
            raise TimeoutError(f"not within {timeout:g} s: {now}")

    def _not_of_partition(
        self,
        topic: str,
        partition: int,
        leader: int | None,
        isr: int | Iterable[int] | None,
        start: int | None,
        records: int | None,
    ) -> str | None:
        """Return what is otherwise, or None."""
        now_isr = self.isr_now(topic, partition)
        if leader is not None and self.leader_now(topic, partition) != leader:
            return f"the leader of {topic}-{partition} is {self.leader_now(topic, partition)}"
        if isr is not None:
            wanted = isr if isinstance(isr, int) else len(set(isr))
            same = isinstance(isr, int) or set(isr) == set(now_isr)
            if len(now_isr) != wanted or not same:
                return f"the in-sync replicas of {topic}-{partition} are {sorted(now_isr)}"
        if leader is not None and leader >= 0 and not self._leads(leader, topic, partition):
            return f"broker {leader} does not know yet that it leads {topic}-{partition}"
        if start is not None and (now_start := self._start(topic, partition)) < start:
            return f"{topic}-{partition} begins at {now_start}"
        if records is not None and self.high_watermarks(topic) < records:
            return f"{topic} has {self.high_watermarks(topic)} records"
        return None

    def _leads(self, leader: int, topic: str, partition: int) -> bool:
        held = self.broker(leader).server.services.replicas.partitions.get((topic, partition))
        return held is not None and held.is_leader

    def _start(self, topic: str, partition: int) -> int:
        """Return the oldest offset that its leader has; -1 while nobody leads."""
        held = [broker.server.services.replicas.partitions.get((topic, partition)) for broker in self.running]
        return max((one.log.log_start_offset for one in held if one is not None and one.is_leader), default=-1)

    def high_watermarks(self, topic: str) -> int:
        """Sum of the committed lengths of all partitions of a topic."""
        return sum(
            partition.high_watermark - partition.log.log_start_offset
            for broker in self.running
            for (name, _), partition in broker.server.services.replicas.partitions.items()
            if name == topic and partition.is_leader
        )

    def _not_of_group(
        self, group: str, topic: str | None, lag: int | None, members: int | None, state: str | None
    ) -> str | None:
        metadata = self.group(group)
        now_members = 0 if metadata is None else len(metadata.members)
        now_state = "Dead" if metadata is None else metadata.state.value
        if members is not None and now_members != members:
            return f"group {group} has {now_members} members"
        if state is not None and now_state != state:
            return f"group {group} is {now_state}"
        if lag is not None:
            now_lag = self.lag(group, topic)
            if now_lag is None or now_lag > lag:
                return f"group {group} has committed nothing" if now_lag is None else f"group {group} lags {now_lag}"
        return None

    def lag(self, group: str, topic: str | None = None) -> int | None:
        """Committed records that a group has not committed to have read; None when it has committed nothing."""
        committed = self.committed_offsets(group)
        if not any(topic in (None, name) for name, _ in committed):
            return None
        lag = 0
        for broker in self.running:
            for at, partition in broker.server.services.replicas.partitions.items():
                known = at in committed if topic is None else at[0] == topic
                if partition.is_leader and known:
                    read = committed.get(at, partition.log.log_start_offset)
                    lag += max(0, partition.last_stable_offset - read)
        return lag

    def committed_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Offsets that a group has committed, by topic and partition."""
        for broker in self.running:
            error, offsets = broker.server.services.groups.fetch_offsets(group, None, require_stable=False)
            if not error and offsets:
                return {at: fetched.offset for at, fetched in offsets.items() if fetched.offset >= 0}
        return {}

    def _not_of_cluster(self, controller: int | Iterable[int] | None, brokers: int | None) -> str | None:
        active = [broker.broker_id for broker in self.controllers()]
        wanted = {controller} if isinstance(controller, int) else set(controller or ())
        if wanted and not wanted.issuperset(active or [-1]):
            return f"the controller is {active[0]}" if active else "there is no controller"
        if brokers is not None and not (len(self.running) == brokers and self.is_whole()):
            return f"{len(self.running)} brokers run"
        return None
