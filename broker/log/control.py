"""What the log learns from a batch that is in it: the end of a transaction, or a producer's next sequences."""

from typing import NamedTuple

from odradek.broker.log.batches import Batch
from odradek.broker.log.producers.state import CompletedTransaction, ProducerState
from odradek.protocol.control_records import decode_end_txn_marker
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import CorruptBatch
from odradek.protocol.records import decode_records
from odradek.world.files import Buffer


class EndOfTransaction(NamedTuple):
    """What a marker says."""

    aborted: bool
    coordinator_epoch: int


def decode_end_of_transaction(batch: Buffer) -> EndOfTransaction | None:
    """From a whole control batch; None when it ends no transaction. Raises KafkaError INVALID_RECORD."""
    try:
        records = decode_records(batch)
        marker = decode_end_txn_marker(records.keys[0], records.values[0])
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"control record: {error}") from None
    return None if marker is None else EndOfTransaction(not marker.committed, marker.coordinator_epoch)


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
