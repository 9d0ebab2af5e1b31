"""Records of `__transaction_state`: one per transactional id, each key and value behind an int16 version.

A key without value is a tombstone: the transactional id has expired. Kafka 3.9 writes version 0 as long as the feature
transaction.version is not finalized; version 1 is flexible, and its tagged fields belong to that feature.
"""

from enum import IntEnum

from odradek.protocol.fields import INT8, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class TransactionStatus(IntEnum):
    """State of a transaction, in `transaction_status`: Kafka's TransactionState, whose names are in camel case."""

    EMPTY = 0
    """No transaction yet, and no partitions: they are null in the record."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """Decided: markers are being written."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The transactional id is about to be forgotten."""
    PREPARE_EPOCH_FENCE = 7
    """An epoch is being given away so that the former owner of the id is fenced; never written."""

    @property
    def camel_case(self) -> str:
        """Name as Kafka writes it: PrepareCommit."""
        return self.name.title().replace("_", "")


class TransactionLogKey(Message):
    VERSIONS = (0, 0)

    transactional_id: str = field(STRING, "0")


class PartitionsSchema(Struct):
    topic: str = field(STRING, "0+")
    partition_ids: list[int] = field(Array(INT32), "0+")


class TransactionLogValue(Message):
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1

    producer_id: int = field(INT64, "0+")
    previous_producer_id: int = field(INT64, "1+", tag=0, default=-1)
    next_producer_id: int = field(INT64, "1+", tag=1, default=-1)
    producer_epoch: int = field(INT16, "0+")
    transaction_timeout_ms: int = field(INT32, "0+")
    transaction_status: int = field(INT8, "0+")
    transaction_partitions: list[PartitionsSchema] | None = field(Array(PartitionsSchema), "0+", nullable="0+")
    transaction_last_update_timestamp_ms: int = field(INT64, "0+")
    transaction_start_timestamp_ms: int = field(INT64, "0+")
    client_transaction_version: int = field(INT16, "1+", tag=2)
