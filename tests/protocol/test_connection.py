from typing import Any

import pytest

from odradek.protocol.codec import encode
from odradek.protocol.connection import (
    LARGE_PIECE_BYTES,
    LAST_CORRELATION_ID,
    ClientConnection,
    FrameReader,
    Received,
    framed,
)
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.headers import decode_request, encode_response
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def answer(
    correlation_id: int, version: int, message: MetadataResponse | HeartbeatResponse | ApiVersionsResponse
) -> bytes:
    return b"".join(framed(encode_response(correlation_id, version, message)))


def received(reader: ClientConnection | FrameReader, data: bytes | memoryview) -> list[Any]:
    """What is made of `data` when as much comes at once as there is room for."""
    found: list[Any] = []
    while data:
        size = min(len(data), len(room := reader.room()))
        room[:size], data = data[:size], data[size:]
        found += reader.filled(size)
    return found


def test_a_request_is_framed_and_numbered() -> None:
    connection = ClientConnection("me")
    first, parts = connection.request(MetadataRequest(topics=None), 12)
    data = b"".join(parts)
    assert first == 0
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    header, message = decode_request(data[4:])
    assert header == (3, 12, 0, "me")
    assert message == MetadataRequest(topics=None)
    second, _ = connection.request(HeartbeatRequest(), 4)
    assert second == 1
    assert [sent.api_key for sent in connection.in_flight] == [3, 12]


def test_large_pieces_of_a_request_are_not_copied() -> None:
    connection = ClientConnection("me")
    large = [bytearray([number]) * LARGE_PIECE_BYTES for number in (1, 2)]
    small = bytearray(LARGE_PIECE_BYTES - 1)
    data = [PartitionProduceData(index=number, records=one) for number, one in enumerate([small, *large])]
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=data)])
    _, parts = connection.request(request, 9)
    assert [part.obj for part in parts if isinstance(part, memoryview)] == large
    assert all(len(part) < LARGE_PIECE_BYTES * 2 for part in parts) and len(parts) == 5
    assert decode_request(b"".join(parts)[4:])[1] == request


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
def test_responses_in_pieces_of_any_size(chunk: int) -> None:
    connection = ClientConnection("me")
    connection.request(MetadataRequest(), 12)
    connection.request(HeartbeatRequest(), 4)
    data = answer(0, 12, MetadataResponse(controller_id=2)) + answer(1, 4, HeartbeatResponse(error_code=27))
    found = []
    for at in range(0, len(data), chunk):
        found += received(connection, memoryview(data)[at : at + chunk])
    assert found == [Received(0, MetadataResponse(controller_id=2)), Received(1, HeartbeatResponse(error_code=27))]
    assert not connection.in_flight


def test_a_frame_that_has_begun_is_received_where_it_stays() -> None:
    reader = FrameReader(1000, read_bytes=16)
    frame = bytes(range(200))
    assert received(reader, bytes.fromhex("00000001 aa") + framed([frame])[0] + frame[:3]) == [b"\xaa"]
    room = reader.room()
    assert len(room) == 197, "no byte of the next frame comes with it"
    room[:] = frame[3:]
    (found,) = reader.filled(197)
    assert found == frame
    assert isinstance(found, memoryview) and found.obj is room.obj
    assert len(reader.room()) == 16


def test_a_produce_without_acks_waits_for_no_answer() -> None:
    connection = ClientConnection("me")
    connection.request(ProduceRequest(acks=0), 9, answered=False)
    connection.request(HeartbeatRequest(), 0)
    assert received(connection, answer(1, 0, HeartbeatResponse())) == [Received(1, HeartbeatResponse())]


def test_a_refused_api_versions_request() -> None:
    connection = ClientConnection("me")
    connection.request(ApiVersionsRequest(), 4)
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert received(connection, answer(0, 0, refusal)) == [Received(0, refusal)]


def test_answers_that_nobody_asked_for() -> None:
    with pytest.raises(MalformedMessage, match="to no request"):
        received(ClientConnection("me"), answer(0, 0, HeartbeatResponse()))
    connection = ClientConnection("me")
    connection.request(HeartbeatRequest(), 0)
    with pytest.raises(MalformedMessage, match=r"correlation id 5 where 0 \(Heartbeat\)"):
        received(connection, answer(5, 0, HeartbeatResponse()))


@pytest.mark.parametrize("size", ["ffffffff", "00000065", "48545450"])
def test_sizes_that_make_no_sense(size: str) -> None:
    connection = ClientConnection("me", max_response_bytes=100)
    with pytest.raises(MalformedMessage, match="the limit is 100"):
        received(connection, bytes.fromhex(size))


def test_a_response_too_short_for_its_header() -> None:
    connection = ClientConnection("me")
    connection.request(HeartbeatRequest(), 0)
    with pytest.raises(MalformedMessage):
        received(connection, bytes.fromhex("00000002 0000"))


def test_requests_in_flight_are_limited() -> None:
    connection = ClientConnection("me", max_in_flight=2)
    for _ in range(2):
        assert connection.may_send()
        connection.request(HeartbeatRequest(), 0)
    assert not connection.may_send()
    with pytest.raises(AssertionError, match="2 requests are in flight"):
        connection.request(HeartbeatRequest(), 0)


def test_correlation_ids_start_over() -> None:
    connection = ClientConnection("me")
    connection._next_correlation_id = LAST_CORRELATION_ID
    assert connection.request(HeartbeatRequest(), 0)[0] == LAST_CORRELATION_ID
    assert connection.request(HeartbeatRequest(), 0)[0] == 0


def test_frames() -> None:
    reader = FrameReader(10)
    assert received(reader, b"") == []
    assert received(reader, bytes.fromhex("00000000 00000002 aabb 00000001")) == [b"", b"\xaa\xbb"]
    assert received(reader, b"c") == [b"c"]
    assert framed([encode(HeartbeatResponse(), 0), b"xyz"])[0] == bytes.fromhex("00000005")
