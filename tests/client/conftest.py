"""A broker of a few lines on the virtual network: it answers what a test tells it to."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from odradek.client.loop_thread import LoopThread
from odradek.protocol.codec import encode
from odradek.protocol.connection import FrameReader, framed
from odradek.protocol.fields import Message
from odradek.protocol.headers import (
    API_NAMES,
    decode_request,
    decode_request_header,
    encode_response,
    message_classes,
)
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.world.tcp import TcpNetwork
from tests.client.group_of_one import make_coordinator

Handler = Callable[[Any], Message | None]
PORT = 9092
UNSUPPORTED_VERSION = 35


class ScriptedBroker:
    """`handlers[RequestType]` gives the answer; None answers nothing. What came in is in `seen`."""

    def __init__(
        self, network: Any, name: str = "broker", topics: Mapping[str, int] = MappingProxyType({"t": 1})
    ) -> None:
        """Take the partitions of each topic."""
        self.network = network
        self.name = name
        self.port = PORT
        self.topics = dict(topics)
        self.leader_epoch = 1
        self.seen: list[tuple[Message, int]] = []
        self.highest = {key: message_classes(key).request.VERSIONS[1] for key in API_NAMES}
        self.handlers: dict[type[Message], Handler] = {
            ApiVersionsRequest: lambda request: self.versions(),
            MetadataRequest: lambda request: self.metadata(),
        }
        self.connections: list[Any] = []
        self.listener = network.host(name).listen("", PORT, self.accept)

    def versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=key, min_version=0, max_version=top) for key, top in self.highest.items()]
        )

    def metadata(self) -> MetadataResponse:
        topics = [
            MetadataResponseTopic(
                name=name,
                topic_id=name.encode().ljust(16, b"."),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=number,
                        leader_id=0,
                        leader_epoch=self.leader_epoch,
                        replica_nodes=[0],
                        isr_nodes=[0],
                    )
                    for number in range(count)
                ],
            )
            for name, count in self.topics.items()
        ]
        brokers = [MetadataResponseBroker(node_id=0, host=self.name, port=self.port)]
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=0, topics=topics)

    def accept(self, endpoint: Any) -> None:
        frames = FrameReader(1 << 24)
        self.connections.append(endpoint)

        def readable() -> None:
            try:
                count = endpoint.receive_into(frames.room())
            except BlockingIOError:
                return
            except OSError:
                count = 0
            if not count:
                endpoint.close()
                return
            for frame in frames.filled(count):
                self.answer(endpoint, bytes(frame))

        endpoint.on_readable(readable)

    def answer(self, endpoint: Any, frame: bytes) -> None:
        header, _ = decode_request_header(frame)
        if header.api_version > self.highest[header.api_key]:
            parts: list[Any] = [header.correlation_id.to_bytes(4, "big")]
            parts.append(encode(ApiVersionsResponse(error_code=UNSUPPORTED_VERSION), 0))
        else:
            _, request = decode_request(frame)
            self.seen.append((request, header.api_version))
            response = self.handlers[type(request)](request)
            if response is None:
                return
            parts = encode_response(header.correlation_id, header.api_version, response)
        if not getattr(endpoint, "closed", False):
            endpoint.send(b"".join(framed(parts)))

    def requests(self, kind: type[Message]) -> list[Any]:
        return [request for request, _ in self.seen if isinstance(request, kind)]


@pytest.fixture
def scripted_broker() -> type[ScriptedBroker]:
    return ScriptedBroker


class Loopback:
    """Stands where a scripted broker expects the virtual network."""

    def __init__(self, network: TcpNetwork) -> None:
        self._network = network

    def host(self, name: str) -> "Loopback":
        return self

    def listen(self, host: str, port: int, accepted: Callable[[Any], object]) -> Any:
        return self._network.listen("127.0.0.1", 0, accepted)


@pytest.fixture
def broker_on_loopback() -> Iterator[ScriptedBroker]:
    """On real sockets and a thread of its own, for clients that have one too."""
    thread = LoopThread("scripted broker")
    broker = thread.call(lambda: ScriptedBroker(Loopback(TcpNetwork(thread.loop)), "127.0.0.1"))
    broker.port = broker.listener.port
    yield broker
    thread.call(broker.listener.close)
    thread.stop()


@pytest.fixture
def broker(broker_on_loopback: Any) -> Any:
    """A scripted broker that coordinates a group of one member."""
    make_coordinator(broker_on_loopback)
    return broker_on_loopback
