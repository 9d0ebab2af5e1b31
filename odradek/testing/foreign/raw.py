"""Requests that no client sends: any message, in any version, over a blocking socket."""

import itertools
import socket
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from odradek.protocol.connection import framed
from odradek.protocol.fields import Message
from odradek.protocol.headers import RequestHeader, decode_response, encode_request
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.testing.patience import PATIENCE_SECONDS


class RawConnection:
    """A connection to one broker, one request at a time."""

    def __init__(self, address: str, source: str = "") -> None:
        """`source`: the address to come from, one of this machine's."""
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE_SECONDS, (source, 0) if source else None)
        self._numbers = itertools.count(1)

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Harmless twice."""
        self._socket.close()

    def ask(self, request: Message, version: int) -> Any:
        """Return the response, whose bytes must end where its fields end."""
        number = next(self._numbers)
        parts = encode_request(RequestHeader(request.API_KEY, version, number, "raw"), request)
        self._socket.sendall(b"".join(framed(parts)))
        correlation_id, response = decode_response(request.API_KEY, version, self.read_frame())
        assert correlation_id == number, (correlation_id, number)
        return response

    def send(self, frame: bytes) -> None:
        """Send `frame` behind its size."""
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def read_frame(self) -> bytes:
        """Read the next response without its size; EOFError when the broker has closed the connection."""
        return self._read(int.from_bytes(self._read(4), "big"))

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = self._socket.recv(count - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                raise EOFError("closed by the broker")
            data += more
        return data


@dataclass(frozen=True)
class Place:
    """Leader and follower of a partition 0. Addresses are host:port."""

    leader: str
    follower: str
    topic_id: bytes


def place_of(bootstrap: str, topic: str) -> Place:
    """Find partition 0 of a topic that exists and has more than one replica."""
    with RawConnection(bootstrap.split(",")[0]) as connection:
        answer = connection.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 10)
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
    [first] = [one for one in answer.topics[0].partitions if one.partition_index == 0]
    follower = next(replica for replica in first.replica_nodes if replica != first.leader_id)
    return Place(addresses[first.leader_id], addresses[follower], answer.topics[0].topic_id)
