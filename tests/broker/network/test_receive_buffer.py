"""The receive buffer by itself: any tearing, any sizes, bounded memory."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.network import buffers
from odradek.broker.network.boundary import FrameSizeError
from odradek.broker.network.buffers import ReceiveBuffer
from odradek.broker.network.limits import RECEIVE_BUFFER_BYTES

LIMIT = 2_000_000
SIZES = st.one_of(
    st.integers(0, 300),
    st.integers(RECEIVE_BUFFER_BYTES - 300, RECEIVE_BUFFER_BYTES + 300),
    st.integers(0, 300_000),
)


def new_buffer() -> ReceiveBuffer:
    return ReceiveBuffer(memoryview(bytearray(RECEIVE_BUFFER_BYTES)), LIMIT)


def put(buffer: ReceiveBuffer, data: memoryview, most: int) -> int:
    """What one call of recv_into does."""
    room = buffer.view[buffer.end :]
    assert len(room) > 0, "there is always room for more"
    size = min(len(room), len(data), most)
    room[:size] = data[:size]
    buffer.end += size
    return size


@settings(max_examples=30, deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=6), st.lists(st.integers(1, 200_000), min_size=1, max_size=8))
def test_frames_come_out_as_they_went_in(sizes: list[int], pieces: list[int]) -> None:
    frames = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream = memoryview(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
    buffer, seen, at, turn = new_buffer(), [], 0, 0
    while at < len(stream):
        at += put(buffer, stream[at:], pieces[turn % len(pieces)])
        turn += 1
        while (frame := buffer.next_frame()) is not None:
            seen.append(bytes(frame))
        held = buffer.end - buffer.start
        buffer.settle(grow=True)
        assert buffer.end - buffer.start == held
        assert len(buffer.view) <= max(2 * at, RECEIVE_BUFFER_BYTES)
        assert len(buffer.view) <= max(sizes) + 4 + RECEIVE_BUFFER_BYTES
    assert seen == frames
    assert buffer.start == buffer.end == 0


def test_a_frame_may_be_written_to() -> None:
    buffer = new_buffer()
    put(buffer, memoryview(struct.pack(">i", 3) + b"abc"), 100)
    frame = buffer.next_frame()
    assert frame is not None
    frame[0] = ord("x")
    assert bytes(frame) == b"xbc"


def test_a_frame_that_there_is_no_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = new_buffer()
    put(buffer, memoryview(struct.pack(">i", LIMIT) + bytes(RECEIVE_BUFFER_BYTES)), LIMIT)

    def bytearray_without_memory(size_bytes: int) -> bytearray:
        raise MemoryError

    monkeypatch.setattr(buffers, "bytearray", bytearray_without_memory, raising=False)
    with pytest.raises(FrameSizeError, match=f"there is no memory for a request of {LIMIT + 4} bytes"):
        buffer.settle(grow=True)


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_sizes_out_of_bounds(size: int) -> None:
    buffer = new_buffer()
    put(buffer, memoryview(struct.pack(">i", size)), 4)
    with pytest.raises(FrameSizeError, match=str(size)):
        buffer.next_frame()


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"\x16\x03\x01\x02", "369295618 bytes was announced, the limit is 2000000 (TLS begins like this: "),
        (b"GET / HTTP/1.1", "the limit is 2000000 (HTTP begins like this: "),
        (b"\x7f\xff\xff\xff", "the limit is 2000000$"),
    ],
)
def test_who_speaks_something_else_is_told_what(first: bytes, said: str) -> None:
    """A client whose security.protocol is SSL, on a listener without: all that the log said was a number."""
    buffer = new_buffer()
    put(buffer, memoryview(bytearray(first)), len(first))
    with pytest.raises(FrameSizeError, match=said.replace("(", r"\(")):
        buffer.next_frame()


def test_without_growing_a_full_buffer_stays_as_it_is() -> None:
    buffer = new_buffer()
    put(buffer, memoryview(struct.pack(">i", LIMIT) + bytes(RECEIVE_BUFFER_BYTES)), 1 << 30)
    assert buffer.next_frame() is None
    buffer.settle(grow=False)
    assert buffer.is_own
    assert buffer.end == len(buffer.view) == RECEIVE_BUFFER_BYTES
    buffer.settle(grow=True)
    assert len(buffer.view) == 2 * RECEIVE_BUFFER_BYTES


def test_small_frames_make_do_with_one_buffer() -> None:
    buffer = new_buffer()
    frame = struct.pack(">i", 996) + bytes(996)
    stream = memoryview(frame * 1000)
    at = put(buffer, stream, 500)
    buffer.settle(grow=True)
    own, seen = buffer.view, 0
    while at < len(stream):
        at += put(buffer, stream[at:], 30_000)
        while buffer.next_frame() is not None:
            seen += 1
        buffer.settle(grow=True)
        assert buffer.view is own
    assert seen == 1000


def test_a_buffer_is_given_back_when_it_was_not_needed() -> None:
    buffer = new_buffer()
    put(buffer, memoryview(struct.pack(">i", 2) + b"a"), 100)
    buffer.settle(grow=True)
    assert buffer.is_own
    buffer.review()
    assert buffer.is_own, "a part of a frame is in it"
    put(buffer, memoryview(b"b"), 100)
    assert buffer.next_frame() == b"ab"
    buffer.settle(grow=True)
    buffer.review()
    assert not buffer.is_own, "six bytes do not need their own 64 KiB"
