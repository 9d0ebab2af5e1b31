"""Header versions of every API, and what a broker does with headers that make no sense."""

import io

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from odradek.protocol.codec import encode
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.headers import (
    API_NAMES,
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    flexible_from,
    message_classes,
    module_name,
    request_header_version,
    response_header_version,
)
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.messages.metadata import MetadataRequest

EVERY_VERSION = [(key, version) for key in API_NAMES for version in range(message_classes(key).request.VERSIONS[1] + 1)]


def test_keys_are_those_of_a_zookeeper_mode_broker() -> None:
    assert set(API_NAMES) == {*range(52), 56, 57, 58, 60, 61, 65, 66, 67, 68, 69}
    assert module_name("LeaderAndIsr") == "leader_and_isr"


def test_request_headers_against_kio() -> None:
    for key, version in EVERY_VERSION:
        schema = load_request_schema(key, version).__header_schema__
        assert schema.__version__ == request_header_version(key, version)
        request = message_classes(key).request()
        client_id = "" if schema.__version__ == 0 else "client-é"
        header = RequestHeader(key, version, 0x01020304, client_id)
        data = b"".join(encode_request(header, request))
        theirs, size = entity_reader(schema)(data, 0)
        assert (theirs.request_api_key, theirs.request_api_version, theirs.correlation_id) == header[:3]
        assert getattr(theirs, "client_id", "") == client_id
        assert decode_request_header(data) == (header, size)
        assert decode_request(memoryview(data)) == (header, request)
        assert data[size:] == encode(request, version)


def test_response_headers_against_kio() -> None:
    for key, version in EVERY_VERSION:
        schema = load_response_schema(key, version).__header_schema__
        assert schema.__version__ == response_header_version(key, version)
        response = message_classes(key).response()
        data = b"".join(encode_response(77, version, response))
        out = io.BytesIO()
        entity_writer(schema)(out, schema(correlation_id=i32(77)))
        assert data == out.getvalue() + encode(response, version)
        assert decode_response(key, version, data) == (77, response)


def test_api_versions_responses_never_have_tags_in_their_header() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    data = b"".join(encode_response(1, 3, response))
    assert data.hex(" ", 1) == "00 00 00 01 00 00 02 00 12 00 00 00 04 00 00 00 00 00 00"


def test_a_broker_that_does_not_know_the_version_of_api_versions_answers_in_version_0() -> None:
    refusal = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)]
    )
    data = b"".join(encode_response(9, 0, refusal))
    assert decode_response(18, 4, data) == (9, refusal)
    bare = bytes.fromhex("00000009 0023 00000000")
    assert decode_response(18, 4, bare) == (9, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))


def test_api_versions_is_recognised_in_any_version() -> None:
    header, at = decode_request_header(bytes.fromhex("0012 0063 00000005 0001 61 00 ff"))
    assert (header, at) == (RequestHeader(18, 99, 5, "a"), 12)


@pytest.mark.parametrize("version", [0, 9])
def test_a_null_client_id_is_the_empty_one(version: int) -> None:
    tags = b"\0" if version == 9 else b""
    data = bytes.fromhex(f"0003 000{version} 00000001 ffff") + tags + encode(MetadataRequest(), version)
    header, request = decode_request(data)
    assert header.client_id == ""
    assert request == MetadataRequest()


def test_controlled_shutdown_0_has_no_client_id() -> None:
    data = bytes.fromhex("0007 0000 00000003 00000005")
    expected = RequestHeader(7, 0, 3, ""), ControlledShutdownRequest(broker_id=5)
    assert decode_request(data) == expected
    assert b"".join(encode_request(*expected)) == data


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    data = bytes.fromhex("0012 0003 00000001 0002 6869") + bytes.fromhex("02 05 03 616263 8101 00") + b"\2x\2y\0"
    header, request = decode_request(data)
    assert header.client_id == "hi"
    not_utf_8, _ = decode_request(data.replace(b"hi", b"h\xe9"))
    assert not_utf_8.client_id == "h\ufffd"
    assert request == ApiVersionsRequest(client_software_name="x", client_software_version="y")
    response = bytes.fromhex("00000001 01 07 02 0000") + encode(HeartbeatResponse(), 4)
    assert decode_response(12, 4, response) == (1, HeartbeatResponse())


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "0003",
        "0003 0000 00000001",
        "0003 0000 00000001 00",
        "0003 0000 00000001 0005 6162",
        "0003 0009 00000001 0001 61",
        "0003 0009 00000001 0001 61 01",
        "0003 0009 00000001 0001 61 01 00 10 00",
        "0034 0000 00000001 0000",
        "ffff 0000 00000001 0000",
        "0003 ffff 00000001 0000",
    ],
)
def test_headers_that_make_no_sense(frame: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_request_header(memoryview(bytes.fromhex(frame)))


def test_a_version_we_do_not_have_and_bytes_left_over() -> None:
    with pytest.raises(MalformedMessage, match="no version 13"):
        decode_request(bytes.fromhex("0003 000d 00000001 0000 00"))
    with pytest.raises(MalformedMessage, match="1 bytes are left over"):
        decode_request(bytes.fromhex("0003 0000 00000001 0000 00000000 00"))
    with pytest.raises(MalformedMessage):
        decode_response(12, 4, bytes.fromhex("000001"))
    with pytest.raises(MalformedMessage):
        decode_response(12, 4, bytes.fromhex("00000001"))


def test_headers_leave_nothing_behind_for_versions_that_nobody_has() -> None:
    """A peer can send any version: what is kept for each of them would be its to fill."""
    decode_request_header(b"\0\x12\0\0\0\0\0\1\0\0\0")
    before = flexible_from.cache_info().currsize
    for version in range(1000):
        decode_request_header(version.to_bytes(2, "big").join([b"\0\x12", b"\0\0\0\1\0\0\0"]))
    assert flexible_from.cache_info().currsize == before
    with pytest.raises(MalformedMessage):
        decode_request_header(bytes.fromhex("0007 ffff 00000001 0000"))
