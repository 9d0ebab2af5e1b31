"""What producers of before 0.11 send becomes the batch that Kafka makes of it."""

import pytest

from odradek.broker.requests.slow_records import DECOMPRESSED_BYTES_MAX
from odradek.broker.requests.slow_records import to_batch as batch_in_steps
from odradek.protocol import compression
from odradek.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.message_set import down_convert, encode_message
from odradek.protocol.record_batch import BatchHeader, batches, read_header, set_base_offset, set_leader_epoch
from odradek.protocol.records import Columns, decode_records
from odradek.protocol.steps import at_once
from odradek.testing.old_segments import GOLDEN

TIME = 1_400_000_000_000
COLUMNS = Columns([0, 1, 2], [TIME + 5, TIME + 9, TIME], [b"a", None, b"c"], [b"one" * 20, None, b"three" * 20])
SENT = [(magic, codec) for magic in (0, 0, 0, 1, 1) for codec in (NONE, GZIP, SNAPPY, LZ4)]


def to_batch(records: bytes | bytearray | None) -> bytearray:
    return at_once(batch_in_steps(records))


def comparable(header: BatchHeader) -> BatchHeader:
    """Gzip is not the same in every program."""
    return header._replace(crc=0, batch_length=0)


def test_kafka_makes_the_same_batches() -> None:
    """Byte for byte, but for gzip (golden/up: Apache Kafka 3.9.1 was sent these very sets)."""
    log = (GOLDEN / "up" / "00000000000000000000.log").read_bytes()
    kafkas = list(batches(log))
    assert len(kafkas) == len(SENT)
    for (magic, codec), (at, header) in zip(SENT, kafkas, strict=True):
        ours = to_batch(down_convert(COLUMNS, magic, codec))
        set_base_offset(ours, 0, header.base_offset)
        set_leader_epoch(ours, 0, header.leader_epoch)
        assert comparable(read_header(ours)) == comparable(header)
        kafkas_records, our_records = decode_records(log, at), decode_records(ours)
        assert our_records.timestamps == kafkas_records.timestamps and our_records.keys == kafkas_records.keys
        assert our_records.values == kafkas_records.values
        assert codec == GZIP or ours == log[at : at + header.size_bytes]


def test_offsets_are_the_brokers() -> None:
    """Whatever a producer has put there: some knew no better (LogValidator of Kafka)."""
    wanted = to_batch(down_convert(Columns([0, 1], [TIME] * 2, [None] * 2, [b"v", b"w"]), 1, GZIP))
    for offsets in ([5, 9], [1000, 1001]):
        for codec in (NONE, GZIP):
            records = down_convert(Columns(offsets, [TIME] * 2, [None] * 2, [b"v", b"w"]), 1, codec)
            assert decode_records(to_batch(records)).offsets == [0, 1]
    by_librdkafka = bytearray(down_convert(Columns([0, 1], [TIME] * 2, [None] * 2, [b"v", b"w"]), 1, GZIP))
    by_librdkafka[:8] = bytes(8)
    assert to_batch(by_librdkafka) == wanted


def wrapper(content: bytes | None, codec: int = GZIP) -> bytes:
    packed = None if content is None else compression.compress(codec, content)
    return bytes(encode_message(1, 0, TIME, None, packed, codec))


INNER = bytes(encode_message(1, 0, TIME, b"k", b"v"))
DAMAGED = INNER[:-1] + b"w"


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (wrapper(None), ErrorCode.INVALID_RECORD),
        (wrapper(b""), ErrorCode.INVALID_RECORD),
        (wrapper(wrapper(INNER)), ErrorCode.INVALID_RECORD),
        (wrapper(INNER, ZSTD), ErrorCode.INVALID_RECORD),
        (DAMAGED, ErrorCode.CORRUPT_MESSAGE),
        (wrapper(DAMAGED), ErrorCode.CORRUPT_MESSAGE),
        (INNER[:-1], ErrorCode.CORRUPT_MESSAGE),
        (wrapper(bytes(DECOMPRESSED_BYTES_MAX + 1)), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_what_is_refused(records: bytes | None, code: ErrorCode) -> None:
    """With Kafka's codes: CORRUPT_MESSAGE makes a producer try again. Half a message is refused, not left out."""
    with pytest.raises(KafkaError) as refused:
        to_batch(records)
    assert refused.value.code is code
