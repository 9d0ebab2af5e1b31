"""A socket server on a virtual network, with handlers that a test holds in its hands, and raw clients."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext, Silent, Wait
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.quotas.rates import RateWindows
from odradek.broker.requests import api_versions
from odradek.broker.requests.dispatch import Dispatcher
from odradek.broker.requests.registry import by_key, served_versions
from odradek.broker.settings.network_settings import ConnectionSettings
from odradek.protocol.fields import Message
from odradek.protocol.headers import RequestHeader, decode_response, encode_request
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork
from odradek.world.clock import Clock
from odradek.world.network import Endpoint, Network
from odradek.world.tasks import Tasks

Handler = Callable[[Any, Any, RequestContext], Outcome]


def module_of(request: type[Message], versions: tuple[int, int], handle: Handler) -> ModuleType:
    """What stands in the registry for one API."""
    module = ModuleType(request.__name__)
    module.REQUEST, module.VERSIONS, module.handle = request, versions, handle  # type: ignore[attr-defined]
    return module


class Held:
    """A waiting request: finishes when the test says with what."""

    def __init__(self, respond: Callable[..., None], number: int) -> None:
        self.respond = respond
        self.number = number
        self.throttle_ms: int | None = None
        self.expired = False

    def try_complete(self) -> bool:
        if self.throttle_ms is None:
            return False
        self.respond(HeartbeatResponse(error_code=self.number), self.throttle_ms)
        return True

    def expire(self) -> None:
        self.expired = True
        self.respond(HeartbeatResponse(error_code=self.number + 1000))


class Handlers:
    """Heartbeat does what its group id says, and notes the generation ids it has handled; Produce too."""

    def __init__(self) -> None:
        self.handled: list[int] = []
        self.held: dict[int, Held] = {}
        self.fetched: Any = b""
        self.contexts: list[RequestContext] = []

    def heartbeat(self, broker: object, request: HeartbeatRequest, context: RequestContext) -> Outcome:
        number = request.generation_id
        self.handled.append(number)
        self.contexts.append(context)
        word, _, value = request.group_id.partition(" ")
        response = HeartbeatResponse(error_code=number)
        match word:
            case "wait" | "overtaken":
                return Wait(
                    lambda respond: self._hold(respond, number), [number], float(value or 60_000), word != "wait"
                )
            case "throttle":
                return Reply(response, throttle_ms=int(value))
            case "close":
                return Reply(response, close=True)
            case "silent":
                return Silent()
            case "silent-close":
                return Silent(close=True)
            case "later":
                return self._later(response, float(value))
            case "bug":
                raise RuntimeError("a bug in a handler")
            case "bug-later":
                return self._fail_later()
            case _:
                return Reply(response)

    def _hold(self, respond: Callable[..., None], number: int) -> Held:
        held = self.held[number] = Held(respond, number)
        return held

    async def _later(self, response: HeartbeatResponse, delay_ms: float) -> Reply:
        await asyncio.sleep(delay_ms / 1000)
        return Reply(response)

    async def _fail_later(self) -> Reply:
        await asyncio.sleep(0.01)
        raise RuntimeError("a bug in a coroutine")

    def produce(self, broker: object, request: ProduceRequest, context: RequestContext) -> Outcome:
        self.handled.append(sum(len(p.records) for topic in request.topic_data for p in topic.partition_data))
        return Reply(ProduceResponse())

    def fetch(self, broker: object, request: FetchRequest, context: RequestContext) -> Outcome:
        partition = PartitionData(partition_index=0, records=self.fetched)
        return Reply(FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])]))

    def modules(self) -> dict[int, ModuleType]:
        return by_key(
            [
                api_versions,
                module_of(HeartbeatRequest, (0, 4), self.heartbeat),
                module_of(ProduceRequest, (3, 9), self.produce),
                module_of(FetchRequest, (4, 11), self.fetch),
            ]
        )


class RawClient:
    """Bytes to the server, frames from it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.received = bytearray()
        self.ended = False
        self._changed = asyncio.Event()
        self._next = 0
        self.read()

    def read(self) -> None:
        self.endpoint.on_readable(self._on_readable)

    def stop_reading(self) -> None:
        self.endpoint.on_readable(None)

    def _on_readable(self) -> None:
        buffer = memoryview(bytearray(1 << 16))
        try:
            size = self.endpoint.receive_into(buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        self.received += buffer[:size]
        if not size:
            self.ended = True
            self.endpoint.on_readable(None)
        self._changed.set()

    async def send(self, data: bytes) -> None:
        """All of it, waiting for room."""
        room = asyncio.Event()
        while data:
            try:
                data = data[self.endpoint.send(data) :]
            except BlockingIOError:
                room.clear()
                self.endpoint.on_writable(room.set)
                await room.wait()
                self.endpoint.on_writable(None)

    def encode(self, message: Message, version: int) -> bytes:
        """A framed request with the next correlation id."""
        body = b"".join(encode_request(RequestHeader(message.API_KEY, version, self._next, "me"), message))
        self._next += 1
        return struct.pack(">i", len(body)) + body

    def heartbeat(self, text: str, number: int = 0, version: int = 4) -> bytes:
        return self.encode(HeartbeatRequest(group_id=text, generation_id=number), version)

    async def frame(self) -> bytes:
        """The next answer without its size."""
        while len(self.received) < 4 or len(self.received) < 4 + int.from_bytes(self.received[:4]):
            assert not self.ended, "the server closed the connection"
            await self._change()
        size = int.from_bytes(self.received[:4])
        frame = bytes(self.received[4 : 4 + size])
        del self.received[: 4 + size]
        return frame

    async def number(self) -> int:
        """The error code of the next answer, which must be one to a Heartbeat of version 4."""
        _, message = decode_response(12, 4, await self.frame())
        assert isinstance(message, HeartbeatResponse)
        return message.error_code

    async def end(self) -> bytes:
        """Wait until the server has closed; what it sent before."""
        while not self.ended:
            await self._change()
        return bytes(self.received)

    async def _change(self) -> None:
        self._changed.clear()
        await asyncio.wait_for(self._changed.wait(), 3600)


class Harness:
    """One server, its handlers, and ways to reach it."""

    def __init__(self, clock: Clock, limits: ConnectionSettings, network: Network | None = None) -> None:
        self.clock = clock
        self.network = VirtualNetwork(clock, seed=1)
        self.tasks = Tasks(clock, print)
        self.timers = TimingWheel(clock)
        self.purgatory = Purgatory(self.timers)
        self.handlers = Handlers()
        modules = self.handlers.modules()
        dispatcher = Dispatcher(SimpleNamespace(served_versions=served_versions(modules)), modules, clock)
        self.server = SocketServer(
            network or self.network.host("broker"), clock, self.tasks, self.timers, self.purgatory, limits,
            RateWindows(11, 1000.0),
        )  # fmt: skip
        self.port = self.server.listen("PLAINTEXT", "127.0.0.1", 0)
        self.server.serve(dispatcher.dispatch)

    async def connect(self, host: str = "client", port: int | None = None) -> RawClient:
        return RawClient(await self.network.host(host).connect("broker", port or self.port))

    def finish(self, number: int, throttle_ms: int = 0) -> None:
        """Let the waiting Heartbeat of that number be answered."""
        self.handlers.held[number].throttle_ms = throttle_ms
        self.purgatory.touch(number)

    async def settle(self, delay_ms: float = 20) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(delay_ms / 1000)


Scenario = Callable[[Harness], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture
def play() -> Play:
    """Runs a scenario on a new harness and a virtual loop; keywords are limits."""

    def run(scenario: Scenario, **limits: Any) -> None:
        async def main(clock: VirtualClock) -> None:
            harness = Harness(clock, ConnectionSettings(**limits))
            await scenario(harness)
            harness.server.close()
            await harness.settle()
            assert harness.server.connections == 0 and not harness.server._by_address

        run_virtual(main)

    return run


@pytest.fixture
def make_harness() -> type[Harness]:
    """For tests that bring their own loop and network."""
    return Harness
