"""The end of a transaction as it stands in the log: a control batch of one record.

Key: int16 version, int16 type (0 abort, 1 commit). Value: int16 version, int32 coordinator epoch.
Source: ControlRecordType, EndTransactionMarker of Kafka 3.9.
"""

import struct
from typing import NamedTuple

from odradek.broker.log.batches import Batch
from odradek.broker.log.producer_state import CompletedTransaction, ProducerState
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import CorruptBatch
from odradek.protocol.records import decode_records
from odradek.world.files import Buffer

ABORT, COMMIT = 0, 1
KEY = struct.Struct(">hh")
VALUE = struct.Struct(">hi")


class EndOfTransaction(NamedTuple):
    """What a marker says."""

    aborted: bool
    coordinator_epoch: int


def decode_end_of_transaction(batch: Buffer) -> EndOfTransaction | None:
    """From a whole control batch; None when it ends no transaction. Raises KafkaError INVALID_RECORD."""
    try:
        records = decode_records(batch)
        key, value = records.keys[0] or b"", records.values[0] or b""
        _, kind = KEY.unpack_from(key)
        if kind not in (ABORT, COMMIT):
            return None
        _, coordinator_epoch = VALUE.unpack_from(value)
    except (CorruptBatch, struct.error) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"control record: {error}") from None
    return EndOfTransaction(kind == ABORT, coordinator_epoch)


def learn(state: ProducerState, batch: Batch, content: Buffer) -> CompletedTransaction | None:
    """Take a batch that is in the log into the state. `content` is read only when it is a control batch."""
    if batch.producer_id < 0:
        return None
    if not batch.is_control:
        state.append_data(
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.base_offset,
            batch.last_offset,
            batch.max_timestamp_ms,
            transactional=batch.is_transactional,
        )
        return None
    end = decode_end_of_transaction(content) if batch.record_count else None
    if end is None:
        return None
    return state.append_marker(
        batch.producer_id,
        batch.producer_epoch,
        end.coordinator_epoch,
        batch.base_offset,
        batch.max_timestamp_ms,
        aborted=end.aborted,
    )
