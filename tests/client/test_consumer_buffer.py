"""Fetched records on their way to the application: order, limits, positions, seeks, interrupts."""

import dis
import os
import sys
from types import FrameType
from typing import Any

import pytest

from odradek.client.consumer import buffer, chunks
from odradek.client.consumer.chunks import HEADERS_KEPT, Chunk
from odradek.client.consumer.fetch_requests import plan_fetches
from odradek.client.consumer.positions import Positions
from odradek.client.metadata import ClusterView, Node, PartitionInfo, TopicInfo
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.record_batch import assemble_batch, read_header
from odradek.protocol.records import decode_records, encode_batch
from tests.client.fetched_chunks import SETTINGS, T0, T1, Bench, batch

interpreted = pytest.mark.skipif(
    os.environ.get("ODRADEK_COMPILED") == "1", reason="nobody can put another name into a compiled module"
)

COMMIT_KEY, ABORT_KEY = b"\x00\x00\x00\x01", b"\x00\x00\x00\x00"


def emptied_batch(base: int) -> bytes:
    header = read_header(batch(base, b"gone", producer=5))
    return bytes(assemble_batch(header._replace(record_count=0)))


def marker(base: int, key: bytes, producer: int) -> bytes:
    return bytes(encode_batch(base, [0], [key], [b"\x00" * 6], producer_id=producer, transactional=True, control=True))


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


def test_the_position_while_iterating_is_behind_the_record_and_at_the_end_behind_what_is_handed_to_nobody() -> None:
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, batch(0, b"a") + batch(7, b"b") + marker(8, COMMIT_KEY, 5))
    state, places = bench.positions.partitions[T0], []
    while bench.buffer.next_record() is not None:
        places.append(state.place)
    assert places == [(1, -1), (9, -1)], "in the gap that compaction has left, and behind the marker"


@pytest.mark.parametrize("how", ["truncated", "sought", "assigned to others"])
def test_what_is_decoded_ahead_is_handed_to_nobody_when_the_position_moves(how: str) -> None:
    bench = Bench()
    bench.start(T0)
    bench.arrive(T0, batch(0, b"a", b"b", b"c", b"d"))
    state = bench.positions.partitions[T0]
    assert [bench.buffer.next_record() is not None for _ in range(3)] == [True, True, True]
    if how == "truncated":
        bench.positions.truncate(T0, 2, 6)
    elif how == "sought":
        bench.positions.jump(T0, 2)
    else:
        bench.positions.assign([T1])
    after = state.place
    assert after == {"truncated": (2, 6), "sought": (2, -1), "assigned to others": (3, -1)}[how]
    assert bench.buffer.next_record() is None and bench.values() == []
    assert state.place == after


class GoneBackAt:
    """Has the loop go back to the position where the application's thread lets others run for the n-th time."""

    def __init__(self, bench: Bench, number: int) -> None:
        self.left = number
        self._bench = bench
        self._last: dict[FrameType, str] = {}

    def records(self) -> list[bytes | None]:
        """Return the values of all that is handed out."""
        found: list[bytes | None] = []
        sys.settrace(self._enter)
        try:
            while (record := self._bench.buffer.next_record()) is not None:
                found.append(record.value)
        finally:
            sys.settrace(None)
        return found

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if "/consumer/" not in frame.f_code.co_filename:
            return None
        frame.f_trace = self._step
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._count()
        return self._step

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            last = self._last.get(frame, "")
            self._last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if last.startswith(("CALL", "JUMP_BACKWARD")):
                self._count()
        return self._step

    def _count(self) -> None:
        if self._bench.shared.lock.locked():
            return
        self.left -= 1
        if self.left == 0:
            sys.settrace(None)
            self._bench.positions.go_back(T0)


@interpreted
def test_a_record_is_handed_out_once_wherever_the_loop_goes_back_to_the_position() -> None:
    number, all_of_it = 1, batch(0, b"a", b"b", b"c")
    while True:
        bench = Bench()
        bench.start(T0)
        bench.arrive(T0, all_of_it)
        meanwhile = GoneBackAt(bench, number)
        found = meanwhile.records()
        if meanwhile.left > 0:
            break
        bench.arrive(T0, all_of_it, at=bench.positions.partitions[T0].position)
        assert found + bench.values() == [b"a", b"b", b"c"], number
        number += 1
    assert number > 50
