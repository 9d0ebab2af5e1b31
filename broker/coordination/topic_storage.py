"""Reading and appending to the partitions of a coordinator's topic."""

import logging
from collections.abc import Callable
from typing import Protocol

from odradek.broker.log.batches import Origin
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.world.files import FileRange

log = logging.getLogger(__name__)

ALL, LEADER_ALONE = -1, 1
"""Acknowledgements to wait for: of every replica in sync, or of the leader alone."""


class TopicStorage(Protocol):
    """The partitions of a coordinator's topic, as this broker has them."""

    def append(self, partition: int, records: bytearray, timeout_ms: int, done: Callable[[ErrorCode], None]) -> None:
        """Append one batch as the leader. `done` is called once, perhaps before this returns.

        NONE: every replica in sync has it. Any error of Produce otherwise; NOT_LEADER_OR_FOLLOWER when not the leader.
        """

    def append_alone(self, partition: int, records: bytearray) -> ErrorCode:
        """Append one batch as the leader, however few replicas are in sync, and wait for none of them; return the error
        if it could not be written."""

    def read(self, partition: int, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Return batches from `offset` on, the first one whole, the last one perhaps not; and the log end offset.

        Raises KafkaError when there is no such log, OSError or KafkaError when it cannot be read.
        """

    def log_start_offset(self, partition: int) -> int:
        """Return the first offset that can be read; raises KafkaError when there is no such log."""


class ReplicatedTopicStorage:
    """A coordinator's topic in this broker's replicas.

    `acks` are like a producer's (`offsets.commit.required.acks`): unless ALL, an append does not wait for followers.
    """

    def __init__(self, replicas: ReplicaManager, topic: str, acks: int = ALL) -> None:
        self._replicas, self._topic, self._acks = replicas, topic, acks

    def append(self, partition: int, records: bytearray, timeout_ms: int, done: Callable[[ErrorCode], None]) -> None:
        """Append a batch and wait for `acks`. A `done` that raises is logged: a follower's connection may call it."""

        def guarded(error: ErrorCode) -> None:
            try:
                done(error)
            except Exception:
                log.exception("%s-%d: the action after an append has failed", self._topic, partition)

        if self._acks != ALL:
            guarded(self._append(partition, records, self._acks))
            return
        try:
            led = self._replicas.led(self._topic, partition)
        except KafkaError as error:
            guarded(error.code)
        else:
            self._replicas.append_and_wait(led, records, timeout_ms, guarded)

    def append_alone(self, partition: int, records: bytearray) -> ErrorCode:
        """Append a batch with the acknowledgement of the leader alone."""
        return self._append(partition, records, LEADER_ALONE)

    def _append(self, partition: int, records: bytearray, acks: int) -> ErrorCode:
        try:
            self._replicas.append(self._replicas.led(self._topic, partition), records, acks, Origin.COORDINATOR)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def read(self, partition: int, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Return batches from `offset` on and the log end offset; raises KafkaError and OSError."""
        replica_log = self._held(partition).log
        end = replica_log.log_end_offset
        records = replica_log.read(offset, max_bytes, end, whole_first_batch=True).records
        if isinstance(records, FileRange):
            return records.file.pread(records.length, records.position), end
        return records, end

    def log_start_offset(self, partition: int) -> int:
        """Return the first offset that can be read; raises KafkaError when the partition is not held here."""
        return self._held(partition).log.log_start_offset

    def _held(self, partition: int) -> Partition:
        held = self._replicas.partition(self._topic, partition)
        if isinstance(held, ErrorCode):
            raise KafkaError(held, f"{self._topic}-{partition} is not held by this broker")
        return held
