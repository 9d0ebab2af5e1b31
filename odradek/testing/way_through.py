"""Ways of docs/architecture.md, traced: the files that a request passes, a decision, and a record in a client.

    python -m odradek.testing.way_through            # print them
    python -m odradek.testing.way_through --write    # write them into docs/architecture.md

A cluster inside this process is made warm (connections, codecs, sessions); then every line is noted that runs while
one Produce with acks=all is replicated and answered, while one Fetch is answered, and from the end of a broker's
session until another broker leads; and in our clients from `send` to the acknowledgement, and from `getmany` to the
record. Time, network, disk and ZooKeeper are virtual, so that each run notes the same; a double is shown as what it
stands for.

The measure: a file of broker/, controller/ or client/ is a *hop* when at least `HOP_LINES` of its lines run, for that
much one must read there to understand the way. Files that answer in passing are shown, and not counted; nor are the
wire (protocol/), the znodes (zk_schema/) and the outside (odradek/world/), on which each way stands.
"""

import ast
import asyncio
import gc
import os
import struct
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import nullcontext
from random import Random
from types import FrameType
from typing import Any

from odradek.aio import Consumer, Producer
from odradek.broker.cluster.peer import Peer
from odradek.protocol.fields import Message
from odradek.protocol.headers import RequestHeader, decode_response, encode_request
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.testing import usual_requests
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.network import Endpoint

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
PAGE = os.path.join(ROOT, "docs", "architecture.md")
COUNTED = ("broker/", "controller/", "client/")
"""Folders of which a file may be a hop."""
BESIDE = ("broker/metrics/", "client/sensors.py", "client/metrics.py")
"""What is noted of a way, and never decides where it goes: nobody reads it to understand the way."""
WATCHING = ("broker/monitoring/",)
"""What timers and the garbage collector run at times of their own, while a way happens to be traced: theirs, or those
of a broker on another thread of the process. What they call is not noted either."""
OUTSIDE = ("protocol/", "zk_schema/", "odradek/world/")
CLUSTER = ("broker/", "controller/", "odradek/journal/", *OUTSIDE)
CLIENT = ("client/",)
"""Files that are noted: of a cluster's ways, and of a client's, whose brokers run on the same thread."""
HOP_LINES = 8
FUNCTIONS_SHOWN = 6
DOUBLES = {
    "virtual_network.py": "odradek/world/tcp.py",
    "simulated_files.py": "odradek/world/os_files.py",
    "memory_store.py": "zk_schema/kazoo_store/session.py",
    "memory_calls.py": "zk_schema/kazoo_store/store.py",
}
"""Parts of a real broker in whose place doubles stand, by the double's file name."""
GOALS = {"produce": 18, "fetch": 14, "death": 16, "send": 11, "poll": 10}
"""The most hops that each may have."""

TOPIC = "t"
PRODUCE_VERSION, FETCH_VERSION = 9, 12
ALL = -1
SETTLED_SECONDS = 3.0
TICK_SECONDS = 0.000_05


class Stop:
    """The part of one file that runs on a way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.functions: dict[str, None] = {}
        """Names of functions, in the order in which they were first reached."""
        self.lines: set[int] = set()

    @property
    def is_hop(self) -> bool:
        counted = self.file.startswith(COUNTED) and not self.file.startswith(BESIDE)
        return counted and len(self.lines) >= HOP_LINES


Way = dict[str, Stop]
"""Stops by file, in the order in which they were first reached."""


class Trace:
    """Notes the lines that run inside its `with`, on this thread; no collection ends there what others have left.

    `hands_over`: a call after which others do the rest. What its task does from then on is not on the way.
    """

    def __init__(
        self, hands_over: Callable[[FrameType], bool] = lambda frame: False, noted: tuple[str, ...] = CLUSTER
    ) -> None:
        self.way: Way = {}
        self._noted = noted
        self._files: dict[str, str] = {}
        self._hands_over = hands_over
        self._done: set[asyncio.Task[Any] | None] = set()

    def __enter__(self) -> None:
        gc.disable()
        sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        gc.enable()

    def _call(self, frame: FrameType, event: str, _: object) -> Any:
        file = self._file(frame)
        if (
            not file.startswith(self._noted)
            or file.startswith(WATCHING)
            or (frame.f_back is not None and self._file(frame.f_back).startswith(WATCHING))
            or (self._done and asyncio.current_task() in self._done)
        ):
            return None
        stop = self.way.setdefault(file, Stop(file))
        stop.functions[frame.f_code.co_qualname.partition(".<locals>")[0]] = None
        note = stop.lines.add

        def line(frame: FrameType, event: str, _: object) -> Any:
            if event == "line":
                note(frame.f_lineno)
            elif event == "return" and self._hands_over(frame):
                self._done.add(asyncio.current_task())
            return line

        return line

    def _file(self, frame: FrameType) -> str:
        path = frame.f_code.co_filename
        if path not in self._files:
            file = os.path.relpath(os.path.realpath(path), ROOT)
            self._files[path] = DOUBLES.get(os.path.basename(file), file)
        return self._files[path]


class Client:
    """A raw connection: what it does itself is done before and after the trace."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._received = bytearray()
        self._answered = asyncio.Event()
        endpoint.on_readable(self._take)

    def _take(self) -> None:
        buffer = memoryview(bytearray(1 << 16))
        size = self._endpoint.receive_into(buffer)
        if size == 0:
            self._endpoint.close()  # whoever waits fails at decoding what there is
        self._received += buffer[:size]
        self._answered.set()

    async def ask(self, message: Message, version: int, trace: Trace | None = None) -> Message:
        """Return the answer, which must come in one piece; `trace` notes the way from the first byte to the last."""
        body = b"".join(encode_request(RequestHeader(message.API_KEY, version, 1, "way"), message))
        frame = struct.pack(">i", len(body)) + body
        self._received = bytearray()  # a former answer may still show parts of the old one
        self._answered.clear()
        with trace or nullcontext():
            self._endpoint.send(frame)
            await self._answered.wait()
        _, response = decode_response(message.API_KEY, version, memoryview(self._received)[4:])
        return response

    def close(self) -> None:
        """Go away without waiting for an answer."""
        self._endpoint.close()


def produce_request() -> ProduceRequest:
    return usual_requests.produce_request(TOPIC, make_batch(), acks=ALL, timeout_ms=30_000)


def fetch_request() -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[asked])])


async def connect(cluster: EmbeddedCluster, broker: EmbeddedBroker) -> Client:
    return Client(await cluster.network.host("client").connect(broker.host, cluster.port))


async def create_topic(cluster: EmbeddedCluster, replicas: list[int], partitions: int = 1) -> None:
    """Partitions on these brokers, led by the first."""
    await asyncio.sleep(SETTLED_SECONDS)
    (controller,) = (broker for broker in cluster.brokers if broker.server.services.controller.is_active)
    peer = Peer(cluster.network.host("client"), cluster.clock, controller.host, cluster.port, "way")
    await peer.request(usual_requests.create_topic_request(TOPIC, *[replicas] * partitions), 7, 30_000)
    peer.close()
    await asyncio.sleep(SETTLED_SECONDS)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(TICK_SECONDS)


def accepted(response: Message) -> bool:
    assert isinstance(response, ProduceResponse), response
    return response.responses[0].partition_responses[0].error_code == 0


async def produce(clock: VirtualClock) -> Way:
    """Play a Produce with acks=all, at replication 2: leader and follower."""
    async with EmbeddedCluster(clock, brokers=2) as cluster:
        await create_topic(cluster, [1, 0])
        client = await connect(cluster, cluster.brokers[1])
        for _ in range(3):
            assert accepted(await client.ask(produce_request(), PRODUCE_VERSION))
        trace = Trace()
        assert accepted(await client.ask(produce_request(), PRODUCE_VERSION, trace))
        return trace.way


async def fetch(clock: VirtualClock) -> Way:
    """Play a Fetch that finds records."""
    async with EmbeddedCluster(clock) as cluster:
        await create_topic(cluster, [0])
        client = await connect(cluster, cluster.brokers[0])
        assert accepted(await client.ask(produce_request(), PRODUCE_VERSION))
        await client.ask(fetch_request(), FETCH_VERSION)
        trace = Trace()
        response = await client.ask(fetch_request(), FETCH_VERSION, trace)
        assert isinstance(response, FetchResponse) and response.responses[0].partitions[0].records
        return trace.way


def tells_the_leader(frame: FrameType) -> bool:
    """Tell whether the controller has put a LeaderAndIsr into a broker's queue."""
    return frame.f_code.co_name == "send" and isinstance(frame.f_locals.get("message"), LeaderAndIsrRequest)


async def death(clock: VirtualClock) -> Way:
    """Trace a broker's end: from the end of its session until another broker leads the first partition it led."""
    async with EmbeddedCluster(clock, brokers=3) as cluster:
        await asyncio.sleep(SETTLED_SECONDS)
        (controller,) = (b for b in cluster.brokers if b.server.services.controller.is_active)
        leader, follower = (broker for broker in cluster.brokers if broker is not controller)
        await create_topic(cluster, [leader.broker_id, follower.broker_id], partitions=2)
        client = await connect(cluster, follower)
        session_id = leader.store.session_id
        leader.kill()
        await asyncio.sleep(SETTLED_SECONDS)
        partition = follower.server.services.replicas.partitions[(TOPIC, 0)]
        trace = Trace(tells_the_leader)
        with trace:
            cluster.zookeeper.expire_session(session_id)
            await until(lambda: partition.is_leader)
        assert accepted(await client.ask(produce_request(), PRODUCE_VERSION))
        return trace.way


def client_settings(cluster: EmbeddedCluster, clock: VirtualClock) -> dict[str, Any]:
    """Return the settings that make a client one of this cluster's."""
    return {
        "bootstrap_servers": f"{cluster.brokers[0].host}:{cluster.port}",
        "network": cluster.network.host("client"),
        "clock": clock,
        "random": Random(0),
    }


async def send(clock: VirtualClock) -> Way:
    """Trace a record of a warm producer, from `send` to its delivery report."""
    async with EmbeddedCluster(clock) as cluster:
        await create_topic(cluster, [0])
        async with Producer(**client_settings(cluster, clock)) as producer:
            for _ in range(3):
                await (await producer.send(TOPIC, b"warm", key=b"key"))
            trace = Trace(noted=CLIENT)
            with trace:
                await (await producer.send(TOPIC, b"value", key=b"key"))
        return trace.way


async def poll(clock: VirtualClock) -> Way:
    """Trace a record of a warm consumer without a group, from `getmany`, which finds nothing yet, to the record."""
    async with EmbeddedCluster(clock) as cluster:
        await create_topic(cluster, [0])
        client = await connect(cluster, cluster.brokers[0])
        async with Consumer(TOPIC, **client_settings(cluster, clock)) as consumer:
            while not await consumer.getmany(timeout_ms=SETTLED_SECONDS * 1000):
                assert accepted(await client.ask(produce_request(), PRODUCE_VERSION))
            reading = asyncio.ensure_future(consumer.getmany(timeout_ms=SETTLED_SECONDS * 1000))
            trace = Trace(noted=CLIENT)
            with trace:
                await asyncio.sleep(TICK_SECONDS)
                assert accepted(await client.ask(produce_request(), PRODUCE_VERSION))
                assert await reading
        return trace.way


WAYS: dict[str, Callable[[VirtualClock], Awaitable[Way]]] = {
    "produce": produce,
    "fetch": fetch,
    "death": death,
    "send": send,
    "poll": poll,
}


def trace_way(name: str) -> Way:
    """Trace one of the ways, by its name in `WAYS`: at its second run, when all caches of the process are warm."""

    async def main(clock: VirtualClock) -> Way:
        return await WAYS[name](clock)

    run_virtual(main)
    return run_virtual(main)


def hops(way: Way) -> list[Stop]:
    return [stop for stop in way.values() if stop.is_hop]


def lines_of(file: str) -> int:
    with open(os.path.join(ROOT, file), encoding="utf-8") as text:
        return sum(1 for _ in text)


def purpose_of(file: str) -> str:
    """Return the first sentence of a module's docstring, on one line."""
    with open(os.path.join(ROOT, file), encoding="utf-8") as text:
        docstring = ast.get_docstring(ast.parse(text.read())) or ""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".:")


def shortened(functions: Iterable[str]) -> str:
    """Return the first FUNCTIONS_SHOWN names, a class named once for those of its methods that follow one another."""
    words, owner = [], ""
    shown = [function for function in functions if "__" not in function]
    for function in shown[:FUNCTIONS_SHOWN]:
        of, _, name = function.rpartition(".")
        words.append(f"`{name if of == owner and of else function}`")
        owner = of
    return ", ".join(words) + (", …" if len(shown) > FUNCTIONS_SHOWN else "")


def render(name: str) -> str:
    """Render a way as docs/architecture.md shows it: a table of its hops, then the files that answer in passing."""
    way = trace_way(name)
    rows = [
        f"| {number} | [{stop.file}](../{stop.file}) | {purpose_of(stop.file)} | {shortened(stop.functions)} |"
        for number, stop in enumerate(hops(way), start=1)
    ]
    passing = sorted(stop.file for stop in way.values() if not stop.is_hop)
    return "\n".join(
        [
            "| | file | what it is | what runs first, in order |",
            "|---|---|---|---|",
            *rows,
            "",
            f"In passing: {', '.join(f'`{file}`' for file in passing)}.",
        ]
    )


def with_ways(page: str, ways: Mapping[str, str]) -> str:
    """Return the page with each way between its two marks."""
    for name, text in ways.items():
        begin, end = (f"<!-- {name}: {mark} -->" for mark in ("begin", "end"))
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(end)
        page = f"{head}{begin}\n{text}\n{end}{tail}"
    return page


def write() -> None:
    """Bring docs/architecture.md up to date."""
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(with_ways(page, {name: render(name) for name in WAYS}))


def report() -> None:
    """Print each way: its hops with the functions that run, then the files that only answer in passing."""
    for name in WAYS:
        way = trace_way(name)
        print(f"{name}: {len(hops(way))} hops (goal {GOALS[name]}), {len(way)} files in all")
        for stop in way.values():
            mark = "*" if stop.is_hop else " "
            print(f"  {mark} {stop.file} ({len(stop.lines)} of {lines_of(stop.file)}): {', '.join(stop.functions)}")


if __name__ == "__main__":
    write() if sys.argv[1:] == ["--write"] else report()
