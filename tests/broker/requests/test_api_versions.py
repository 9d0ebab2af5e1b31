"""ApiVersions, and the way of a request from its bytes to its handler."""

import struct
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from odradek.broker.network.boundary import UnsupportedRequestError
from odradek.broker.network.outcomes import Client, Reply, RequestContext, Silent
from odradek.broker.requests import api_versions
from odradek.broker.requests.dispatch import Dispatcher, RoutedOutcome
from odradek.broker.requests.registry import by_key, served_versions
from odradek.broker.security.principal import ANONYMOUS, KafkaPrincipal
from odradek.protocol.codec import ELEMENTS_MAX
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.fields import Message
from odradek.protocol.headers import RequestHeader, decode_response, encode_request, message_classes
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest
from odradek.protocol.primitives import write_unsigned_varint
from odradek.testing.virtual_clock import ManualClock

SERVED = {0: (0, 11), 3: (0, 12), 18: (0, 4)}


def ask(version: int, name: str = "librdkafka", software_version: str = "2.16.0") -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    context = RequestContext(version, "", "host:1", "PLAINTEXT")
    broker: Any = SimpleNamespace(served_versions=SERVED)
    outcome = api_versions.handle(broker, request, context)
    assert isinstance(outcome, Reply)
    assert isinstance(outcome.response, ApiVersionsResponse)
    return outcome.response


@pytest.mark.parametrize("version", range(5))
def test_it_advertises_what_is_served(version: int) -> None:
    response = ask(version)
    assert response.error_code == ErrorCode.NONE
    assert {api.api_key: (api.min_version, api.max_version) for api in response.api_keys} == SERVED
    assert (response.finalized_features_epoch, response.finalized_features, response.supported_features) == (-1, [], [])


@pytest.mark.parametrize("text", ["", "-", "a-", ".a", "a b", "é", "a\n", "apache_kafka"])
def test_odd_names_of_software_are_refused_where_there_are_names(text: str) -> None:
    for response in (ask(3, name=text), ask(4, software_version=text)):
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert response.api_keys == []
    assert ask(2, name=text).error_code == ErrorCode.NONE


@pytest.mark.parametrize("text", ["a", "A-1.b", "apache-kafka-java", "3.9.0", "unknown"])
def test_names_of_software(text: str) -> None:
    assert ask(3, name=text, software_version=text).error_code == ErrorCode.NONE


def module_of(request: type[Message], versions: tuple[int, int], handle: Any) -> ModuleType:
    module = ModuleType(request.__name__)
    module.REQUEST, module.VERSIONS, module.handle = request, versions, handle  # type: ignore[attr-defined]
    return module


class Recorder:
    """Modules that answer anything with the default response, and what they were given."""

    def __init__(self) -> None:
        self.requests: list[tuple[Message, RequestContext]] = []
        classes = (ApiVersionsRequest, MetadataRequest, ControlledShutdownRequest, OffsetDeleteRequest)
        self.modules = by_key([module_of(request, request.VERSIONS, self._handle) for request in classes])
        self.dispatcher = Dispatcher(None, self.modules, ManualClock())
        self.client = Client("host:1", "PLAINTEXT")
        self.outcome: Any = None

    def _handle(self, broker: object, request: Message, context: RequestContext) -> Any:
        self.requests.append((request, context))
        return self.outcome or Reply(message_classes(request.API_KEY).response())

    def dispatch(self, data: bytes) -> Any:
        return self.dispatcher.dispatch(memoryview(bytearray(data)), self.client)


def every_version() -> list[tuple[type[Message], int]]:
    return [
        (request, version)
        for request in (ApiVersionsRequest, MetadataRequest, ControlledShutdownRequest, OffsetDeleteRequest)
        for version in range(request.VERSIONS[0], request.VERSIONS[1] + 1)
    ]


@pytest.mark.parametrize(("request_class", "version"), every_version())
def test_headers_of_every_kind(request_class: type[Message], version: int) -> None:
    recorder = Recorder()
    key = request_class.API_KEY
    header = RequestHeader(key, version, 77, "" if (key, version) == (7, 0) else "client")
    frame = b"".join(recorder.dispatch(b"".join(encode_request(header, request_class()))))
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert decode_response(key, version, frame[4:]) == (77, message_classes(key).response())
    ((request, context),) = recorder.requests
    assert request == request_class()
    assert context == RequestContext(version, header.client_id, "host:1", "PLAINTEXT")


@pytest.mark.parametrize(("elements", "served"), [(ELEMENTS_MAX, True), (ELEMENTS_MAX + 1, False)])
def test_a_request_of_millions_of_empty_names_is_refused(elements: int, served: bool) -> None:
    """A hundred megabytes of them were decoded at once: they took all of the machine's memory, and the loop's time."""
    recorder = Recorder()
    header = b"".join(encode_request(RequestHeader(3, 9, 1, "client"), MetadataRequest(topics=[])))[:-5]
    frame = header + write_unsigned_varint(elements + 1) + b"\2t\0" * elements + bytes(4)
    if served:
        recorder.dispatch(frame)
        ((request, _),) = recorder.requests
        assert isinstance(request, MetadataRequest) and request.topics is not None and len(request.topics) == elements
    else:
        with pytest.raises(MalformedMessage, match=f"more than {ELEMENTS_MAX} elements"):
            recorder.dispatch(frame)
        assert recorder.requests == []


@pytest.mark.parametrize("client_id", [b"\xff\xff", b"\xff\xfe", b"\0\0"])
def test_a_null_client_id_is_an_empty_one(client_id: bytes) -> None:
    recorder = Recorder()
    recorder.dispatch(struct.pack(">hhi", 18, 0, 1) + client_id)
    recorder.dispatch(struct.pack(">hhi", 18, 3, 1) + client_id + b"\0" + b"\x02a\x02b\0")
    assert [context.client_id for _, context in recorder.requests] == ["", ""]


def test_a_client_id_that_is_not_utf_8_gets_replacement_characters() -> None:
    """As in Kafka: a program that is called something in Latin-1 was not served."""
    recorder = Recorder()
    recorder.dispatch(struct.pack(">hhih", 18, 0, 1, 4) + b"caf\xe9")
    assert recorder.requests[0][1].client_id == "caf\ufffd"


def test_contexts_are_kept_for_one_client_id() -> None:
    recorder = Recorder()
    for client_id in (b"a", b"a", b"b", b"a"):
        recorder.dispatch(struct.pack(">hhih", 18, 0, 1, 1) + client_id)
        recorder.dispatch(struct.pack(">hhih", 18, 1, 1, 1) + client_id)
    contexts = [context for _, context in recorder.requests]
    assert [context.client_id for context in contexts] == list("aaaabbaa")
    assert contexts[0] is contexts[2]
    assert contexts[0].api_version != contexts[1].api_version


def test_a_request_speaks_for_the_principal_of_its_connection() -> None:
    recorder = Recorder()
    ask = struct.pack(">hhi", 18, 0, 1) + b"\0\0"
    recorder.dispatch(ask)
    recorder.client.authenticated(KafkaPrincipal("User", "alice"))
    recorder.dispatch(ask)
    assert [context.principal for _, context in recorder.requests] == [ANONYMOUS, KafkaPrincipal("User", "alice")]


@pytest.mark.parametrize("tags", [b"\x02\x05\x03abc\x7f\x00", b"\xc8\x01" + b"\x05\x03abc" * 200])
def test_tagged_fields_of_the_header_are_skipped(tags: bytes) -> None:
    """Of more than 127 some were taken for the body: their number was read twice."""
    recorder = Recorder()
    recorder.dispatch(struct.pack(">hhih", 18, 3, 1, -1) + tags + b"\x02a\x02b\0")
    assert recorder.requests[0][0] == ApiVersionsRequest(client_software_name="a", client_software_version="b")
    with pytest.raises(MalformedMessage):
        recorder.dispatch(struct.pack(">hhih", 18, 3, 1, -1) + b"\x01\x05\x7fabc")


@pytest.mark.parametrize("version", [5, 6, 100, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_without_reading_it(version: int) -> None:
    recorder = Recorder()
    answer = b"".join(recorder.dispatch(struct.pack(">hhih", 18, version, 9, 30000)))
    assert answer == struct.pack(">iihihhh", 16, 9, 35, 1, 18, 0, 4)
    assert not recorder.requests


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (1, 4), (3, 13), (3, -1), (47, 1), (7, 4)])
def test_what_is_not_served(key: int, version: int) -> None:
    with pytest.raises(UnsupportedRequestError, match="not served"):
        Recorder().dispatch(struct.pack(">hhih", key, version, 9, -1) + bytes(20))


@pytest.mark.parametrize(
    ("key", "version", "said"),
    [
        (71, 0, "GetTelemetrySubscriptions version 0 is not served"),
        (3, 13, "Metadata version 13 is not served, only "),
        (999, 0, "API 999 version 0 is not served"),
    ],
)
def test_what_is_not_served_has_kafkas_name(key: int, version: int, said: str) -> None:
    with pytest.raises(UnsupportedRequestError, match=f"^{said}"):
        Recorder().dispatch(struct.pack(">hhih", key, version, 9, -1) + bytes(20))


@pytest.mark.parametrize("length", range(10))
def test_frames_too_short_for_a_header(length: int) -> None:
    with pytest.raises(MalformedMessage):
        Recorder().dispatch(struct.pack(">hhih", 3, 0, 9, -1)[:length])


def test_the_plain_answer_is_bytes_and_all_others_are_deferred() -> None:
    recorder = Recorder()
    data = struct.pack(">hhih", 18, 0, 1, -1)
    response = ApiVersionsResponse()
    assert isinstance(recorder.dispatch(data), list)
    for outcome in (Reply(response, throttle_ms=1), Reply(response, close=True), Silent(close=True)):
        recorder.outcome = outcome
        deferred = recorder.dispatch(data)
        assert isinstance(deferred, RoutedOutcome)
        assert deferred.outcome is outcome
        assert b"".join(deferred.answer(response)) == struct.pack(">iihi", 10, 1, 0, 0)
    recorder.outcome = Silent()
    assert recorder.dispatch(data) is None


def test_the_table() -> None:
    modules = Recorder().modules
    assert served_versions(modules) == {3: (0, 12), 7: (0, 3), 18: (0, 4), 47: (0, 0)}
    with pytest.raises(AssertionError):
        by_key([*modules.values(), modules[3]])
