"""Request and response headers, and the messages that belong to an API key.

Requests carry API key, version and correlation id; from header version 1 on, a client id, always with an int16 length;
and in header version 2 a tag buffer. Flexible messages have header version 2, others 1. The exception is
ControlledShutdown version 0, which has no client id (header version 0).

Responses carry the correlation id and, if flexible, a tag buffer. The exception is ApiVersions, which never has one:
the client reads it before it knows the versions of the broker.

A null client id is read as an empty one. A request whose header cannot be decoded is not answered, but its connection
closed.
"""

from functools import cache
from importlib import import_module
from struct import Struct as Layout
from struct import error as StructError  # noqa: N812 - a class, named as the classes are
from typing import Any, NamedTuple

from odradek.protocol.codec import decoder, encoder
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.fields import Message
from odradek.protocol.primitives import Buffer, Part, skip_tagged_fields

CONTROLLED_SHUTDOWN = 7
API_VERSIONS = 18

API_NAMES: dict[int, str] = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    4: "LeaderAndIsr",
    5: "StopReplica",
    6: "UpdateMetadata",
    7: "ControlledShutdown",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    34: "AlterReplicaLogDirs",
    35: "DescribeLogDirs",
    36: "SaslAuthenticate",
    37: "CreatePartitions",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    42: "DeleteGroups",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    47: "OffsetDelete",
    48: "DescribeClientQuotas",
    49: "AlterClientQuotas",
    50: "DescribeUserScramCredentials",
    51: "AlterUserScramCredentials",
    56: "AlterPartition",
    57: "UpdateFeatures",
    58: "Envelope",
    60: "DescribeCluster",
    61: "DescribeProducers",
    65: "DescribeTransactions",
    66: "ListTransactions",
    67: "AllocateProducerIds",
    68: "ConsumerGroupHeartbeat",
    69: "ConsumerGroupDescribe",
}
"""API key → name of the API, with which the names of its classes begin."""
OTHER_API_NAMES: dict[int, str] = {
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    55: "DescribeQuorum",
    59: "FetchSnapshot",
    62: "BrokerRegistration",
    63: "BrokerHeartbeat",
    64: "UnregisterBroker",
    70: "ControllerRegistration",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    73: "AssignReplicasToDirs",
    74: "ListClientMetricsResources",
    75: "DescribeTopicPartitions",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    82: "UpdateRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
}
"""Names of the other APIs of Kafka 3.9, of which there are no classes: most belong to KRaft mode."""


class RequestHeader(NamedTuple):
    """Header of a request; `client_id` is empty if it has none."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str


class ApiMessages(NamedTuple):
    """Classes of one API's messages."""

    name: str
    request: type[Message]
    response: type[Message]


def module_name(api_name: str) -> str:
    """Return the name of the module with an API's messages: FetchThing → fetch_thing."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in api_name).lstrip("_")


def api_name(api_key: int) -> str:
    """Return Kafka's name of an API for a message to people; "API 99" where Kafka 3.9 has no name."""
    return API_NAMES.get(api_key) or OTHER_API_NAMES.get(api_key, f"API {api_key}")


@cache
def message_classes(api_key: int) -> ApiMessages:
    """Return request and response of an API, whose module is imported at the first call. Raises KeyError."""
    name = API_NAMES[api_key]
    module: Any = import_module(f"odradek.protocol.messages.{module_name(name)}")
    return ApiMessages(name, getattr(module, f"{name}Request"), getattr(module, f"{name}Response"))


@cache
def flexible_from(api_key: int) -> int:
    """Return the first flexible version of an API, which is the same for requests and responses. Raises KeyError."""
    return message_classes(api_key).request.FLEXIBLE_FROM


def request_header_version(api_key: int, version: int) -> int:
    """Return 0, 1 or 2. A version above the known ones counts as flexible if the API has a flexible version.

    Raises KeyError for an unknown API key.
    """
    if api_key == CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if version >= flexible_from(api_key) else 1


def response_header_version(api_key: int, version: int) -> int:
    """Return 0 or 1. Raises KeyError for an unknown API key."""
    return 1 if version >= flexible_from(api_key) and api_key != API_VERSIONS else 0


_FIXED = Layout(">hhi")
_FIXED_AND_LENGTH = Layout(">hhih")
_unpack_fixed_and_length = _FIXED_AND_LENGTH.unpack_from
_CORRELATION = Layout(">i")
_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Return the header of a request (a frame without its size) and the position of its body.

    Raises MalformedMessage, also for an unknown API key. The version is not checked: ApiVersions must be answered for
    any, and which versions are served depends on the table of handlers.
    """
    try:
        api_key, version, correlation_id, length = _unpack_fixed_and_length(frame, 0)
        flexible = version >= flexible_from(api_key)
        if version == 0 and api_key == CONTROLLED_SHUTDOWN:
            return RequestHeader(api_key, version, correlation_id, ""), _FIXED.size
        at = _FIXED_AND_LENGTH.size
        client_id = ""
        if length > 0:
            client_id = str(frame[at : at + length], "utf-8", "text-like-java")
            at += length
        if flexible:
            tags = frame[at]
            at += 1
            if tags:
                at = skip_tagged_fields(frame, at, tags)
    except (StructError, KeyError, IndexError) as cause:
        raise MalformedMessage(f"a request header in {len(frame)} bytes: {cause!r}") from cause
    if at > len(frame) or version < 0:
        raise MalformedMessage(f"a request header of {at} bytes in {len(frame)}, version {version}")
    return RequestHeader(api_key, version, correlation_id, client_id), at


def encode_request(header: RequestHeader, message: Message) -> list[Part]:
    """Return the pieces of a request, header and body, without its size."""
    key, version, correlation_id, client_id = header
    assert key == message.API_KEY, f"{message.__class__.__name__} does not have api key {key}"
    header_version = request_header_version(key, version)
    parts: list[Part] = []
    if header_version == 0:
        parts.append(_FIXED.pack(key, version, correlation_id))
    else:
        name = client_id.encode()
        parts.append(_FIXED_AND_LENGTH.pack(key, version, correlation_id, len(name)))
        parts.append(name + b"\0" if header_version == 2 else name)
    encoder(message.__class__, version)(message, parts)
    return parts


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """Return header and message of a request. Raises MalformedMessage, also for an unknown version and for bytes left
    over."""
    header, at = decode_request_header(frame)
    request = message_classes(header.api_key).request
    return header, _decode_body(request, header.api_version, frame, at)


def encode_response(correlation_id: int, version: int, message: Message) -> list[Part]:
    """Return the pieces of a response without its size."""
    packed = _CORRELATION.pack(correlation_id)
    parts: list[Part] = [packed + b"\0" if response_header_version(message.API_KEY, version) else packed]
    encoder(message.__class__, version)(message, parts)
    return parts


def decode_correlation_id(frame: Buffer) -> int:
    """Return the correlation id of a response (a frame without its size). Raises MalformedMessage."""
    if len(frame) < _CORRELATION.size:
        raise MalformedMessage(f"a response of {len(frame)} bytes")
    correlation_id: int = _CORRELATION.unpack_from(frame, 0)[0]
    return correlation_id


def decode_response(api_key: int, version: int, frame: Buffer) -> tuple[int, Message]:
    """Return correlation id and message of a response. Raises MalformedMessage, also for bytes left over.

    A broker that does not know the version of an ApiVersions request answers in version 0 with UNSUPPORTED_VERSION.
    """
    correlation_id = decode_correlation_id(frame)
    if api_key == API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
        version = 0
    at = _CORRELATION.size
    if response_header_version(api_key, version):
        if len(frame) == at:
            raise MalformedMessage("a response header without its tag buffer")
        at = skip_tagged_fields(frame, at + 1, frame[at])
    return correlation_id, _decode_body(message_classes(api_key).response, version, frame, at)


def _decode_body(message: type[Message], version: int, frame: Buffer, at: int) -> Message:
    lowest, highest = message.VERSIONS
    if not lowest <= version <= highest:
        raise MalformedMessage(f"{message.__name__} has no version {version}")
    value, end = decoder(message, version)(frame, at)
    if end != len(frame):
        raise MalformedMessage(f"{message.__name__} version {version}: {len(frame) - end} bytes are left over")
    return value
