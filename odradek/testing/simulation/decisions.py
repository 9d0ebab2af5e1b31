"""Decisions about transactions: no leader has a marker that is not of a decision which all replicas in sync have.

Who sends markers of what may yet be forgotten ends a transaction here that another coordinator, who has never heard of
it, goes on with there, or aborts.
"""

from collections.abc import Callable, Iterable

from odradek.broker.log.errors import StorageFailure
from odradek.broker.replication.partition import Partition
from odradek.broker.transactions.transaction_records import read_value
from odradek.broker.transactions.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    ProducerIdentity,
    TxnState,
)
from odradek.protocol.control_records import ControlType, control_type
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.transaction_state import TransactionStatus
from odradek.protocol.record_batch import CorruptBatch, batches
from odradek.protocol.records import decode_records
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.history import History
from odradek.testing.simulation.inspection import UnreadableLog, bytes_of

Where = tuple[str, int]
DECIDED = {
    ControlType.COMMIT: (PREPARE_COMMIT, COMPLETE_COMMIT),
    ControlType.ABORT: (PREPARE_ABORT, COMPLETE_ABORT),
}
"""States in which markers are sent, or were sent and come again."""


class Decisions:
    """Watches the markers in the logs of one cluster. `replicated`: the offset up to which all replicas in sync have a
    partition; `present_leader`: the leader of a partition that ZooKeeper names, while it runs and knows of it."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        history: History,
        topics: Iterable[str],
        replicated: Callable[[Where], int],
        present_leader: Callable[[Where], Partition | None],
    ) -> None:
        self._cluster, self._history, self._topics = cluster, history, {*topics, CONSUMER_OFFSETS}
        self._replicated, self._present_leader = replicated, present_leader
        self._taken: dict[Where, int] = {}
        """The offset up to which a partition of `__transaction_state` has been read."""
        self._states: dict[int, list[TxnState]] = {}
        """States of each producer id that were the newest replicated one at some time since the last look."""
        self._decided: set[tuple[ProducerIdentity, TransactionStatus]] = set()
        """Every decision that has been replicated."""
        self._ends: dict[tuple[Partition, int], int] = {}
        """Ends of the logs of the leaders, with their epochs, at the last look."""

    def look(self) -> None:
        """Look at what leaders have added since the last look."""
        for states in self._states.values():
            del states[:-1]
        known = [self._read(where) for where in self._held({TRANSACTION_STATE})]
        ends, self._ends = self._ends, {}
        for where in self._held(self._topics):
            leader = self._present_leader(where)
            if leader is not None:
                rotten = leader.local_id in self._history.rotten
                self._look_at(leader, ends, judge=all(known) and not rotten and not leader.offline)

    def _held(self, topics: set[str]) -> list[Where]:
        """Return the partitions that brokers have, those included that are away."""
        brokers = self._cluster.brokers
        held = (one.server.services.replicas.partitions if one.running else one.spans_at_death for one in brokers)
        return sorted({where for partitions in held for where in partitions if where[0] in topics})

    def _read(self, where: Where) -> bool:
        """Take in what is replicated of a partition of `__transaction_state`; tell whether that can be known: what has
        been compacted away meanwhile cannot."""
        begin, end, is_whole = self._taken.get(where, 0), self._replicated(where), True
        if begin >= end:
            return True
        leader = self._present_leader(where)
        sound = leader is not None and leader.local_id not in self._history.rotten
        data = _bytes_between(leader, begin, end) if leader is not None and sound else b""
        for position, header in batches(data):
            values = decode_records(data, position).values
            is_whole &= header.next_offset - self._taken.get(where, 0) <= len(values)
            self._taken[where] = header.next_offset
            for value in () if header.is_control else values:
                if value is not None:
                    state = read_value(value)
                    self._states.setdefault(state.producer.id, []).append(state)
                    self._decided.add((state.producer, state.status))
        return is_whole and self._taken.get(where, 0) >= end

    def _look_at(self, leader: Partition, ends: dict[tuple[Partition, int], int], *, judge: bool) -> None:
        epoch, end = leader.leader_epoch, leader.log.log_end_offset
        begin = ends.get((leader, epoch), leader.leader_epoch_start_offset)
        self._ends[leader, epoch] = end
        data = _bytes_between(leader, begin, end) if judge and begin < end else b""
        for position, header in batches(data):
            keys = decode_records(data, position).keys if header.is_control else ()
            for key in keys:
                kind = control_type(key or b"")
                if kind in DECIDED and not self._is_decided(
                    ProducerIdentity(header.producer_id, header.producer_epoch), kind
                ):
                    self._history.violated(
                        f"{leader} has a marker at {header.base_offset}, {kind.name} of producer {header.producer_id} "
                        f"epoch {header.producer_epoch}; replicated is {self._states.get(header.producer_id)}"
                    )

    def _is_decided(self, producer: ProducerIdentity, kind: ControlType) -> bool:
        """A marker of an epoch that is over may come twice: it ends nothing of a later one."""
        states = self._states.get(producer.id, [])
        if states and states[-1].producer.epoch > producer.epoch:
            return any((producer, status) in self._decided for status in DECIDED[kind])
        return any(state.producer == producer and state.status in DECIDED[kind] for state in states)


def _bytes_between(leader: Partition, begin: int, end: int) -> bytes:
    """Return a leader's batches; none when it cannot read them, which is for others to tell."""
    try:
        return bytes_of(leader.log, max(begin, leader.log.log_start_offset), end)
    except (OSError, StorageFailure, UnreadableLog, KafkaError, CorruptBatch):
        return b""
