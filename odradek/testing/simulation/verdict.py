"""Verdict on a run: after the faults all must come to rest, and then be there, once, and the same everywhere."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from odradek.broker.log.errors import CorruptFile
from odradek.broker.log.log import Log
from odradek.broker.settings.topic_settings import LogConfig
from odradek.client.records import TopicPartition
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.testing.simulation import loose_topic
from odradek.testing.simulation.administration import assignments
from odradek.testing.simulation.bit_rot import misled
from odradek.testing.simulation.clients import SimulatedConsumer
from odradek.testing.simulation.history import History
from odradek.testing.simulation.inspection import NewestRecords, bytes_of, records_of
from odradek.testing.simulation.transactional_positions import TOPIC as TRANSACTIONAL_TOPIC
from odradek.testing.simulation.transactions import aborted_in
from odradek.zk_schema.znodes.admin import DELETE_TOPICS_PATH
from odradek.zk_schema.znodes.topics import PartitionState, state_path

if TYPE_CHECKING:
    from odradek.testing.simulation.run import Simulation

CHECK_EVERY_S = 0.5
READERS = ("DelayedFetch",)


def left_over(kinds: Mapping[str, int]) -> dict[str, int]:
    """Return which delayed operations should not be there when all is at rest: all but those of readers."""
    return {kind: count for kind, count in kinds.items() if kind not in READERS}


def other_settings(configs: Sequence[LogConfig]) -> dict[str, list[object]]:
    """Return the settings in which the replicas of a partition differ: each broker is to have heard of every change."""
    found = {field.name: [getattr(config, field.name) for config in configs] for field in fields(LogConfig)}
    return {name: values for name, values in found.items() if any(value != values[0] for value in values)}


def is_through(reader: SimulatedConsumer, partition: TopicPartition, end: int, history: History) -> bool:
    """Tell whether a reader stands at the end of a partition and was given all before it that has not expired."""
    state = reader.engine.shared.positions.partitions.get(partition)
    if state is None or state.position != end:
        return False
    expected = reader.positions.get(partition, 0)
    return expected == end or history.has_expired(partition, expected, end)


class Verdict:
    """Verdict on one run."""

    def __init__(self, simulation: "Simulation") -> None:
        self._run = simulation
        self._cluster, self._history = simulation.cluster, simulation.history
        self._topic = simulation.inspection.topic

    async def reached(self, patience_s: float) -> None:
        """Wait for rest, then judge."""
        deadline_ms = self._run.clock.monotonic_ms() + patience_s * 1000
        # An administrator who got no answer may have made more partitions than it knows of.
        administrator = self._run.administrator
        administrator.partitions = sum(topic == self._topic for topic, _ in self._partitions())
        while not await self._is_asked_for() or self._unrest() is not None:
            if self._run.clock.monotonic_ms() > deadline_ms:
                self._history.violated(f"no rest within {patience_s:g} s: {self._unrest()}")
                return
            await asyncio.sleep(CHECK_EVERY_S)
        self._run.inspection.look()
        self._run.derived.look(at_all=True)
        self._replicas_are_the_same()
        self._acknowledged_is_there()
        self._order_is_kept()
        if loose_topic.WHERE in self._partitions():
            log = self._cluster.brokers[0].server.services.replicas.partitions[loose_topic.WHERE].log
            self._run.loose.judge(dict(records_of(bytes_of(log, log.log_start_offset, log.log_end_offset))))
        if self._run.transactions is not None:
            self._run.transactions.judge()
        for where, newest in self._run.inspection.newest.items():
            self._run.coordinators.judge(where, newest.values)

    async def _is_asked_for(self) -> bool:
        """Take limits away and have unfinished assignments completed; tell whether nothing more has to be asked for."""
        administrator = self._run.administrator
        return await administrator.unthrottle() and await administrator.ask_for_whole_assignments()

    # rest

    def _unrest(self) -> str | None:
        """Return what is still missing."""
        for broker in self._cluster.brokers:
            if not broker.running:
                return f"{broker.host} does not run"
        active = [b.host for b in self._cluster.brokers if b.server.services.controller.is_active]
        if len(active) != 1:
            return f"controllers: {active}"
        deleting = self._cluster.zookeeper.tree.node(DELETE_TOPICS_PATH).children
        if deleting:
            return f"topics being deleted: {sorted(deleting)}"
        moving = {where: held for where, held in assignments(self._cluster).items() if held.adding or held.removing}
        if moving:
            return f"reassignments under way: {moving}"
        transactions = self._run.transactions
        unrest = self._unrest_of_partitions() or self._unrest_of_clients() or self._run.coordinators.unrest()
        return unrest or (transactions.unrest() if transactions is not None else None)

    def _partitions(self) -> list[tuple[str, int]]:
        return list(assignments(self._cluster))

    def _unrest_of_partitions(self) -> str | None:
        expected = self._partitions()
        for broker in self._cluster.brokers:
            held = broker.server.services.replicas.partitions
            missing = [where for where in expected if where not in held]
            if missing:
                return f"{broker.host} does not hold {missing}"
            # A replica that went while its broker was away may stay there, as in Kafka, as long as it leads nothing.
            waiting = left_over(broker.server.services.replicas.purgatory.kinds())
            if waiting:
                return f"{broker.host}: {waiting} wait still"
            led = [where for where, partition in held.items() if partition.is_leader and where not in expected]
            if led:
                return f"{broker.host} leads {led}, which is not there"
            copied = [where for where in expected if broker.server.services.logs.future_log(*where) is not None]
            if copied:
                return f"{broker.host} moves {copied} to another directory"
            known = sorted(broker.server.services.metadata.topics)
            if known != sorted({topic for topic, _ in expected}):
                return f"{broker.host} knows the topics {known}"
        for topic, index in expected:
            unrest = self._unrest_of_partition(topic, index)
            if unrest is not None:
                return unrest
        return None

    def _unrest_of_partition(self, topic: str, index: int) -> str | None:
        path = state_path(topic, index)
        if self._cluster.zookeeper.tree.get(path) is None:
            return f"{topic}-{index} has no state"
        state = PartitionState.decode(topic, index, self._cluster.zookeeper.data(path))
        if len(state.isr) != len(self._cluster.brokers):
            return f"{topic}-{index}: {state}"
        partitions = [b.server.services.replicas.partitions[(topic, index)] for b in self._cluster.brokers]
        other = other_settings([partition.log.config for partition in partitions])
        if other:
            return f"{topic}-{index}: other settings here than there: {other}"
        end = partitions[state.leader].log.log_end_offset
        for broker, partition in zip(self._cluster.brokers, partitions, strict=True):
            shown = (partition.leader, partition.leader_epoch, partition.is_leader)
            if shown != (state.leader, state.leader_epoch, broker.broker_id == state.leader) or (
                partition.is_leader and partition.committed_isr != set(state.isr)
            ):
                return f"{broker.host} has {partition}, ZooKeeper {state}"
            if (partition.log.log_end_offset, partition.high_watermark) != (end, end):
                ends = [(p.log.log_end_offset, p.high_watermark) for p in partitions]
                return f"{partition}: ends and high watermarks {ends}"
            if partition.log.log_start_offset < partitions[state.leader].log.log_start_offset:
                return f"{broker.host} keeps what the leader has deleted: {partition}"
            told = broker.server.services.metadata.partition(topic, index)
            if told is None or (told.leader, told.leader_epoch, tuple(told.isr)) != (
                state.leader,
                state.leader_epoch,
                state.isr,
            ):
                return f"{broker.host} is told {told}, ZooKeeper {state}"
        return None

    def _unrest_of_clients(self) -> str | None:
        for producer in self._run.producers:
            if producer.open:
                return f"{producer.name}: {producer.open} records are open"
        consumer = self._run.consumer
        assert consumer is not None
        old = self._run.old.unrest(self._ends()) if self._run.old is not None else None
        if old is not None:
            return old
        if self._run.programs.connectors:
            ends = {TopicPartition(self._topic, index): end for index, end in self._ends().items()}
            if (unrest := self._run.owned.unrest(ends)) is not None:
                return unrest
        for topic, index in self._partitions():
            where = TopicPartition(topic, index)
            end = self._cluster.brokers[0].server.services.replicas.partitions[where].log.log_end_offset
            if topic != self._topic:
                continue
            if not is_through(consumer, where, end, self._history):
                return f"consumer: {where} at {consumer.positions.get(where)} of {end}"
            if not self._run.members:
                continue
            owners = [m for m in self._run.members if where in m.engine.shared.positions.partitions]
            if len(owners) != 1:
                return f"{where} belongs to {[m.name for m in owners]} of the group"
            member = owners[0]
            if member.engine.shared.positions.partitions[where].position != end or member.committed.get(where) != end:
                at = member.engine.shared.positions.partitions[where].position
                return f"{member.name}: {where} at {at}, committed {member.committed.get(where)}, of {end}"
        return None

    def _ends(self) -> dict[int, int]:
        """Return where the logs of the topic's partitions end."""
        held = self._cluster.brokers[0].server.services.replicas.partitions
        return {index: held[topic, index].log.log_end_offset for topic, index in held if topic == self._topic}

    # what is there

    def _replicas_are_the_same(self) -> None:
        for where in self._partitions():
            logs = [b.server.services.replicas.partitions[where].log for b in self._cluster.brokers]
            if (wrong := misled(logs[self._run.plan.seed % len(logs)])) is not None:  # all of them would take long
                self._history.violated(wrong)
            if where[0] in (CONSUMER_OFFSETS, TRANSACTION_STATE):  # each broker compacts when it likes
                for log in logs:
                    self._newest_is_there(where, log)
                continue
            begin = max(log.log_start_offset for log in logs)
            contents = [bytes_of(log, begin, log.log_end_offset) for log in logs]
            if len(set(contents)) != 1:
                self._history.violated(f"{where}: the replicas differ: {[len(one) for one in contents]} bytes")
            if where[0] == TRANSACTIONAL_TOPIC:
                for log in logs:
                    self._aborted_are_known(log, aborted_in(contents[0]))

    def _aborted_are_known(self, log: Log, aborted: set[tuple[int, int, int]]) -> None:
        """Require that the indexes have what readers of committed data are to skip."""
        try:
            known = {one[:3] for segment in log.segments for one in segment.transactions.entries()}
        except CorruptFile as bad:
            self._history.violated(f"{log}: {bad}")
            return
        if known != aborted:
            self._history.violated(f"{log}: aborted transactions that one side alone knows: {sorted(known ^ aborted)}")

    def _newest_is_there(self, where: tuple[str, int], log: Log) -> None:
        """Require that compaction has kept the newest record of each key, whatever else it has dropped."""
        found = NewestRecords()
        found.take(bytes_of(log, log.log_start_offset, log.log_end_offset))
        written = self._run.inspection.newest.get(where, NewestRecords()).values
        differing = {key for key in {*written, *found.values} if written.get(key) != found.values.get(key)}
        if differing:
            self._history.violated(f"{where}: not the newest that was written of the keys {sorted(differing)}")

    def _acknowledged_is_there(self) -> None:
        for where, acknowledged in self._history.acknowledged.items():
            log = self._cluster.brokers[0].server.services.replicas.partitions[where].log
            begin = self._history.log_start_of(where)
            there = {o: v for o, v in records_of(bytes_of(log, begin, log.log_end_offset)) if o >= begin}
            lost = {offset: v for offset, v in acknowledged.items() if offset >= begin and there.get(offset) != v}
            if lost:
                self._history.violated(f"{where}: acknowledged and lost: {lost}")
            for readers in self._run.programs.groups:
                read = set[int]().union(*(member.read.get(where, set()) for member in readers))
                unseen = [offset for offset in there if offset not in read]
                if unseen and readers:
                    self._history.violated(f"{where}: the group of {readers[0].name} has never seen offsets {unseen}")

    def _order_is_kept(self) -> None:
        for where, values in self._history.values.items():
            last: dict[bytes, int] = {}
            for offset in sorted(values):
                producer, _, number = values[offset].rpartition(b"-")
                if int(number) <= last.get(producer, -1):
                    self._history.violated(f"{where} offset {offset}: {values[offset]!r} comes after {last[producer]}")
                last[producer] = int(number)
