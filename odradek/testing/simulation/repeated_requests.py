"""Requests between brokers and controller that come once more, and late: as after a retry whose first copy had lain in
some buffer, or from a process that stood still while others went on.

What a broker asks of another is kept for a while and may be delivered again on a connection of its own. Left out is
what would do harm in Kafka, too, and cannot happen in the order in which one controller sends: UpdateMetadata that is
not complete, of the controller epoch that is still the present one.
StopReplica names no topic id, and WriteTxnMarkers no transaction (KIP-890 gives each an epoch of its own), so they are
never repeated on a connection of their own; `request_moments.py` has a StopReplica come by the one that was given up.
"""

import asyncio
import random
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from odradek.protocol.codec import decoder
from odradek.protocol.fields import Message
from odradek.protocol.headers import request_header_version
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.stop_replica import StopReplicaRequest
from odradek.protocol.messages.update_metadata import TYPE_FULL, UpdateMetadataRequest
from odradek.protocol.primitives import read_unsigned_varint, skip_tagged_fields
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.history import History
from odradek.testing.virtual_network import VirtualNetwork
from odradek.testing.virtual_pipe import Pipe
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH

HEADER = struct.Struct(">hhih")
SIZE = struct.Struct(">i")
REPEATED = {message.API_KEY: message for message in (AlterPartitionRequest, LeaderAndIsrRequest, UpdateMetadataRequest)}
OF_CONTROLLERS = (LeaderAndIsrRequest.API_KEY, StopReplicaRequest.API_KEY, UpdateMetadataRequest.API_KEY)
KEPT = 300
STALL_S = (0.3, 4.0)
"""Shorter than anybody waits for an answer. `request_moments.py` has what controllers have given up arrive after what
they have sent again, by which Kafka makes replicas of a topic that was deleted meanwhile, and deletes others."""
LINGER_S = 5.0
"""How long the connection of a repeated request stays open."""


class Sent(NamedTuple):
    """A request that one broker sent to another."""

    source: str
    target: str
    api_key: int
    frame: bytes
    """Request as it was sent, with its size in front."""
    controller_epoch: bytes
    """What ZooKeeper said then."""


class RepeatedRequests:
    """Keeps what brokers send one another, and repeats it."""

    def __init__(self, cluster: EmbeddedCluster, history: History, source: random.Random) -> None:
        self._cluster, self._history, self._random = cluster, history, source
        self._sent: deque[Sent] = deque(maxlen=KEPT)
        self._hosts = {broker.host for broker in cluster.brokers}
        self.listeners: list[Callable[[int, str, str], object]] = []
        """Called with each request that one broker sends another: its kind, who sends it, and who is to answer."""
        self._ways: dict[int, dict[tuple[str, str], Pipe]] = {}
        """Connections on which one broker has last sent another a request of that kind, by kind."""
        assert isinstance(cluster.network, VirtualNetwork), "only a virtual network can be listened to"
        cluster.network.tap = self._listen

    def _listen(self, way: Pipe) -> Callable[[bytes], object] | None:
        if way.source in self._hosts and way.target in self._hosts:
            return partial(self._take, way, bytearray())
        return None

    def _take(self, way: Pipe, stream: bytearray, data: bytes) -> None:
        stream += data
        while len(stream) >= SIZE.size:
            end = SIZE.size + SIZE.unpack_from(stream)[0]
            if len(stream) < end:
                return
            api_key = HEADER.unpack_from(stream, SIZE.size)[0]
            self._ways.setdefault(api_key, {})[way.source, way.target] = way
            if api_key in REPEATED:
                self._sent.append(Sent(way.source, way.target, api_key, bytes(stream[:end]), self._controller_epoch()))
            del stream[:end]
            for listener in tuple(self.listeners):
                listener(api_key, way.source, way.target)

    def _controller_epoch(self) -> bytes:
        node = self._cluster.zookeeper.tree.get(CONTROLLER_EPOCH_PATH)
        return b"" if node is None else node.data

    @property
    def kinds(self) -> list[int]:
        """Kinds of requests that there were."""
        return sorted(self._ways)

    async def repeat(self) -> None:
        """Deliver some of them once more."""
        for _ in range(self._random.randint(1, 8)):
            candidates = [sent for sent in self._sent if self._may_come_again(sent)]
            if candidates:  # of each kind as often, however many there are of it
                kind = self._random.choice(sorted({sent.api_key for sent in candidates}))
                await self._deliver(self._random.choice([sent for sent in candidates if sent.api_key == kind]))
            await asyncio.sleep(self._random.choice((0.0, 0.5)) * self._random.random())

    def way(self, api_key: int, source: str, target: str) -> Pipe | None:
        """Return the connection on which one broker has sent another such a request last."""
        return self._ways.get(api_key, {}).get((source, target))

    async def stall(self) -> None:
        """Hold back, for a while, what comes by the connection of one kind of requests between two brokers."""
        if not self._ways:
            return
        kind = self._random.choice(self.kinds)
        hosts = self._random.choice(sorted(self._ways[kind]))
        way = self._ways[kind][hosts]
        self._history.note(f"stalled: requests {kind} of {hosts[0]} to {hosts[1]}")
        way.stall()
        await asyncio.sleep(self._random.uniform(*STALL_S))
        self._history.note(f"go on: requests {kind} of {hosts[0]} to {hosts[1]}")
        way.go_on()

    def _may_come_again(self, sent: Sent) -> bool:
        if sent.api_key == AlterPartitionRequest.API_KEY or sent.controller_epoch != self._controller_epoch():
            return True
        request = _decode(sent.frame, REPEATED[sent.api_key])
        return not isinstance(request, UpdateMetadataRequest) or request.type == TYPE_FULL

    async def _deliver(self, sent: Sent) -> None:
        what = f"{REPEATED[sent.api_key].__name__} of {sent.source} to {sent.target}"
        try:
            endpoint = await self._cluster.network.host(sent.source).connect(sent.target, self._cluster.port)
            endpoint.send(sent.frame)  # it is closed when its host has been killed meanwhile
        except OSError as error:
            self._history.note(f"{what} cannot be repeated: {error}")
            return
        self._history.note(f"once more: {what}")
        self._cluster.clock.call_later(LINGER_S * 1000, endpoint.close)


def _decode(frame: bytes, message: type[Message]) -> Any:
    """Decode the body of a request."""
    api_key, version, _, client_id_bytes = HEADER.unpack_from(frame, SIZE.size)
    at = SIZE.size + HEADER.size + max(client_id_bytes, 0)
    if request_header_version(api_key, version) == 2:
        count, at = read_unsigned_varint(memoryview(frame), at)
        at = skip_tagged_fields(memoryview(frame), at, count)
    request, _ = decoder(message, version)(memoryview(frame), at)
    return request
