"""Fetched bytes that are damaged, or of old message formats, and deserializers that fail."""

import pytest

from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.fetch_requests import Asked, Refused, judge
from odradek.client.errors import ClientError, CorruptRecords, DeserializationError
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.messages.fetch import PartitionData
from odradek.protocol.record_batch import MAGIC_AT, CorruptBatch, assemble_batch, read_header
from odradek.protocol.records import encode_batch
from odradek.testing import old_segments
from odradek.testing.old_segments import golden_bytes
from tests.client.fetched_chunks import T0, Bench, batch


def test_damage_is_told_with_its_place_after_the_good_records_and_again_until_a_seek() -> None:
    bench = Bench()
    bench.start(T0)
    damaged = bytearray(batch(1, b"b"))
    damaged[-1] ^= 1
    bench.arrive(T0, batch(0, b"a") + damaged)
    assert bench.values() == [b"a"]
    for _ in range(2):
        with pytest.raises(ClientError, match="t-0 at offset 1: damaged records") as told:
            bench.values()
        assert isinstance(told.value.__cause__, CorruptBatch)
    bench.positions.jump(T0, 2)
    assert bench.values() == []


def test_a_deserializer_that_fails_is_told_with_its_offset_and_loses_no_record() -> None:
    def upper(topic: str, headers: object, data: bytes | None) -> bytes:
        assert data is not None
        if data == b"bad":
            raise ValueError("no")
        return data.upper()

    bench = Bench(upper)
    bench.start(T0)
    bench.arrive(T0, batch(0, b"a", b"bad", b"c"))
    assert bench.values() == [b"A"]
    with pytest.raises(DeserializationError, match="t-0 at offset 1: cannot be deserialized: no"):
        bench.values()
    bench.positions.jump(T0, 2)
    bench.arrive(T0, batch(0, b"a", b"bad", b"c"), at=2)
    assert bench.values() == [b"C"]


def test_a_deserializer_is_asked_again_for_what_it_needs_may_be_back() -> None:
    """It was not: whose schema registry had been away for a moment had to seek to the record it was at."""
    away = True

    def registry(topic: str, headers: object, data: bytes | None) -> bytes | None:
        if data == b"b" and away:
            raise OSError("the registry is away")
        return data

    bench = Bench(registry)
    bench.start(T0)
    bench.arrive(T0, batch(0, b"a", b"b", b"c"))
    assert bench.values() == [b"a"]
    for _ in range(2):
        with pytest.raises(DeserializationError) as told:
            bench.values()
        assert (told.value.topic, told.value.partition, told.value.offset, told.value.next_offset) == ("t", 0, 1, 2)
    away = False
    assert bench.values() == [b"b", b"c"]


@pytest.mark.parametrize("name", ["v0-0", "v1-0", "mixed-0"])
def test_message_sets_of_a_broker_with_old_segments(name: str) -> None:
    """Written by Kafka 3.9.1 with old formats set; Fetch below version 12 gives them as they are."""
    bench = Bench()
    bench.start(T0, offset=12)
    bench.arrive(T0, golden_bytes(name)[:-1], at=12)
    found = [
        (one.offset, one.timestamp_ms, one.key, one.value)
        for records in bench.buffer.take(100).values()
        for one in records
    ]
    assert found == old_segments.expected(name)[12 : 40 if name == "mixed-0" else 64], "the last one was cut off"
    assert bench.positions.partitions[T0].position == found[-1][0] + 1


def test_the_brokers_time_in_message_sets() -> None:
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, golden_bytes("append-time-0"))
    records = bench.buffer.take(100)[T0]
    assert [one.timestamp_type for one in records] == [1] * 40
    assert len({one.timestamp_ms for one in records[10:20]}) == 1


def test_damaged_message_sets() -> None:
    """What is good comes first; then the application hears of the rest."""
    data = bytearray(golden_bytes("v1-0"))
    data[200] ^= 1
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, bytes(data))
    assert [one.offset for one in bench.buffer.take(100)[T0]] == [0]
    with pytest.raises(CorruptBatch):
        Chunk(T0, memoryview(data)[119:], 1, 0, None)


def test_batches_whose_offsets_rot_are_refused() -> None:
    """No checksum covers them: one that does not rise, or lies beyond the end of the log, cannot be right."""
    bench = Bench()
    bench.start(T0)
    lower = bytearray(batch(5, b"b"))
    lower[7] ^= 4
    bench.arrive(T0, batch(0, b"a", b"b") + lower)
    assert bench.values() == [b"a", b"b"]
    with pytest.raises(CorruptRecords, match=r"t-0 at offset 1: damaged records: .*CORRUPT_MESSAGE") as told:
        bench.values()
    assert (told.value.topic, told.value.partition, told.value.offset) == ("t", 0, 1)
    assert told.value.next_offset is None  # 2, where the damaged ones would have come again
    assert bench.positions.partitions[T0].position == 2
    higher = bytearray(batch(0, b"a"))
    higher[3] ^= 1
    chunk = Chunk(T0, memoryview(higher), 0, 0, None, 10)
    with pytest.raises(CorruptRecords, match="in a log that ends at 10"):
        list(chunk.batches(check_crcs=True))


def test_damaged_records_say_where_they_end_if_that_can_be_so() -> None:
    """A length that had rotted too led far behind the log's end, from where auto.offset.reset leads anywhere."""
    damaged = bytearray(batch(0, b"a", b"b"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecords, match=r"checksum .*seek to 2 to go on behind them") as told:
        list(Chunk(T0, memoryview(damaged), 0, 0, None, 10).batches(check_crcs=True))
    assert (told.value.topic, told.value.partition, told.value.offset, told.value.next_offset) == ("t", 0, 0, 2)
    damaged[23] ^= 1
    assert read_header(damaged).last_offset_delta > 10
    with pytest.raises(CorruptRecords, match="checksum") as told:
        list(Chunk(T0, memoryview(damaged), 0, 0, None, 10).batches(check_crcs=True))
    assert told.value.next_offset is None


def test_a_marker_of_less_than_no_records_is_damaged() -> None:
    """It came out of poll as an IndexError, again and again, with no offset to go on at."""
    marker = encode_end_txn_marker(EndTxnMarker(False, 0), 1_000, 7, 0, base_offset=3)
    emptied = assemble_batch(read_header(marker)._replace(record_count=-1))
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, bytes(emptied), aborted=[])
    with pytest.raises(CorruptRecords, match="t-0 at offset 3: damaged records") as told:
        bench.values()
    assert told.value.next_offset == 4


def test_an_answer_that_begins_with_nonsense_says_of_which_partition_it_is() -> None:
    nonsense = bytearray(batch(7, b"a"))
    nonsense[MAGIC_AT] = 9
    data = PartitionData(partition_index=0, error_code=0, high_watermark=8, records=memoryview(nonsense))
    refused = judge(T0, Asked(7, 0), data, 0, "a limit")
    assert isinstance(refused, Refused) and isinstance(refused.error, CorruptRecords)
    assert (refused.error.topic, refused.error.partition, refused.error.offset) == ("t", 0, 7)


def test_headers_that_do_not_decode_are_damaged_records() -> None:
    """They came out of poll as an error of the protocol, which names neither partition nor offset."""
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, bytes(encode_batch(0, [0], [None], [b"a"], raw_headers=[b"\x02\x01"])))
    with pytest.raises(CorruptRecords, match=r"t-0 at offset 0: damaged records: .*header"):
        bench.values()
