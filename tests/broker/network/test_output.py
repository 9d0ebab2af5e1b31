"""The queue of unsent parts against transports that take what they like."""

from collections.abc import Callable
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.network.buffers import JOINED_BYTES_MAX, READ_BYTES_MAX, TURN_BYTES_MAX, Output
from odradek.testing.simulated_files import SimulatedFiles
from odradek.world.files import Buffer, File, FileRange


class Transport:
    """Takes at most so many bytes at each call: 0 means that there is no room."""

    peer = "test:1"

    def __init__(self, takes: list[int]) -> None:
        self.takes = takes
        self.taken = bytearray()
        self.more: list[bool] = []
        self.writable: Callable[[], object] | None = None

    def _room(self) -> int:
        room = self.takes.pop(0) if self.takes else 1 << 40
        if not room:
            raise BlockingIOError
        return room

    def receive_into(self, buffer: memoryview, /) -> int:
        raise BlockingIOError

    def send(self, data: Buffer, *, more: bool = False) -> int:
        room = self._room()
        self.taken += data[:room]
        self.more.append(more)
        return min(room, len(data))

    def send_file(self, file: File, position: int, length: int) -> int:
        return self.send(file.pread(length, position))

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        raise AssertionError("nothing is read here")

    def wake_at(self, count: int) -> None:
        raise AssertionError("nothing is read here")

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        assert (callback is None) != (self.writable is None), "each change once"
        self.writable = callback

    def close(self, *, abandon: bool = False) -> None:
        raise AssertionError("nothing is closed here")


def new_file(size: int) -> File:
    file = SimulatedFiles().open("/log", create=True)
    file.append((bytes(range(251)) * (size // 251 + 1))[:size])
    return file


FILE = new_file(1000)
PARTS = st.one_of(
    st.binary(max_size=20), st.tuples(st.integers(0, 500), st.integers(1, 500)).map(lambda ends: FileRange(FILE, *ends))
)


@mock.patch("odradek.broker.network.buffers.READ_BYTES_MAX", 250)
@mock.patch("odradek.broker.network.buffers.JOINED_BYTES_MAX", 600)
@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(PARTS, max_size=6), max_size=5), st.lists(st.integers(0, 30), max_size=40))
def test_every_byte_goes_once_and_in_order(answers: list[list[bytes | FileRange]], takes: list[int]) -> None:
    transport = Transport(takes)
    output = Output(transport, lambda: output.flush())
    expected = bytearray()
    for answer in answers:
        output.push(list(answer))
        for part in answer:
            expected += part.read() if isinstance(part, FileRange) else part
        output.flush()
        assert output.unsent_bytes == len(expected) - len(transport.taken)
    while transport.writable is not None:
        transport.writable()
    assert transport.taken == expected
    assert output.unsent_bytes == 0


def test_answers_of_one_wake_up_are_one_call() -> None:
    transport = Transport([])
    output = Output(transport, lambda: None)
    for number in range(100):
        output.push([b"head", bytes([number])])
    output.flush()
    assert transport.more == [False]
    assert len(transport.taken) == 500


def test_more_is_said_before_a_file_and_not_at_the_end() -> None:
    transport = Transport([])
    output = Output(transport, lambda: None)
    output.push([b"head", b"er", FileRange(new_file(READ_BYTES_MAX + 1), 0, READ_BYTES_MAX + 1), b"tail"])
    output.flush()
    assert transport.more == [True, False, False]


def test_short_ranges_go_with_what_is_around_them() -> None:
    transport = Transport([])
    output = Output(transport, lambda: None)
    output.push([b"head", FileRange(FILE, 0, 100), b"tail"])
    output.push([b"head", FileRange(FILE, 100, 200), b"tail"])
    output.flush()
    assert transport.more == [False]
    assert transport.taken == b"head" + FILE.pread(100, 0) + b"tailhead" + FILE.pread(200, 100) + b"tail"


def test_while_the_peer_is_slow_few_bytes_of_files_are_held() -> None:
    file = new_file(READ_BYTES_MAX)
    transport = Transport([1])
    output = Output(transport, lambda: None)
    output.push([FileRange(file, 0, READ_BYTES_MAX) for _ in range(100)])
    transport.takes.append(0)
    output.flush()
    in_memory = sum(len(part) for part in output._parts if not isinstance(part, FileRange))
    assert READ_BYTES_MAX < in_memory <= JOINED_BYTES_MAX + READ_BYTES_MAX


def test_a_short_range_that_is_not_all_there_breaks_the_connection() -> None:
    output = Output(Transport([]), lambda: None)
    output.push([b"head", FileRange(FILE, 900, 200)])
    with pytest.raises(OSError, match="100 bytes at 900, 200 were promised"):
        output.flush()


@pytest.mark.parametrize("in_file", [False, True])
def test_others_have_their_turn(in_file: bool) -> None:
    size = 3 * TURN_BYTES_MAX
    file = new_file(size)
    transport = Transport([TURN_BYTES_MAX // 2] * 100)
    output = Output(transport, lambda: output.flush())
    output.push([FileRange(file, 0, size) if in_file else file.pread(size, 0)])
    output.flush()
    assert len(transport.taken) == TURN_BYTES_MAX
    turns = 1
    while transport.writable is not None:
        transport.writable()
        turns += 1
    assert transport.taken == file.pread(size, 0)
    assert turns == 3
