"""`<offset>.snapshot`: the producer state at that offset, in Kafka's format.

int16 version = 1, uint32 CRC-32C of the rest, array of (int64 producer id, int16 epoch, int32 last sequence, int64 last
offset, int32 offset delta, int64 timestamp, int32 coordinator epoch, int64 first offset of the open transaction or -1).
Of the remembered batches only the newest is kept. Source: ProducerStateManager.writeSnapshot of 3.9.
"""

import struct
from collections.abc import Iterable

from odradek.broker.log.failure import CorruptFile
from odradek.broker.log.producers.state import Producer, RememberedBatch, sequence_after
from odradek.protocol.checksum import crc32c

VERSION = 1
HEAD = struct.Struct(">hI")
COUNT = struct.Struct(">i")
ENTRY = struct.Struct(">qhiqiqiq")


def encode_snapshot(producers: Iterable[Producer]) -> bytes:
    """The file's bytes."""
    entries = [_encode_entry(producer) for producer in producers]
    body = COUNT.pack(len(entries)) + b"".join(entries)
    return HEAD.pack(VERSION, crc32c(body)) + body


def _encode_entry(producer: Producer) -> bytes:
    sequence, offset, delta = -1, -1, 0
    if producer.batches:
        newest = producer.batches[-1]
        sequence, offset, delta = newest.last_sequence, newest.last_offset, newest.last_offset - newest.first_offset
    return ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        sequence,
        offset,
        delta,
        producer.last_timestamp_ms,
        producer.coordinator_epoch,
        producer.transaction_first_offset,
    )


def decode_snapshot(data: bytes) -> list[Producer]:
    """Raises CorruptFile."""
    if len(data) < HEAD.size + COUNT.size:
        raise CorruptFile(f"snapshot of {len(data)} bytes")
    version, checksum = HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptFile(f"snapshot version {version}, expected {VERSION}")
    body = data[HEAD.size :]
    if crc32c(body) != checksum:
        raise CorruptFile(f"snapshot checksum is {crc32c(body)}, stored {checksum}")
    (count,) = COUNT.unpack_from(body)
    if len(body) != COUNT.size + count * ENTRY.size:
        raise CorruptFile(f"snapshot of {count} entries has {len(data)} bytes")
    return [_decode_entry(*fields) for fields in ENTRY.iter_unpack(body[COUNT.size :])]


def _decode_entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    transaction_first_offset: int,
) -> Producer:
    producer = Producer(producer_id, epoch)
    if last_offset >= 0:
        first_sequence = sequence_after(last_sequence, -offset_delta) if last_sequence >= 0 else -1
        first_offset = last_offset - offset_delta
        producer.remember(RememberedBatch(first_sequence, last_sequence, first_offset, last_offset, timestamp_ms))
    producer.last_timestamp_ms = timestamp_ms
    producer.coordinator_epoch = coordinator_epoch
    producer.transaction_first_offset = transaction_first_offset
    return producer
