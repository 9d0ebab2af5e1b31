"""Keys and values of the records in `__transaction_state`, and transactional ids read back from its batches.

Keys and values are of version 0, as Kafka 3.9 writes them without KIP-890's second part.
"""

from collections.abc import Iterator

from odradek.broker.coordination.owned_partitions import SkippedRecords
from odradek.broker.transactions.transaction_state import EMPTY, ProducerIdentity, TransactionMetadata, TxnState
from odradek.protocol.codec import decode_versioned, encode_versioned, version_of
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.transaction_state import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    TransactionStatus,
)
from odradek.protocol.primitives import Buffer
from odradek.protocol.record_batch import batches, check_crc
from odradek.protocol.records import decode_records, encode_batch
from odradek.protocol.topic_names import PartitionKey

VERSION = 0


def batch_of(transactional_id: str, state: TxnState | None, now_ms: int) -> bytearray:
    """Make a batch of one record; `state` None makes the tombstone that ends the id."""
    value = None if state is None else value_of(state)
    return encode_batch(0, [now_ms], [key_of(transactional_id)], [value])


def key_of(transactional_id: str) -> bytes:
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), VERSION)


def value_of(state: TxnState) -> bytes:
    value = TransactionLogValue(
        producer_id=state.producer.id,
        producer_epoch=state.producer.epoch,
        transaction_timeout_ms=state.timeout_ms,
        transaction_status=state.status,
        transaction_partitions=None if state.status is EMPTY else by_topic(state.partitions),
        transaction_last_update_timestamp_ms=state.updated_ms,
        transaction_start_timestamp_ms=state.started_ms,
    )
    return encode_versioned(value, VERSION)


def by_topic(partitions: frozenset[PartitionKey]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]


def read_key(data: Buffer) -> str | None:
    """Read the transactional id of a key; None for another version than ours. Raises MalformedMessage."""
    if version_of(data) != VERSION:
        return None
    return decode_versioned(TransactionLogKey, data)[1].transactional_id


def read_value(data: Buffer) -> TxnState:
    """Read the state of a transactional id. Raises MalformedMessage."""
    value = decode_versioned(TransactionLogValue, data)[1]
    if value.transaction_status not in TransactionStatus._value2member_map_:
        raise MalformedMessage(f"transaction status {value.transaction_status}")
    return TxnState(
        producer=ProducerIdentity(value.producer_id, value.producer_epoch),
        timeout_ms=value.transaction_timeout_ms,
        status=TransactionStatus(value.transaction_status),
        partitions=frozenset(
            (topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
    )


class TransactionReplay:
    """Transactional ids and their states after the batches seen so far. `next_offset` is that of the next record."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.skipped = SkippedRecords()
        self._states: dict[str, TxnState] = {}

    def steps(self, data: Buffer) -> Iterator[None]:
        """Take in the whole batches of `data`, pausing after each. Raises MalformedMessage for a damaged batch: none of
        its decisions is believed when its checksum is wrong (Kafka does not look at it)."""
        for position, header in batches(data, allow_partial_tail=True):
            check_crc(data, position, header)
            if not header.is_control:
                records = decode_records(data, position)
                for offset, key, value in zip(records.offsets, records.keys, records.values, strict=True):
                    try:
                        self._take(key, value)
                    except MalformedMessage as error:
                        self.skipped.add(offset, error)
            self.next_offset = header.next_offset
            yield

    def results(self) -> Iterator[TransactionMetadata]:
        for transactional_id, state in self._states.items():
            yield TransactionMetadata(transactional_id, state, is_replicated=False)

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        """Take in one record. Raises MalformedMessage, and then nothing has changed."""
        if key is None:
            raise MalformedMessage("no key")
        transactional_id = read_key(key)
        if transactional_id is None:
            return
        if value is None:
            self._states.pop(transactional_id, None)
        else:
            self._states[transactional_id] = read_value(value)
