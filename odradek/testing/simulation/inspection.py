"""Inspection of the logs of a simulation's brokers from time to time, for what must be true at every moment."""

from collections.abc import Iterator
from dataclasses import dataclass

from odradek.broker.log.checkpoint_format import HIGH_WATERMARKS
from odradek.broker.log.errors import StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.replication.partition import Partition
from odradek.client.records import TopicPartition
from odradek.protocol.control_records import ControlType, control_type, decode_end_txn_marker
from odradek.protocol.errors import KafkaError
from odradek.protocol.record_batch import BatchHeader, CorruptBatch, batches
from odradek.protocol.records import decode_records
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.history import History
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH

READ_BYTES = 1 << 20
BATCH_HEAD_BYTES = 12
LAST_DELTA = 23
COMPACTED = (CONSUMER_OFFSETS, TRANSACTION_STATE)


class UnreadableLog(Exception):  # noqa: N818 - what was found
    """A log does not have whole batches up to the offset that it is asked for."""


def bytes_of(log: Log, begin: int, end: int) -> bytes:
    """Return the log's batches from the one with `begin` to `end`. Raises UnreadableLog, KafkaError, OSError."""
    parts = []
    while begin < end:
        records = log.read(begin, READ_BYTES, end, whole_first_batch=True).records
        data = bytes(records) if isinstance(records, bytes) else records.read()
        if not data:
            raise UnreadableLog(f"{log.topic}-{log.partition} has nothing at {begin} before {end}")
        parts.append(data)
        begin = _end_of(data)
    return b"".join(parts)


def _end_of(data: bytes) -> int:
    """Return the offset after the last batch, which may have lost its last records to compaction."""
    at = end = 0
    while at < len(data):
        end = int.from_bytes(data[at : at + 8], "big") + int.from_bytes(data[at + LAST_DELTA : at + LAST_DELTA + 4]) + 1
        at += BATCH_HEAD_BYTES + int.from_bytes(data[at + 8 : at + BATCH_HEAD_BYTES], "big")
    return end


def records_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, value) of each record."""
    at = 0
    while at < len(data):
        columns = decode_records(data, at)
        for offset, value in zip(columns.offsets, columns.values, strict=True):
            yield offset, value or b""
        at += BATCH_HEAD_BYTES + int.from_bytes(data[at + 8 : at + BATCH_HEAD_BYTES], "big")


class Inspection:
    """A leader for each epoch, watermarks that only rise, committed records that never change, tasks that live.

    `transactional`: a topic that is compared by its batches. The coordinators' are compacted: of them the newest record
    of each key is remembered.
    """

    def __init__(self, cluster: EmbeddedCluster, history: History, topic: str, transactional: str) -> None:
        self._cluster, self._history, self.topic, self._transactional = cluster, history, topic, transactional
        self._batches = CommittedBatches(history)
        self.newest: dict[tuple[str, int], NewestRecords] = {}
        self._leaders: dict[tuple[bytes, int, int], int] = {}
        self._watermarks: dict[tuple[int, int, bytes, int, int], int] = {}
        self._compared: dict[tuple[int, int, str, int, int], int] = {}
        self._controllers: dict[int, tuple[int, int]] = {}
        self._controller_epoch = -1

    def look(self) -> None:
        """Look at everything that runs."""
        for broker in self._cluster.brokers:
            if broker.running:
                for name in broker.server.tasks.deaths:
                    self._history.violated(f"{broker.host}: task {name} has died")
                self._look_at_controller(broker)
                self._look_at_checkpoints(broker)
                for partition in list(broker.server.services.replicas.partitions.values()):
                    if partition.offline:  # its log is as the failure has left it, perhaps without a segment
                        continue
                    self._look_at_bounds(broker, partition)
                    if partition.is_leader:
                        self._look_at_leader(broker, partition)
                    elif partition.topic == self.topic:
                        self._compare(broker, partition)

    def _look_at_controller(self, broker: EmbeddedBroker) -> None:
        epoch = broker.server.services.controller.controller_epoch
        if epoch >= 0:
            first = self._controllers.setdefault(epoch, (broker.broker_id, broker.lives))
            if first != (broker.broker_id, broker.lives):
                self._history.violated(f"controller epoch {epoch}: {first} and {broker.broker_id}")
        znode = self._cluster.zookeeper.tree.get(CONTROLLER_EPOCH_PATH)
        if znode is not None:
            written = int(znode.data)
            if written < self._controller_epoch:
                self._history.violated(f"the controller epoch goes from {self._controller_epoch} to {written}")
            self._controller_epoch = written

    def _look_at_checkpoints(self, broker: EmbeddedBroker) -> None:
        """Require that no high watermark in a checkpoint is above that of its replica, which has records there."""
        held = broker.server.services.replicas.partitions
        for path, directory in broker.server.services.logs.directories.items():
            for where, offset in directory.checkpoints.newest(HIGH_WATERMARKS).items():
                partition = held.get(where)
                if partition is None or partition.offline or partition.log.log_directory != path:
                    continue
                if min(offset, partition.log.log_end_offset) > partition.high_watermark:
                    self._history.violated(
                        f"{broker.host}: {partition}: checkpoint of the high watermark {offset}, it is "
                        f"{partition.high_watermark}"
                    )

    def _look_at_bounds(self, broker: EmbeddedBroker, partition: Partition) -> None:
        """Require that no record is deleted but of the topic whose records expire, and none that is not committed; and
        that a replica has all that it counts as committed, and no leader epoch begins beyond its end."""
        log, watermark = partition.log, partition.high_watermark
        if broker.broker_id in self._history.rotten:  # nothing in the file of the log starts tells that it has rotted
            return
        expires = self._history.expires and partition.topic == self.topic
        if log.log_start_offset > (watermark if expires else 0):
            self._history.violated(
                f"{partition} begins at {log.log_start_offset} on {broker.host}, its high watermark is {watermark}"
            )
        if watermark > log.log_end_offset:
            self._history.violated(
                f"{partition} ends at {log.log_end_offset} on {broker.host}, its high watermark is {watermark}"
            )
        epoch, begin = (log.epochs.entries() or [(-1, 0)])[-1]
        if begin > (end := log.log_end_offset):
            self._history.violated(f"{partition} ends at {end} on {broker.host}, its epoch {epoch} begins at {begin}")

    def _look_at_leader(self, broker: EmbeddedBroker, partition: Partition) -> None:
        what = (partition.topic_id, partition.index, partition.leader_epoch)
        first = self._leaders.setdefault(what, broker.broker_id)
        if first != broker.broker_id:
            self._history.violated(f"{partition}: led by {first} and {broker.broker_id}")
        life = (broker.broker_id, broker.lives, *what)
        before = self._watermarks.get(life, 0)
        if partition.high_watermark < before:
            self._history.violated(f"{partition}: high watermark {before} -> {partition.high_watermark}")
        self._watermarks[life] = partition.high_watermark
        if partition.topic == self.topic:
            self._compare(broker, partition)
        elif partition.topic == self._transactional:
            self._compare_batches(broker, partition)
        elif partition.topic in COMPACTED:
            self._remember_newest(partition)

    def _compare(self, broker: EmbeddedBroker, partition: Partition) -> None:
        """Require that what a broker counts as committed is what everybody else does.

        Each leader's log is compared from its begin, each follower's once.
        """
        data = self._new_data(broker, partition)
        if not data:
            return
        where = TopicPartition(partition.topic, partition.index)
        for position in self._batches.take((partition.topic, partition.index), data, partition):
            columns = decode_records(data, position)
            for offset, value in zip(columns.offsets, columns.values, strict=True):
                self._history.at(where, offset, value or b"", f"{partition} on broker {broker.broker_id}")

    def _compare_batches(self, broker: EmbeddedBroker, partition: Partition) -> None:
        data = self._new_data(broker, partition)
        self._batches.take((partition.topic, partition.index), data, partition)

    def _new_data(self, broker: EmbeddedBroker, partition: Partition) -> bytes:
        """Return the batches of a replica below its watermark that were not looked at yet."""
        epoch = partition.leader_epoch if partition.is_leader else -1
        key = (broker.broker_id, broker.lives, partition.topic, partition.index, epoch)
        begin = max(self._compared.get(key, 0), partition.log.log_start_offset)
        data = self._committed_from(begin, partition) if begin < partition.high_watermark else b""
        if data:
            self._compared[key] = partition.high_watermark
        return data

    def _committed_from(self, begin: int, partition: Partition) -> bytes:
        """Return a replica's batches from `begin` to its watermark; none when its disk has failed, or rotted."""
        if partition.local_id in self._history.rotten:
            return b""
        try:
            return bytes_of(partition.log, begin, partition.high_watermark)
        except (OSError, StorageFailure):  # it has failed, and perhaps the broker does not know it yet
            return b""
        except (UnreadableLog, KafkaError, CorruptBatch) as error:
            self._history.violated(f"{partition} cannot be read up to {partition.high_watermark}: {error!r}")
            return b""

    def _remember_newest(self, leader: Partition) -> None:
        newest = self.newest.setdefault((leader.topic, leader.index), NewestRecords())
        if leader.high_watermark > newest.end:
            newest.take(self._committed_from(max(newest.end, leader.log.log_start_offset), leader))


class NewestRecords:
    """Newest records of each key of a compacted log: what compaction has to keep.

    They are those of the batches seen so far, which come in their order. Those of aborted transactions do not count,
    those of open ones not yet."""

    def __init__(self) -> None:
        self.end = 0
        """Offset after the last batch."""
        self._newest: dict[bytes, tuple[int, bytes | None]] = {}
        self._open: dict[int, dict[bytes, tuple[int, bytes | None]]] = {}
        """Records of each producer's open transaction."""

    def take(self, data: bytes) -> None:
        """Take in whole batches; those before `end` are passed over."""
        for position, header in batches(data):
            if header.base_offset < self.end:
                continue
            self.end = header.next_offset
            columns = decode_records(data, position)
            if header.is_control:
                committed = bool(columns.keys) and control_type(columns.keys[0]) is ControlType.COMMIT
                self._end_transaction(header.producer_id, committed=committed)
                continue
            into = self._open.setdefault(header.producer_id, {}) if header.is_transactional else self._newest
            for offset, named, content in zip(columns.offsets, columns.keys, columns.values, strict=True):
                into[named or b""] = (offset, content)

    def _end_transaction(self, producer_id: int, *, committed: bool) -> None:
        ended = self._open.pop(producer_id, {})
        for key, record in ended.items() if committed else ():
            if record[0] > self._newest.get(key, (-1, None))[0]:
                self._newest[key] = record

    @property
    def values(self) -> dict[bytes, bytes]:
        """Value of each key that has one."""
        return {key: value for key, (_, value) in self._newest.items() if value is not None}


Where = tuple[str, int]
UNKNOWN = -2
"""Sequence of a producer that is not known: what it wrote before has been deleted."""
LARGEST_SEQUENCE = 2**31 - 1


@dataclass
class Written:
    """Latest of a producer's batches in a partition, and of the markers about it."""

    epoch: int
    sequence: int
    """Last sequence of the epoch; -1: none yet."""
    coordinator_epoch: int = -1


class CommittedBatches:
    """Batches below the high watermark, of one cluster's partitions that are not compacted: they never change, and each
    producer's are complete and in order.

    Read by their headers, so that a whole log can be looked at again under each new leader.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._checksums: dict[Where, dict[int, int]] = {}
        """Checksums of batches by the offsets at which they begin."""
        self._ends: dict[Where, int] = {}
        self._written: dict[Where, dict[int, Written]] = {}

    def take(self, where: Where, data: bytes, log: object) -> list[int]:
        """Take in whole batches that `log` has below its high watermark; return the positions of those that are new."""
        new = []
        checksums = self._checksums.setdefault(where, {})
        end = self._ends.get(where, 0)
        for position, header in batches(data):
            known = checksums.get(header.base_offset)
            if known is None:
                checksums[header.base_offset] = header.crc
                new.append(position)
            elif known != header.crc:
                self._history.violated(f"{log}: another batch was committed at offset {header.base_offset}")
            if header.base_offset >= end:
                self._next(where, header, data, position, complete=header.base_offset == end)
                end = header.next_offset
        self._ends[where] = end
        return new

    def _next(self, where: Where, header: BatchHeader, data: bytes, position: int, *, complete: bool) -> None:
        producers = self._written.setdefault(where, {})
        if not complete:
            for one in producers.values():
                one.sequence = UNKNOWN
        if header.producer_id < 0:
            return
        written = producers.get(header.producer_id)
        if written is None:
            written = producers[header.producer_id] = Written(header.producer_epoch, UNKNOWN)
        what = f"{where} offset {header.base_offset}: producer {header.producer_id}"
        if header.producer_epoch < written.epoch:
            self._history.violated(f"{what} writes in epoch {header.producer_epoch}, fenced by {written.epoch}")
        elif header.producer_epoch > written.epoch:
            written.epoch = header.producer_epoch
            if written.sequence != UNKNOWN:  # else the epoch's first batches may lie where nobody has looked
                written.sequence = -1
        if header.is_control:
            self._marker(written, data, position, what)
            return
        expected = (written.sequence + 1) & LARGEST_SEQUENCE
        if written.sequence != UNKNOWN and header.base_sequence != expected:
            self._history.violated(f"{what} goes on with sequence {header.base_sequence}, {expected} was to come")
        written.sequence = header.last_sequence

    def _marker(self, written: Written, data: bytes, position: int, what: str) -> None:
        columns = decode_records(data, position)
        marker = decode_end_txn_marker(columns.keys[0], columns.values[0]) if columns.keys else None
        if marker is None:
            return
        if marker.coordinator_epoch < written.coordinator_epoch:
            self._history.violated(
                f"{what}: a marker of coordinator epoch {marker.coordinator_epoch} after {written.coordinator_epoch}"
            )
        written.coordinator_epoch = max(marker.coordinator_epoch, written.coordinator_epoch)
