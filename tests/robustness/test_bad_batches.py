"""Batches that are damaged or lie: that partition is refused with the right code, all others of the request are not."""

import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from odradek.protocol import compression
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.record_batch import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BATCH_LENGTH_AT,
    CRC_AT,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    MAGIC_AT,
    RECORD_COUNT_AT,
    RECORDS_AT,
    BatchHeader,
    assemble_batch,
    set_base_offset,
    update_crc,
)
from odradek.protocol.records import encode_batch, encode_section
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.memory import PeakMemory
from odradek.testing.up import UpCluster

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("undisturbed")]

VERSION = 9
MB = 1 << 20
UNSEEN = {(1, RECORDS_AT + 9), (2, RECORDS_AT + 9), (2, -9), (2, -1), (3, -9)}
"""Codec and place of damage that changes but a letter of a value, or a byte of a header that nobody reads."""
CORRUPT = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}


@pytest.fixture
def connection(broker: UpCluster) -> Iterator[RawConnection]:
    with RawConnection(broker.bootstrap) as one:
        yield one


def batch(count: int = 3, key: bytes | None = None, codec: int = 0) -> bytearray:
    times = [1_700_000_000_000 + index for index in range(count)]
    return encode_batch(0, times, [key] * count, [b"value %d" % index for index in range(count)], codec=codec)


def produce(connection: RawConnection, batches: Sequence[bytes | None], topic: str = "bad") -> list[Any]:
    """One request for partitions 0, 1, …; their answers."""
    data = [PartitionProduceData(index=index, records=records) for index, records in enumerate(batches)]
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    [answer] = connection.ask(request, VERSION).responses
    answers = list(answer.partition_responses)
    assert [one.index for one in answers] == list(range(len(batches)))
    return answers


def log_end(connection: RawConnection, partition: int, topic: str = "bad") -> int:
    partitions = [ListOffsetsPartition(partition_index=partition, timestamp=-1)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)])
    return int(connection.ask(request, 5).topics[0].partitions[0].offset)


def refused(connection: RawConnection, records: bytes | None, topic: str = "bad") -> ErrorCode:
    """Between two good batches: those are written, nothing of it is; the code that it is refused with."""
    key = b"key"
    before = [log_end(connection, partition, topic) for partition in range(3)]
    first, bad, last = produce(connection, [bytes(batch(key=key)), records, bytes(batch(key=key))], topic)
    assert (first.error_code, last.error_code) == (0, 0)
    assert bad.error_code != 0, "it was accepted"
    assert (bad.base_offset, bad.log_append_time_ms) == (-1, -1)
    assert bad.log_start_offset == 0 or not bad.record_errors
    after = [log_end(connection, partition, topic) for partition in range(3)]
    assert after == [before[0] + 3, before[1], before[2] + 3]
    return ErrorCode(bad.error_code)


REGIONS = {
    "length": range(BATCH_LENGTH_AT, LEADER_EPOCH_AT),
    "checksum": range(CRC_AT, ATTRIBUTES_AT),
    "attributes": range(ATTRIBUTES_AT, LAST_OFFSET_DELTA_AT),
    "delta and times": range(LAST_OFFSET_DELTA_AT, RECORD_COUNT_AT),
    "count": range(RECORD_COUNT_AT, RECORDS_AT),
    "records": range(RECORDS_AT, len(batch())),
}


@pytest.mark.parametrize("region", REGIONS)
def test_a_flipped_bit(region: str, connection: RawConnection) -> None:
    """Every byte of every field that the checksum covers, and the length that it does not."""
    rng = random.Random(region)
    for at in REGIONS[region]:
        damaged = batch()
        damaged[at] ^= 1 << rng.randrange(8)
        assert refused(connection, bytes(damaged)) in CORRUPT, at


def test_a_flipped_bit_of_the_magic(connection: RawConnection) -> None:
    for bit in range(8):
        damaged = batch()
        damaged[MAGIC_AT] ^= 1 << bit
        assert refused(connection, bytes(damaged)) in CORRUPT, bit


def test_what_the_broker_writes_itself_may_be_anything(connection: RawConnection) -> None:
    """The leader epoch is overwritten; a base offset other than 0 is refused, as Kafka does."""
    stranger = batch()
    stranger[LEADER_EPOCH_AT : LEADER_EPOCH_AT + 4] = b"\x12\x34\x56\x78"
    assert produce(connection, [bytes(stranger)])[0].error_code == 0
    set_base_offset(stranger, BASE_OFFSET_AT, 5)
    assert refused(connection, bytes(stranger)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("count", "delta"), [(2, 2), (4, 2), (0, -1), (-1, -2), (3, 5), (2**31 - 1, 2), (0, 0)])
def test_a_count_that_lies(count: int, delta: int, connection: RawConnection) -> None:
    liar = batch()
    struct.pack_into(">i", liar, RECORD_COUNT_AT, count)
    struct.pack_into(">i", liar, LAST_OFFSET_DELTA_AT, delta)
    update_crc(liar, 0)
    assert refused(connection, bytes(liar)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [1, 2, 4, 1000, 2**31 - 1])
def test_a_count_that_lies_where_records_are_looked_at(count: int, connection: RawConnection) -> None:
    liar = batch(key=b"key")
    struct.pack_into(">i", liar, RECORD_COUNT_AT, count)
    struct.pack_into(">i", liar, LAST_OFFSET_DELTA_AT, count - 1)
    update_crc(liar, 0)
    assert refused(connection, bytes(liar), "compacted") in CORRUPT


def test_no_batch_half_a_batch_and_two(connection: RawConnection) -> None:
    whole = bytes(batch())
    for records in (None, b"", whole[:5], whole[:RECORDS_AT], whole[:-1], whole + b"x", whole + whole):
        assert refused(connection, records) in CORRUPT, len(records or b"")


def test_record_without_a_key_where_one_is_needed(connection: RawConnection) -> None:
    assert refused(connection, bytes(batch(key=None)), "compacted") == ErrorCode.INVALID_RECORD


def compressed(codec: int, content: bytes, count: int) -> bytes:
    header = BatchHeader(0, 0, -1, 2, 0, codec, count - 1, 0, 0, -1, -1, -1, count)
    return bytes(assemble_batch(header, compression.compress(codec, content)))


@pytest.mark.parametrize("codec", [compression.GZIP, compression.LZ4, compression.ZSTD])
def test_a_compressed_bomb_where_records_are_looked_at(codec: int, connection: RawConnection) -> None:
    bomb = compressed(codec, bytes(200 * MB), 1)
    assert len(bomb) < MB
    assert refused(connection, bomb, "compacted") == ErrorCode.MESSAGE_TOO_LARGE


def test_a_bomb_of_records(connection: RawConnection, memory: PeakMemory) -> None:
    """Each of which is all right; 40 MB of eight bytes each would be more than a gigabyte of values."""
    one = encode_section([0], [0], 0, [b"k"], [None], None)
    count = 40 * MB // len(one)
    bomb = compressed(compression.ZSTD, one * count, count)
    assert refused(connection, bomb, "compacted") == ErrorCode.MESSAGE_TOO_LARGE
    assert memory.growth_bytes < 40 * MB, memory.growth_bytes


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_damage_inside_of_what_is_compressed(codec: int, connection: RawConnection) -> None:
    """The checksum is right, so only looking at the records shows it: where there is something to see."""
    for at in (RECORDS_AT, RECORDS_AT + 9, -9, -1):
        damaged = batch(20, b"key", codec)
        damaged[at] ^= 0x55
        update_crc(damaged, 0)
        [answer] = produce(connection, [bytes(damaged)], "compacted")
        assert answer.error_code in ({0} if (codec, at) in UNSEEN else CORRUPT), (codec, at)


def test_a_codec_that_nobody_knows(connection: RawConnection) -> None:
    stranger = batch()
    stranger[ATTRIBUTES_AT + 1] |= 7
    update_crc(stranger, 0)
    assert refused(connection, bytes(stranger)) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
