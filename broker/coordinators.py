"""The internal topics: which coordinator hears that this broker leads one of their partitions, and how it writes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.world.files import FileRange


class ReplicatedTopicStorage:
    """An internal topic as this broker's replicas hold it."""

    def __init__(self, replicas: ReplicaManager, topic: str) -> None:
        self._replicas, self._topic = replicas, topic

    def append(self, partition: int, records: bytearray, timeout_ms: int, done: Callable[[ErrorCode], None]) -> None:
        """As the leader, with acks=all; `done` is called once, perhaps before this returns."""
        try:
            led = self._replicas.led(self._topic, partition)
        except KafkaError as error:
            done(error.code)
            return
        self._replicas.append_and_wait(led, records, timeout_ms, done)

    def read(self, partition: int, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Whole batches from `offset`, and the log end offset. Raises KafkaError, OSError."""
        replica_log = self._held(partition).log
        end = replica_log.log_end_offset
        records = replica_log.read(offset, max_bytes, end, whole_first_batch=True).records
        if isinstance(records, FileRange):
            return records.file.pread(records.length, records.position), end
        return records, end

    def log_start_offset(self, partition: int) -> int:
        return self._held(partition).log.log_start_offset

    def _held(self, partition: int) -> Partition:
        held = self._replicas.partition(self._topic, partition)
        if isinstance(held, ErrorCode):
            raise KafkaError(held, f"{self._topic}-{partition} is not held by this broker")
        return held


class Coordinator(Protocol):
    """Of groups, or of transactions."""

    def on_elected(self, partition: int, epoch: int) -> None:
        """This broker has become the leader of that partition of the coordinator's topic."""

    def on_resigned(self, partition: int, epoch: int | None) -> None:
        """It does not lead it any more (None: whatever the epoch)."""

    def on_partitions_deleted(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Of any topics."""


class InternalTopics:
    """Tells the coordinators of their partitions. `coordinators`: by topic."""

    def __init__(self) -> None:
        self.coordinators: Mapping[str, Coordinator] = {}

    def on_elected(self, topic: str, index: int, leader_epoch: int) -> None:
        if topic in self.coordinators:
            self.coordinators[topic].on_elected(index, leader_epoch)

    def on_resigned(self, topic: str, index: int) -> None:
        if topic in self.coordinators:
            self.coordinators[topic].on_resigned(index, None)

    def on_partitions_deleted(self, partitions: Sequence[tuple[str, int]]) -> None:
        for coordinator in self.coordinators.values():
            coordinator.on_partitions_deleted(partitions)
