"""Control records, which brokers write between those of producers, and which consumers do not return.

A control batch holds one record. Its key has a version and a type; its value depends on the type: that of a
transaction's end has the epoch of the coordinator that ended it. Sources: Kafka's ControlRecordType,
EndTransactionMarker.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from odradek.protocol.record_batch import NO_LEADER_EPOCH, CorruptBatch
from odradek.protocol.records import encode_batch

_KEY: Final = Struct(">hh")
_END_TXN: Final = Struct(">hi")
_VERSION: Final = 0


class ControlType(IntEnum):
    """Type of a control record. Higher numbers belong to KRaft; `control_type` returns None for them."""

    ABORT = 0
    COMMIT = 1


class EndTxnMarker(NamedTuple):
    committed: bool
    coordinator_epoch: int


def control_type(key: bytes | None) -> ControlType | None:
    """Return the type in a control record's key; None if it is not known here. Raises CorruptBatch."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch(0, f"control record with key {key!r}")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(0, f"control record of version {version}")
    return ControlType(number) if number in (ControlType.ABORT, ControlType.COMMIT) else None


def decode_end_txn_marker(key: bytes | None, value: bytes | None) -> EndTxnMarker | None:
    """Return the transaction's end in a control record; None for one of another type. Raises CorruptBatch."""
    kind = control_type(key)
    if kind is None:
        return None
    if value is None or len(value) < _END_TXN.size:
        raise CorruptBatch(0, f"transaction marker with value {value!r}")
    version, coordinator_epoch = _END_TXN.unpack_from(value)
    if version < 0:
        raise CorruptBatch(0, f"transaction marker of version {version}")
    return EndTxnMarker(kind is ControlType.COMMIT, coordinator_epoch)


def encode_end_txn_marker(
    marker: EndTxnMarker,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Return the control batch that ends a producer's transaction in one partition."""
    kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
    return encode_batch(
        base_offset,
        [timestamp_ms],
        [_KEY.pack(_VERSION, kind)],
        [_END_TXN.pack(_VERSION, marker.coordinator_epoch)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        partition_leader_epoch=leader_epoch,
    )
