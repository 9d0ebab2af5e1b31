"""Requests of every API, plausible or mutated, against a whole broker: answered, or the connection is closed.

The boundary of the network layer keeps a bug of ours from reaching other connections, and logs it: one such line, or
an exception that reached the loop, is a failure here. After each run the broker still serves, and its controller lives.
"""

import asyncio
import logging
import random
import struct
from collections.abc import Callable, Sequence

from odradek.broker.cluster.peer import Peer
from odradek.broker.requests.registry import SERVED
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import Message
from odradek.protocol.headers import RequestHeader, decode_response, encode_request, message_classes
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.plausible_requests import GROUP, TOPIC, PlausibleRequests
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.network import Endpoint

PATIENCE_MS = 20_000
ANSWER_SECONDS = 1.5
"""Virtual ones: a request may wait longer, which is an answer too."""
REQUESTS = 5
CHANGES = (0, 1, 1, 2, 3)
"""How many a request may have; the one without must be answered with what decodes."""
EXTREMES = [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff\x0f"]

Mutation = Callable[[bytearray, random.Random], None]


def flip(frame: bytearray, rng: random.Random) -> None:
    frame[rng.randrange(8, len(frame))] ^= 1 << rng.randrange(8)


def cut(frame: bytearray, rng: random.Random) -> None:
    del frame[rng.randrange(8, len(frame) + 1) :]


def insert(frame: bytearray, rng: random.Random) -> None:
    at = rng.randrange(8, len(frame) + 1)
    frame[at:at] = rng.randbytes(rng.choice([1, 2, 40]))


def remove(frame: bytearray, rng: random.Random) -> None:
    at = rng.randrange(8, len(frame) + 1)
    del frame[at : at + rng.choice([1, 2, 4, 8])]


def extreme(frame: bytearray, rng: random.Random) -> None:
    at, value = rng.randrange(8, len(frame) + 1), rng.choice(EXTREMES)
    frame[at : at + len(value)] = value


def whole_header(frame: bytearray, rng: random.Random) -> None:
    """Flip a bit of the API, the version, the correlation id or the length of the client id."""
    frame[rng.randrange(0, min(10, len(frame)))] ^= 1 << rng.randrange(8)


MUTATIONS: Sequence[Mutation] = (flip, cut, insert, remove, extreme, whole_header)


class Stage:
    """A broker with a topic, a record, a group and its member, and somebody who asks it things."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock, requests: PlausibleRequests) -> None:
        self.cluster, self.clock, self.requests = cluster, clock, requests
        self.peer = Peer(cluster.network.host("good"), clock, "broker-0", cluster.port, "good")

    async def ask(self, message: Message, version: int) -> Message:
        answer = await self.peer.request(message, version, PATIENCE_MS)
        self.requests.learn(answer)
        return answer

    async def prepare(self) -> None:
        await asyncio.sleep(1)
        compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
        topics = [
            CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1),
            CreatableTopic(name="compacted", num_partitions=1, replication_factor=1, configs=compacted),
        ]
        await self.ask(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
        data = [PartitionProduceData(index=0, records=make_batch([b"first"]))]
        await self.ask(ProduceRequest(acks=1, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]), 9)
        await self.ask(FindCoordinatorRequest(key=GROUP), 1)
        await asyncio.sleep(1)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"m")]
        join = JoinGroupRequest(
            group_id=GROUP, session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols
        )
        await self.ask(join, 3)

    async def send(self, frame: bytes) -> bytes | None:
        """Send a frame on a connection of its own; return the first answer without its size.

        None when the connection closes or stays silent.
        """
        endpoint = await self.cluster.network.host("odd").connect("broker-0", self.cluster.port)
        try:
            endpoint.send(struct.pack(">i", len(frame)) + frame)
            return await self._receive(endpoint)
        finally:
            endpoint.close()

    async def _receive(self, endpoint: Endpoint) -> bytes | None:
        received = bytearray()
        done: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

        def on_readable() -> None:
            chunk = bytearray(1 << 16)
            try:
                count = endpoint.receive_into(memoryview(chunk))
            except OSError:
                count = 0
            received.extend(chunk[:count])
            size = int.from_bytes(received[:4]) if len(received) >= 4 else 1 << 31
            if not done.done() and (count == 0 or len(received) - 4 >= size):
                done.set_result(bytes(received[4 : 4 + size]) if count else None)

        endpoint.on_readable(on_readable)
        try:
            return await asyncio.wait_for(done, ANSWER_SECONDS)
        except TimeoutError:
            return None

    async def check_it_serves(self, key: int) -> None:
        """Check that it serves after requests of API `key`; a forged one of the controller may replace all topics."""
        answer = await self.ask(MetadataRequest(topics=None), 9)
        if key != UpdateMetadataRequest.API_KEY:
            assert any(topic.name == "compacted" for topic in answer.topics) or not answer.topics, answer  # type: ignore[attr-defined]


async def _play(clock: VirtualClock, key: int, seed: int) -> None:
    rng = random.Random(seed)
    mutations = [rng.choices(MUTATIONS, k=rng.choice(CHANGES)) for _ in range(REQUESTS)]
    requests = PlausibleRequests(seed)
    lowest, highest = SERVED[key]
    async with EmbeddedCluster(clock, overrides={"controlled.shutdown.enable": "false"}) as cluster:
        stage = Stage(cluster, clock, requests)
        await stage.prepare()
        for changes in mutations:
            version = rng.randint(lowest, highest)
            request = requests.message(message_classes(key).request, version)
            header = RequestHeader(key, version, 7, rng.choice(["", "client"]))
            frame = bytearray(b"".join(bytes(memoryview(part)) for part in encode_request(header, request)))
            for change in changes:
                if len(frame) > 8:
                    change(frame, rng)
            answer = await stage.send(bytes(frame))
            if answer is not None and not changes:
                correlation_id, message = decode_response(key, version, answer)
                assert correlation_id == 7
                requests.learn(message)
        await stage.check_it_serves(key)
        stage.peer.close()


def mutate(key: int, seed: int) -> list[str]:
    """Send one broker some requests of an API, changed as the seed says; what went wrong."""
    failures: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "error of ours" in record.getMessage():
                failures.append(self.format(record))

    boundary, listener = logging.getLogger("odradek.broker.network.boundary"), Listener()
    boundary.addHandler(listener)
    try:
        run_virtual(lambda clock: _play(clock, key, seed))
    except MalformedMessage as bad:
        failures.append(f"an answer that does not decode: {bad}")
    finally:
        boundary.removeHandler(listener)
    return failures
