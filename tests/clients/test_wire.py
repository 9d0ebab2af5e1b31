"""Frames, headers, ApiVersions and Metadata, as no client here asks for them."""

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.broker.requests.registry import SERVED
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import API_NAMES, message_classes
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.testing import Cluster
from odradek.testing.foreign.raw import RawConnection, place_of
from odradek.testing.patience import wait_until

pytestmark = pytest.mark.cluster

API_VERSIONS, METADATA = 18, 3
NOT_ASKED = -(2**31)
SOFTWARE = {"client_software_name": "raw", "client_software_version": "1.0"}


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[RawConnection]:
    with RawConnection(cluster.bootstrap.split(",")[0]) as one:
        yield one


def _closed(connection: RawConnection) -> bool:
    with pytest.raises(EOFError):
        connection.read_frame()
    return True


@pytest.mark.parametrize("version", range(5))
def test_api_versions(version: int, connection: RawConnection) -> None:
    """What is told is what is served, from version 0 on; no feature is finalized."""
    answer = connection.ask(ApiVersionsRequest(**SOFTWARE), version)
    assert answer.error_code == 0
    assert {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys} == SERVED
    assert all(one.min_version == 0 for one in answer.api_keys)
    assert answer.finalized_features_epoch == -1 and not answer.finalized_features


@pytest.mark.parametrize("version", [5, 99])
def test_api_versions_of_the_future(version: int, connection: RawConnection) -> None:
    """KIP-511: the body is not read, the answer has version 0 and names the one API; the connection goes on."""
    header = struct.pack(">hhih", API_VERSIONS, version, 7, 3) + b"raw\0"
    connection.send(header + b"\xff\xfe\xfd not to be read")
    frame = connection.read_frame()
    assert frame[:4] == struct.pack(">i", 7)
    answer = decode(ApiVersionsResponse, 0, frame[4:])
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys] == [(18, 0, 4)]
    assert connection.ask(ApiVersionsRequest(**SOFTWARE), 3).error_code == 0


@pytest.mark.parametrize("name", ["", "-raw", "raw client", "räw"])
def test_a_software_name_that_is_none(name: str, connection: RawConnection) -> None:
    answer = connection.ask(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [1, 9])
def test_a_null_client_id(version: int, connection: RawConnection) -> None:
    """Also in a flexible header, where rskafka sends it."""
    header = struct.pack(">hhih", METADATA, version, 11, -1) + (b"\0" if version == 9 else b"")
    connection.send(header + encode(MetadataRequest(topics=[]), version))
    frame = connection.read_frame()
    answer = decode(MetadataResponse, version, frame[5 if version == 9 else 4 :])
    assert len(answer.brokers) == 3


def test_unknown_tagged_fields_are_passed_over(connection: RawConnection) -> None:
    """In the header and in the body."""
    tags = b"\x02\x63\x03abc\x64\x00"
    body = encode(MetadataRequest(topics=[]), 9)
    assert body.endswith(b"\0")
    connection.send(struct.pack(">hhih", METADATA, 9, 12, 3) + b"raw" + tags + body[:-1] + tags)
    assert len(decode(MetadataResponse, 9, connection.read_frame()[5:]).brokers) == 3


@pytest.mark.parametrize(("key", "version"), [(1234, 0), (METADATA, 13), (METADATA, -1), (52, 0), (68, 0)])
def test_what_nobody_serves_closes_the_connection(key: int, version: int, connection: RawConnection) -> None:
    connection.send(struct.pack(">hhih", key, version, 1, 3) + b"raw" + bytes(40))
    assert _closed(connection)


@pytest.mark.parametrize(
    "body", [b"", b"\0\0\0\1\xff\xff\0", struct.pack(">i", 2**30)], ids=["nothing", "null", "huge"]
)
def test_a_body_that_does_not_decode_closes_the_connection(body: bytes, connection: RawConnection) -> None:
    connection.send(struct.pack(">hhih", METADATA, 4, 1, 3) + b"raw" + body)
    assert _closed(connection)


@pytest.mark.parametrize("size", [-1, 2**31 - 1])
def test_an_impossible_size_closes_the_connection(size: int, connection: RawConnection) -> None:
    connection._socket.sendall(struct.pack(">i", size) + b"GET / HTTP/1.1")
    assert _closed(connection)


def test_answers_come_in_the_order_of_the_requests(connection: RawConnection) -> None:
    frames = b""
    for number in range(50):
        body = struct.pack(">hhih", METADATA if number % 2 else API_VERSIONS, 0, number, 3) + b"raw"
        body += encode(MetadataRequest(topics=[]), 0) if number % 2 else b""
        frames += len(body).to_bytes(4, "big") + body
    for at in range(0, len(frames), 37):
        connection._socket.sendall(frames[at : at + 37])
    assert [int.from_bytes(connection.read_frame()[:4], "big") for _ in range(50)] == list(range(50))


REQUESTS = [
    (key, version)
    for key, (lowest, highest) in SERVED.items()
    for version in range(lowest, highest + 1)
    if API_NAMES[key] not in ("Produce", "ControlledShutdown", "Envelope")
]


@pytest.mark.parametrize(("key", "version"), REQUESTS, ids=[f"{API_NAMES[key]}-{v}" for key, v in REQUESTS])
def test_an_empty_request_has_an_answer_of_its_version(key: int, version: int, connection: RawConnection) -> None:
    """Decoded to the last byte. One that only a controller may send is refused, for its epochs are none."""
    request: Any = message_classes(key).request()
    answer = connection.ask(request, version)
    if API_NAMES[key] in ("LeaderAndIsr", "StopReplica", "UpdateMetadata"):
        assert answer.error_code in (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH), answer
    if API_NAMES[key] in ("JoinGroup", "Heartbeat"):
        assert answer.error_code == ErrorCode.INVALID_GROUP_ID, answer


def _metadata(connection: RawConnection, version: int, topics: Any, **more: Any) -> Any:
    return connection.ask(MetadataRequest(topics=topics, **more), version)


@pytest.mark.parametrize("version", range(13))
def test_metadata_of_one_topic(
    version: int, connection: RawConnection, new_topic: Callable[..., str], cluster: Cluster
) -> None:
    topic = new_topic(partitions=2)
    asked = [MetadataRequestTopic(name=topic)]
    answer = _metadata(connection, version, asked, allow_auto_topic_creation=False)
    assert {f"{one.host}:{one.port}" for one in answer.brokers} == set(cluster.bootstrap.split(","))
    [told] = answer.topics
    assert (told.error_code, told.name, len(told.partitions)) == (0, topic, 2)
    assert told.topic_authorized_operations == NOT_ASKED and answer.cluster_authorized_operations == NOT_ASKED
    for partition in told.partitions:
        assert partition.error_code == 0 and partition.leader_id in partition.isr_nodes
        assert sorted(partition.replica_nodes) == [0, 1, 2] and partition.leader_epoch == (0 if version >= 7 else -1)
    if version >= 1:
        assert answer.controller_id in (0, 1, 2)
    if version >= 2:
        assert answer.cluster_id is not None and len(answer.cluster_id) == 22
    assert (told.topic_id != bytes(16)) == (version >= 10)


@pytest.mark.parametrize("version", range(13))
def test_metadata_of_all_and_of_none(version: int, connection: RawConnection, new_topic: Callable[..., str]) -> None:
    """Empty means all in version 0 and none from 1 on, where null means all."""
    topic = new_topic()
    everything = _metadata(connection, version, [] if version == 0 else None)
    assert topic in [one.name for one in everything.topics]
    if version > 0:
        assert _metadata(connection, version, []).topics == []


def test_metadata_by_id(connection: RawConnection, cluster: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    topic_id = place_of(cluster.bootstrap, topic).topic_id
    by_id = [MetadataRequestTopic(topic_id=topic_id, name=None)]
    [told] = _metadata(connection, 12, by_id).topics
    assert (told.error_code, told.name, told.topic_id) == (0, topic, topic_id)
    for version in (10, 11):
        [told] = _metadata(connection, version, by_id).topics
        assert told.error_code == ErrorCode.INVALID_REQUEST
    unknown = [MetadataRequestTopic(topic_id=b"\x01" * 16, name=None)]
    [told] = _metadata(connection, 12, unknown).topics
    assert (told.error_code, told.name, told.partitions) == (ErrorCode.UNKNOWN_TOPIC_ID, None, [])


@pytest.mark.parametrize("version", [4, 8, 12])
def test_metadata_of_an_unknown_topic(version: int, connection: RawConnection) -> None:
    asked = [MetadataRequestTopic(name="nobody-has-made-this")]
    [told] = _metadata(connection, version, asked, allow_auto_topic_creation=False).topics
    assert (told.error_code, told.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert told.name == "nobody-has-made-this"


@pytest.mark.parametrize("version", [0, 1, 4, 12])
def test_metadata_creates_a_topic(version: int, connection: RawConnection) -> None:
    """Until it has leaders, the answer is an error that clients try again; a bad name never gets one."""
    name = f"wire-auto-created-{version}"

    def made() -> bool:
        [told] = _metadata(connection, version, [MetadataRequestTopic(name=name)]).topics
        assert told.error_code in (0, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert (told.error_code == 0) == bool(told.partitions)
        return bool(told.error_code == 0)

    wait_until(made, "the topic")
    [told] = _metadata(connection, version, [MetadataRequestTopic(name="no topic name")]).topics
    assert told.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
