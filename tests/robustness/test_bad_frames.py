"""Frames that no client sends, while the broker serves another client: closed, and no memory spent on them."""

import os
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from odradek.protocol.connection import framed
from odradek.protocol.headers import RequestHeader, encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.testing.memory import PeakMemory
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.testing.up import UpCluster

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("undisturbed")]

MB = 1 << 20
SLACK_BYTES = 8 * MB
"""What the good client's own traffic may cost meanwhile."""


@pytest.fixture
def connection(broker: UpCluster) -> Iterator[socket.socket]:
    with connect(broker) as one:
        yield one


def connect(broker: UpCluster) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), PATIENCE_SECONDS)


def api_versions(number: int = 1) -> bytes:
    return b"".join(framed(encode_request(RequestHeader(18, 0, number, "bad"), ApiVersionsRequest())))


def closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def answered(connection: socket.socket) -> bool:
    """Whether the next answer is the one to `api_versions()`."""
    head = connection.recv(8, socket.MSG_WAITALL)
    return len(head) == 8 and struct.unpack(">i", head[4:]) == (1,)


def garbage(seed: int) -> bytes:
    """A frame whose API key nobody has."""
    data = bytearray(random.Random(seed).randbytes(300))
    data[0] |= 0x40
    return struct.pack(">i", len(data)) + data


METADATA = b"".join(encode_request(RequestHeader(3, 9, 1, "bad"), MetadataRequest(topics=None)))
BAD_FRAMES = {
    "garbage": garbage(1),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "2 GB announced": b"\x7f\xff\xff\xff",
    "one byte over the limit": struct.pack(">i", 100 * MB + 1),
    "a negative size": struct.pack(">i", -1),
    "the most negative size": b"\x80\x00\x00\x00",
    "an empty frame": bytes(4),
    "half a header": struct.pack(">ihh", 4, 3, 9),
    "an unknown API": struct.pack(">ihhih", 10, 12345, 0, 1, -1),
    "a negative API": struct.pack(">ihhih", 10, -3, 0, 1, -1),
    "an unknown version": struct.pack(">ihhih", 10, 3, 99, 1, -1),
    "a negative version": struct.pack(">ihhih", 10, 3, -1, 1, -1),
    "a client id beyond the frame": struct.pack(">ihhih", 10, 3, 1, 1, 30000),
    "a body cut off": struct.pack(">i", len(METADATA) - 3) + METADATA[:-3],
    "an array of 2^31-1": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_bad_frame_closes_its_connection_alone(name: str, broker: UpCluster, connection: socket.socket) -> None:
    with connect(broker) as neighbour:
        neighbour.sendall(api_versions()[:5])
        connection.sendall(BAD_FRAMES[name])
        assert closed(connection)
        neighbour.sendall(api_versions()[5:])
        assert answered(neighbour)


def test_the_peer_is_named_once(broker: UpCluster, connection: socket.socket) -> None:
    host, port = connection.getsockname()
    before = broker.log_file(0).stat().st_size  # a test before may have come from the same port
    connection.sendall(BAD_FRAMES["garbage"])
    assert closed(connection)
    said = broker.log_file(0).read_bytes()[before:].decode()
    lines = [line for line in said.splitlines() if f"{host}:{port}" in line]
    assert len(lines) == 1 and "closing the connection" in lines[0] and "WARNING" in lines[0], lines


def test_what_came_before_the_bad_frame_is_answered(connection: socket.socket) -> None:
    connection.sendall(api_versions() + BAD_FRAMES["garbage"])
    assert answered(connection)


def test_a_frame_that_never_ends_holds_up_nobody(broker: UpCluster, connection: socket.socket) -> None:
    connection.sendall(struct.pack(">i", len(METADATA)) + METADATA[:10])
    with connect(broker) as neighbour:
        neighbour.sendall(api_versions())
        assert answered(neighbour)
    connection.shutdown(socket.SHUT_WR)
    assert closed(connection)


def test_announced_bytes_cost_nothing_before_they_come(broker: UpCluster, memory: PeakMemory) -> None:
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(broker)) for _ in range(50)]
        for connection in connections:
            connection.sendall(struct.pack(">i", 100 * MB) + METADATA[:8])
        for connection in connections[:3]:
            connection.sendall(b"x" * 1000)
        with connect(broker) as neighbour:
            neighbour.sendall(api_versions())
            assert answered(neighbour)
        assert memory.growth_bytes < SLACK_BYTES, memory.growth_bytes


def test_memory_stays_within_what_was_announced(
    broker: UpCluster, memory: PeakMemory, connection: socket.socket
) -> None:
    """90 MB announced and 10 MB sent: what is kept is at most twice what has come, and is given back in the end."""
    connection.sendall(struct.pack(">i", 90 * MB) + METADATA[:8])
    chunk = os.urandom(MB)
    for _ in range(10):
        connection.sendall(chunk)
    wait_until(lambda: memory.growth_bytes > 5 * MB, "the broker to have read it")
    connection.shutdown(socket.SHUT_WR)
    assert closed(connection)
    assert memory.growth_bytes < 40 * MB, memory.growth_bytes
