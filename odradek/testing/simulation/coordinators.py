"""Coordinators of groups and transactions: what they tell is replicated, and they keep nothing of others' partitions.

A coordinator answers from its memory. Nothing that this broker has written in its present epoch may stand there before
the high watermark has passed it: another leader would not know of it. At rest it is the newest that is in the log. And
no two brokers give out the same producer ids. A transaction that is open in a log is open to its coordinator. None is
open for longer than its producer allows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from odradek.broker.groups.group_records import OffsetKey, read_offset
from odradek.broker.groups.group_records import read_key as read_group_key
from odradek.broker.log.errors import StorageFailure
from odradek.broker.replication.partition import Partition
from odradek.broker.transactions.transaction_records import read_key, read_value
from odradek.broker.transactions.transaction_state import EXPIRABLE, NO_PRODUCER, ONGOING
from odradek.protocol.record_batch import batches
from odradek.protocol.records import decode_records
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.history import History
from odradek.testing.simulation.inspection import bytes_of


class Coordinators:
    """Watches the coordinators of one cluster."""

    def __init__(self, cluster: EmbeddedCluster, history: History) -> None:
        self._cluster, self._history = cluster, history
        self._blocks: dict[int, str] = {}
        """Givers of producer ids, by the end of their block."""
        self._asks = 0
        self.unsure: set[str] = set()
        """Groups, and transactional ids, of which a change has failed that may be in the log, and was not repeated:
        whether it counts is open, as in Kafka."""
        self.present_leader: Callable[[tuple[str, int]], Partition | None] = lambda where: None
        """Finds the leader of a partition that ZooKeeper names, while it runs and knows of it."""

    def look(self) -> None:
        """Look at all brokers that run."""
        for broker in self._cluster.brokers:
            if broker.running:
                self._look_at(broker)
        self._look_for_left_open()

    def _look_at(self, broker: EmbeddedBroker) -> None:
        self._look_at_what_is_kept(broker)
        if left := broker.server.services.producer_ids.left:
            self.give_out(left.stop, f"{broker.host} in its life {broker.lives}")
        for (topic, _), partition in broker.server.services.replicas.partitions.items():
            if not partition.is_leader or partition.high_watermark >= partition.log.log_end_offset:
                continue
            if topic == CONSUMER_OFFSETS:
                self._look_at_commits(broker, partition)
            elif topic == TRANSACTION_STATE:
                self._look_at_transactions(broker, partition)

    def _look_for_left_open(self) -> None:
        """Require that no log has a transaction open of a producer that is in none: nobody would end it. A coordinator
        calls one complete when all logs have its marker, and takes one to have begun before a log has anything of it.
        """
        ended = {}
        for broker in self._cluster.brokers:
            if not broker.running:
                continue
            coordinator = broker.server.services.transactions
            for name, state in coordinator.list_transactions()[1]:
                leader = self.present_leader((TRANSACTION_STATE, coordinator.partition_for(name)))
                if state.status in EXPIRABLE and leader is not None and leader.local_id == broker.broker_id:
                    ended[state.producer.id] = (name, state)
        for broker in self._cluster.brokers if ended else ():
            for where, partition in broker.server.services.replicas.partitions.items() if broker.running else ():
                if not partition.is_leader or self.present_leader(where) is not partition:
                    continue
                for producer_id, entry in partition.log.producers.producers.items():
                    if entry.transaction_first_offset >= 0 and producer_id in ended:
                        name, state = ended[producer_id]
                        self._history.violated(
                            f"{partition} has a transaction of {name} open from {entry.transaction_first_offset} on, "
                            f"which is {state.status.name} to its coordinator: {state}"
                        )

    def _look_at_what_is_kept(self, broker: EmbeddedBroker) -> None:
        services = broker.server.services
        held = services.replicas.partitions
        kept = {(CONSUMER_OFFSETS, group.partition): group.metadata.group_id for group in services.groups.groups}
        coordinator = services.transactions
        kept |= {
            (TRANSACTION_STATE, coordinator.partition_for(name)): name for name, _ in coordinator.list_transactions()[1]
        }
        for where, name in kept.items():
            partition = held.get(where)
            if partition is None or not (partition.is_leader or partition.offline):
                self._history.violated(f"{broker.host} keeps {name} of {where}, which it does not lead")

    def give_out(self, end: int, giver: str) -> None:
        """Note who gives out the producer ids of the block that ends before `end`: nobody else may."""
        if (first := self._blocks.setdefault(end, giver)) != giver:
            self._history.violated(f"{giver} gives out the producer ids up to {end}, as {first} does")

    def answer(self, end: int) -> None:
        """Note that an ask of the simulation was given the block that ends before `end`: each is given another one."""
        self._asks += 1
        self.give_out(end, f"ask {self._asks}")

    def unrest(self) -> str | None:
        """Return who still loads what it coordinates (what could not be read is read again, seconds later), or which
        transaction is still to be aborted, as it has been open for longer than its timeout.

        An abort that could not be written is tried again; its epoch is the coordinator's until then, and in no log.
        """
        for broker in self._cluster.brokers:
            services = broker.server.services
            if services.groups.list_groups((), ())[0] or services.transactions.list_transactions()[0]:
                return f"{broker.host} loads what it coordinates"
            for name, state in services.transactions.list_transactions()[1]:
                if state.status is ONGOING and services.clock.now_ms() - state.started_ms > state.timeout_ms:
                    return f"{name} is to be aborted: {state}"
        return None

    def judge(self, where: tuple[str, int], written: Mapping[bytes, bytes]) -> None:
        """Compare, at rest, what the coordinator of a partition tells with the newest that is `written` there."""
        for broker in self._cluster.brokers:
            services = broker.server.services
            if not services.replicas.partitions[where].is_leader:
                continue
            groups = {group.metadata.group_id: group.offsets for group in services.groups.groups}
            transactions = dict(services.transactions.list_transactions()[1])
            for key, value in written.items():
                if where[0] == TRANSACTION_STATE:
                    name = read_key(key) or ""
                    if name in self.unsure:
                        continue
                    state = transactions.get(name)
                    self._agree(name, state and replace(state, former=NO_PRODUCER), read_value(value))
                elif isinstance(named := read_group_key(key), OffsetKey) and named.group_id not in self.unsure:
                    group = groups.get(named.group_id)
                    self._agree(named, None if group is None else group.get(named.partition), read_offset(value))

    def _agree(self, name: object, told: object, written: object) -> None:
        if told != written:
            self._history.violated(f"the coordinator tells of {name}: {told}, written is {written}")

    def _look_at_commits(self, broker: EmbeddedBroker, partition: Partition) -> None:
        told = {group.metadata.group_id: group.offsets for group in broker.server.services.groups.groups}
        for key, value in _unreplicated(partition):
            named = read_group_key(key)
            if isinstance(named, OffsetKey) and named.group_id in told:
                committed = read_offset(value)
                if told[named.group_id].get(named.partition) == committed:
                    self._history.violated(
                        f"{partition} tells {named.group_id} of {committed.offset} for {named.partition}, "
                        "which is not replicated"
                    )

    def _look_at_transactions(self, broker: EmbeddedBroker, partition: Partition) -> None:
        told = dict(broker.server.services.transactions.list_transactions()[1])
        for key, value in _unreplicated(partition):
            name = read_key(key)
            state = told.get(name) if name is not None else None
            if state is not None and replace(state, former=NO_PRODUCER) == read_value(value):
                self._history.violated(f"{partition} acts upon {name}: {state.status.name}, which is not replicated")


def _unreplicated(partition: Partition) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of this leader's own records that not all replicas in sync are known to have."""
    begin = max(partition.high_watermark, partition.leader_epoch_start_offset)
    end = partition.log.log_end_offset
    try:
        data = bytes_of(partition.log, begin, end) if begin < end else b""
    except (OSError, StorageFailure):  # its disk has failed, and perhaps it does not know it yet
        return
    for position, header in batches(data):
        if not header.is_control and header.base_offset >= begin:
            columns = decode_records(data, position)
            for key, value in zip(columns.keys, columns.values, strict=True):
                if key is not None and value is not None:
                    yield key, value
