"""From fetched bytes to records: chunks, positions, and what `poll` hands out."""

import os
from collections import deque
from typing import Any

import pytest

from odradek.client.config import load
from odradek.client.consumer import buffer, chunks
from odradek.client.consumer.buffer import RecordBuffer, Shared
from odradek.client.consumer.chunks import HEADERS_KEPT, Chunk
from odradek.client.consumer.config import ConsumerSettings, Deserializer
from odradek.client.consumer.fetch_requests import Asked, Refused, judge, plan_fetches
from odradek.client.consumer.positions import Positions
from odradek.client.errors import ClientError, CorruptRecords, DeserializationError
from odradek.client.metadata import ClusterView, Node, PartitionInfo, TopicInfo
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import PartitionData
from odradek.protocol.record_batch import MAGIC_AT, CorruptBatch, assemble_batch, read_header
from odradek.protocol.records import decode_records, encode_batch
from odradek.testing import old_segments
from odradek.testing.old_segments import golden_bytes

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SETTINGS = load(ConsumerSettings, None, {"bootstrap_servers": "a:1"})
interpreted = pytest.mark.skipif(
    os.environ.get("ODRADEK_COMPILED") == "1", reason="nobody can put another name into a compiled module"
)
COMMIT_KEY, ABORT_KEY = b"\x00\x00\x00\x01", b"\x00\x00\x00\x00"


def batch(base: int, *values: bytes, producer: int = -1, transactional: bool = False) -> bytes:
    count = len(values)
    return bytes(
        encode_batch(
            base, [1_000] * count, [None] * count, list(values), producer_id=producer, transactional=transactional
        )
    )


def emptied_batch(base: int) -> bytes:
    header = read_header(batch(base, b"gone", producer=5))
    return bytes(assemble_batch(header._replace(record_count=0)))


def marker(base: int, key: bytes, producer: int) -> bytes:
    return bytes(encode_batch(base, [0], [key], [b"\x00" * 6], producer_id=producer, transactional=True, control=True))


class Bench:
    """Positions, chunks and buffer of one consumer."""

    def __init__(self, value: Deserializer | None = None) -> None:
        self.shared = Shared()
        self.positions, self.chunks = self.shared.positions, self.shared.chunks
        self.buffer = RecordBuffer(self.shared, SETTINGS, None, value)

    def start(self, *partitions: TopicPartition, offset: int = 0) -> None:
        self.positions.assign(partitions)
        for one in partitions:
            self.positions.jump(one, offset)

    def arrive(
        self, tp: TopicPartition, data: bytes, at: int = 0, aborted: list[tuple[int, int]] | None = None
    ) -> None:
        chunk = Chunk(tp, memoryview(data), at, self.positions.partitions[tp].version, aborted)
        self.chunks.setdefault(tp, deque()).append(chunk)

    def values(self, limit: int = 100) -> list[bytes]:
        return [record.value for records in self.buffer.take(limit).values() for record in records]


def test_records_come_in_order_within_the_limit_and_move_the_position() -> None:
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, batch(0, b"a", b"b") + batch(2, b"c"))
    assert bench.values(2) == [b"a", b"b"]
    assert bench.positions.consumed() == {T0: OffsetAndMetadata(2, "", -1)}
    assert bench.values() == [b"c"]
    assert bench.values() == [] and not bench.chunks


def test_room_is_made_by_chunks_that_are_done_with_or_stale() -> None:
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, batch(0, b"a", b"b"))
    assert bench.values(1) == [b"a"] and not bench.buffer.room
    assert bench.values() == [b"b"] and bench.buffer.room
    bench.buffer.room = False
    bench.arrive(T0, batch(2, b"c"), at=2)
    bench.positions.jump(T0, 9)
    assert bench.values() == [] and bench.buffer.room


def test_the_loop_need_not_wait_for_deserializers() -> None:
    """It sends the heartbeats: a deserializer that took its time cost the membership."""
    held: list[bool] = []
    bench = Bench(lambda topic, headers, value: held.append(bench.shared.lock.locked()))
    bench.start(T0)
    bench.arrive(T0, batch(0, b"a"))
    bench.values()
    assert held == [False]


def test_records_before_the_position_and_a_cut_off_tail_are_left_out() -> None:
    bench = Bench()
    bench.start(T0, offset=1)
    bench.arrive(T0, batch(0, b"a", b"b") + batch(2, b"c")[:-1], at=1)
    assert bench.values() == [b"b"]
    assert bench.positions.partitions[T0].position == 2


def test_a_position_moves_over_offsets_that_compaction_or_markers_have_left_empty() -> None:
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, marker(0, COMMIT_KEY, 5))
    assert bench.values() == []
    assert bench.positions.partitions[T0].position == 1


def test_an_idempotent_producers_batch_that_compaction_has_emptied_is_passed_over() -> None:
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, batch(0, b"a", b"b") + emptied_batch(2) + batch(3, b"c"))
    assert bench.values(2) + bench.values() == [b"a", b"b", b"c"]
    assert bench.positions.partitions[T0].position == 4


def test_an_answer_of_very_many_small_batches_is_read_without_keeping_all_headers() -> None:
    bench = Bench()
    bench.start(T0)
    count = HEADERS_KEPT + 3
    bench.arrive(T0, b"".join(batch(offset, b"%d" % offset) for offset in range(count)))
    assert len(bench.chunks[T0][0]._headers) == HEADERS_KEPT
    assert bench.values(count) == [b"%d" % offset for offset in range(count)]


def test_read_committed_leaves_out_aborted_transactions_and_no_others() -> None:
    data = (
        batch(0, b"aborted", producer=1, transactional=True)
        + batch(1, b"plain")
        + batch(2, b"committed", producer=2, transactional=True)
        + marker(3, ABORT_KEY, 1)
        + batch(4, b"later", producer=1, transactional=True)
        + marker(5, COMMIT_KEY, 1)
        + marker(6, COMMIT_KEY, 2)
    )
    for aborted, expected in (
        ([(1, 0)], [b"plain", b"committed", b"later"]),
        (None, [b"aborted", b"plain", b"committed", b"later"]),
    ):
        bench = Bench()
        bench.start(T0)
        bench.arrive(T0, data, aborted=aborted)
        assert bench.values() == expected


def test_after_a_seek_nothing_from_before_is_handed_out() -> None:
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, batch(0, b"a", b"b"))
    assert bench.values(1) == [b"a"]
    bench.positions.jump(T0, 7)
    assert bench.values() == []
    bench.arrive(T0, batch(7, b"h"), at=7)
    assert bench.values() == [b"h"]


def test_a_paused_partition_waits_and_others_are_served() -> None:
    bench = Bench()
    bench.start(T0, T1)
    bench.arrive(T0, batch(0, b"a"))
    bench.arrive(T1, batch(0, b"b"))
    bench.positions.partitions[T0].paused = True
    assert bench.values() == [b"b"]
    bench.positions.partitions[T0].paused = False
    assert bench.values() == [b"a"]


def test_no_partition_starves_behind_a_full_one() -> None:
    bench = Bench()
    bench.start(T0, T1)
    bench.arrive(T0, batch(0, *[b"a"] * 10))
    bench.arrive(T1, batch(0, *[b"b"] * 10))
    assert set(bench.values(4) + bench.values(4)) == {b"a", b"b"}


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


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, MemoryError])
def test_what_was_being_read_when_an_interrupt_struck_is_read_again(interrupt: type[BaseException]) -> None:
    """All that the answer still had was passed over in silence."""
    struck: list[bytes] = []

    def strike_once(topic: str, headers: object, data: bytes | None) -> bytes | None:
        if data == b"c" and not struck:
            struck.append(data)
            raise interrupt
        return data

    bench = Bench(strike_once)
    bench.start(T0)
    data = batch(0, b"a", b"b") + batch(2, b"c", b"d") + batch(4, b"e")
    bench.arrive(T0, data)
    with pytest.raises(interrupt):
        bench.values()
    bench.arrive(T0, data)
    assert bench.values() == [b"a", b"b", b"c", b"d", b"e"]


@interpreted
def test_an_interrupt_between_two_batches_takes_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer seemed to be at its end, and the position went there."""
    decode = decode_records

    def interrupted(data: Any, at: int, **keywords: Any) -> Any:
        if at:
            monkeypatch.undo()
            raise KeyboardInterrupt
        return decode(data, at, **keywords)

    chunk = Chunk(T0, memoryview(batch(0, b"a") + batch(1, b"b")), 0, 0, None)
    reader = chunks.Reader(chunk, None, None, check_crcs=True)
    monkeypatch.setattr(chunks, "decode_records", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reader.take(0, 10)
    assert [record.value for record in reader.take(0, 1)] == [b"a"]
    assert [record.value for record in reader.take(1, 10)] == [b"b"]


@interpreted
def test_an_interrupt_of_iterating_takes_none_of_what_was_decoded_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The position was behind all of it."""

    def interrupted(*arguments: Any) -> Any:
        monkeypatch.undo()
        raise KeyboardInterrupt

    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, batch(0, b"a", b"b"))
    monkeypatch.setattr(buffer, "Ahead", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.buffer.next_record()
    bench.arrive(T0, batch(0, b"a", b"b"))
    assert bench.values() == [b"a", b"b"]


def view(topic_id: bytes = bytes(16)) -> ClusterView:
    partitions = tuple(
        PartitionInfo("t", number, leader, 3, (leader,), (leader,), (), ErrorCode.NONE)
        for number, leader in enumerate([1, 1, 2, -1])
    )
    nodes = {1: Node(1, "h", 1), 2: Node(2, "h", 2)}
    return ClusterView("c", 1, nodes, {"t": TopicInfo("t", topic_id, False, partitions)})


def test_fetches_are_one_per_broker_for_partitions_that_have_room() -> None:
    positions = Positions()
    everything = [TopicPartition("t", number) for number in range(4)]
    positions.assign(everything)
    for one in everything:
        positions.jump(one, 10 + one.partition)
    calls = plan_fetches(positions, {T0: [1]}, view(), {}, set(), SETTINGS, 0)
    assert {call.node_id: sorted(call.asked) for call in calls} == {1: [T0, T1], 2: [everything[2]]}
    assert calls[0].request.topics[0].partitions[1].fetch_offset == 11
    assert calls[0].highest_version == 12, "no topic id: the last version with names"
    assert plan_fetches(positions, {T0: [1, 2], T1: [1, 2]}, view(), {}, {2}, SETTINGS, 0) == []
    positions.partitions[T0].paused = True
    positions.partitions[T1].retry_at_ms = 5
    (only,) = plan_fetches(positions, {}, view(b"i" * 16), {}, set(), SETTINGS, 0)
    assert (only.node_id, only.highest_version) == (2, None)
    assert len(plan_fetches(positions, {}, view(), {}, set(), SETTINGS, 6)) == 2


def test_what_is_found_counts_only_as_long_as_nothing_else_is_sought() -> None:
    """An answer that was on its way when the application sought the end took it to the beginning."""
    positions = Positions()
    positions.assign([T0, T1])
    positions.reset(T1, -2)
    sought = positions.sought([T0, T1])
    assert {tp: one.timestamp for tp, one in sought.items()} == {T0: None, T1: -2}
    positions.reset(T1, -1)
    positions.locate(T0, sought[T0], 5, 2)
    positions.locate(T1, sought[T1], 0)
    assert positions.consumed() == {T0: OffsetAndMetadata(5, "", 2)}
    assert positions.sought([T0, T1])[T1].timestamp == -1
    sought = positions.sought([T1])
    positions.assign([])
    positions.assign([T1])
    positions.locate(T1, sought[T1], 7)
    assert not positions.partitions[T1].located, "it has been somebody else's meanwhile"


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


def test_an_answer_that_begins_with_nonsense_says_of_which_partition_it_is() -> None:
    nonsense = bytearray(batch(7, b"a"))
    nonsense[MAGIC_AT] = 9
    data = PartitionData(partition_index=0, error_code=0, high_watermark=8, records=memoryview(nonsense))
    refused = judge(T0, Asked(7, 0), data, 0, "a limit")
    assert isinstance(refused, Refused) and isinstance(refused.error, CorruptRecords)
    assert (refused.error.topic, refused.error.partition, refused.error.offset) == ("t", 0, 7)


def test_a_paused_partition_keeps_its_place_and_the_others_take_turns() -> None:
    """The paused one moved instead of the one that had been read: A, A, B, A, A, B."""
    bench, paused = Bench(), TopicPartition("p", 0)
    bench.start(paused, T0, T1)
    bench.positions.partitions[paused].paused = True
    for one in (paused, T0, T1):
        bench.arrive(one, batch(0, *[str(one.partition).encode()] * 6))
    assert [bench.values(1) for _ in range(6)] == [[b"0"], [b"1"]] * 3


def test_records_behind_the_high_watermark_are_asked_for_again() -> None:
    bench = Bench()
    bench.start(T0)
    data = memoryview(batch(0, b"a", b"b") + batch(2, b"c") + batch(3, b"d"))
    assert Chunk(T0, data, 0, 0, None, 3).next_offset == 3
    assert Chunk(T0, data, 0, 0, None, 4).next_offset == 4


def test_headers_that_do_not_decode_are_damaged_records() -> None:
    """They came out of poll as an error of the protocol, which names neither partition nor offset."""
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, bytes(encode_batch(0, [0], [None], [b"a"], raw_headers=[b"\x02\x01"])))
    with pytest.raises(CorruptRecords, match=r"t-0 at offset 0: damaged records: .*header"):
        bench.values()


def test_what_iterating_has_decoded_ahead_is_the_partitions_as_long_as_that_is_read_here() -> None:
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, batch(0, *(b"%d" % number for number in range(6))))

    state = bench.positions.partitions[T0]

    def following() -> bytes | None:
        record = bench.buffer.next_record()
        return None if record is None else record.value

    assert [following(), following(), state.position] == [b"0", b"1", 2]
    bench.positions.assign([T0, T1])
    assert [following(), state.position] == [b"2", 3], "it stays, and so does what is decoded of it"
    assert bench.values(2) == [b"3", b"4"]
    state.paused = True
    assert following() is None
    assert (state.position, state.fetch_offset) == (5, 5), "the rest is fetched again"
    state.paused = False
    bench.arrive(T0, batch(5, b"5", b"6"), 5)
    assert following() == b"5"
    bench.positions.assign([T1])
    assert following() is None
