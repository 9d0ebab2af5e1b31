"""Looks into a cluster: waiting until it is as a test wants it, records, committed offsets, requests, and what happened
when. Nothing sleeps: see conditions.py."""

from collections.abc import Callable, Iterable, Iterator

from odradek.broker.log.producer_sequences import sequence_after
from odradek.broker.replication.partition import Partition
from odradek.protocol.control_records import ControlType, control_type
from odradek.protocol.record_batch import NO_SEQUENCE, batches
from odradek.protocol.records import decode_records
from odradek.testing.cluster.brokers import BrokerFaults
from odradek.testing.cluster.core import WAIT_S
from odradek.testing.cluster.options import ClusterError
from odradek.testing.cluster.protocol_faults import ActiveFault, Fault
from odradek.testing.cluster.views import Moment, SeenRequest, StoredRecord, Timeline

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
            conditions += [lambda: None if active.struck else self._not_struck(active)]
        if not conditions:
            raise ClusterError(f"wait_for what? {', '.join(WAITED_FOR)}")
        if not await self.conditions.until(lambda: not any(condition() for condition in conditions), timeout):
            now = "; ".join(text for condition in conditions if (text := condition()))
            raise TimeoutError(f"not within {timeout:g} s: {now}")

    def _not_struck(self, active: ActiveFault) -> str:
        """Return that a fault has not struck, and why it cannot when what it is for is not there."""
        aim, text = active.aim, f"{active.fault} has not struck"
        if aim.topic is None:
            return text
        try:
            self._assignment(aim.topic, aim.partition or 0)
        except ClusterError as missing:
            return f"{text}: {missing}"
        return text

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
        broker = self.broker(leader)
        if not broker.running:  # ZooKeeper may have it as the leader yet
            return False
        held = broker.server.services.replicas.partitions.get((topic, partition))
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


READ_BYTES = 1 << 20


class Inspection(Waits):
    """Looks into the cluster at what clients do not see, or would have to ask for."""

    async def records(self, topic: str, partition: int | None = None) -> list[StoredRecord]:
        """Return all records of a topic, or of one partition, from the logs of its leaders.

        Records that consumers do not see are included: uncommitted, aborted, markers. By partition, then by offset.
        Raises ClusterError when a partition has no leader.
        """
        count = self.partitions_now(topic)
        if partition is not None and not 0 <= partition < count:
            raise ClusterError(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
        found: list[StoredRecord] = []
        for index in range(count) if partition is None else [partition]:
            leader = self.leader_now(topic, index)
            if leader < 0 or not self._leads(leader, topic, index):
                raise ClusterError(f"{topic}-{index} has no leader now: wait_for({topic!r}, {index}, leader=…)")
            found += _stored(self.broker(leader).server.services.replicas.partitions[(topic, index)])
        return found

    async def committed(self, group: str, topic: str | None = None) -> dict[tuple[str, int], int]:
        """Return a group's committed offsets, by (topic, partition); empty for an unknown group."""
        return {at: offset for at, offset in self.committed_offsets(group).items() if topic in (None, at[0])}

    async def requests(self, api: str | None = None, client: str | None = None) -> list[SeenRequest]:
        """Return the last ten thousand requests of clients, or those to one API or of one client.id.

        Raises ClusterError without `trace`.
        """
        if self.trace is None:
            raise ClusterError("nothing was noted: make the cluster with trace=True")
        return [
            request
            for request in self.trace.requests()
            if (api is None or request.api.lower() == api.lower()) and client in (None, request.client)
        ]

    async def timeline(self, *, requests: bool = False) -> Timeline:
        """Return what happened, by time: actions of the test, changes in ZooKeeper, faults that struck.

        With `requests` also the requests of clients; raises ClusterError then without `trace`.
        """
        moments = list(self.moments)
        if requests:
            moments += [Moment(one.at_ms, one.client or one.peer, str(one)) for one in await self.requests()]
        return Timeline(tuple(sorted(moments, key=lambda moment: moment.at_ms)))


def _stored(partition: Partition) -> Iterator[StoredRecord]:
    open_by: dict[int, list[int]] = {}
    """Positions of the records of open transactions, by producer id."""
    found: list[StoredRecord] = []
    log, end = partition.log, partition.log.log_end_offset
    at = log.log_start_offset
    while at < end:
        part = log.read(at, READ_BYTES, end, whole_first_batch=True).records
        data = part if isinstance(part, bytes) else part.read()
        for position, header in batches(data):
            at = header.next_offset
            columns = decode_records(data, position)
            if header.is_control:
                committed = control_type(columns.keys[0]) is ControlType.COMMIT
                for number in open_by.pop(header.producer_id, []):
                    found[number] = _ended(found[number], committed)
            for number, offset in enumerate(columns.offsets):
                if header.is_transactional and not header.is_control:
                    open_by.setdefault(header.producer_id, []).append(len(found))
                kind = control_type(columns.keys[number]) if header.is_control else None
                found.append(
                    StoredRecord(
                        partition.topic,
                        partition.index,
                        offset,
                        columns.timestamps[number],
                        columns.keys[number],
                        columns.values[number],
                        tuple(columns.headers(number)),
                        header.producer_id,
                        header.producer_epoch,
                        NO_SEQUENCE
                        if header.base_sequence == NO_SEQUENCE
                        else sequence_after(header.base_sequence, offset - header.base_offset),
                        "open" if header.is_transactional and not header.is_control else None,
                        kind.name if kind is not None else None,
                        offset < partition.high_watermark,
                    )
                )
        if not data:
            break
    return iter(found)


def _ended(record: StoredRecord, committed: bool) -> StoredRecord:
    values = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return StoredRecord(**{**values, "transaction": "committed" if committed else "aborted"})
