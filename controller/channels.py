"""Requests from the controller to brokers: a queue per broker, one in flight, in order, until the broker is removed.

Kafka's ControllerChannelManager. A request is repeated until it is answered: the broker's fences (controller epoch,
broker epoch, leader epoch) make that harmless, and order is what the receivers rely on.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from odradek.protocol.fields import Message
from odradek.world.clock import Clock

log = logging.getLogger(__name__)

VERSIONS: dict[int, int] = {4: 7, 5: 4, 6: 8}
"""Versions sent, by API key: those of inter.broker.protocol.version 3.9 (LeaderAndIsr, StopReplica, UpdateMetadata)."""

RETRY_BACKOFF_MS = 100.0
QUEUED_REQUESTS_MAX = 100_000
"""Per broker. One that does not take its requests for so long is cut off and caught up when it registers anew."""

OnResponse = Callable[[Message], None]


class Channels(Protocol):
    """What the controller asks of the network. `send` to an unknown broker does nothing."""

    def add_broker(self, broker_id: int, host: str, port: int) -> None: ...

    def remove_broker(self, broker_id: int) -> None:
        """Forget its queue and the request in flight; harmless for an unknown one."""

    def send(self, broker_id: int, message: Message, on_response: OnResponse) -> None:
        """`on_response` is called at most once, on the loop, never from within `send`."""


class Connection(Protocol):
    """What is needed of odradek.broker.cluster.peer.Peer."""

    async def request(self, message: Message, version: int, timeout_ms: float) -> Message:
        """Raises OSError when the broker cannot be reached or does not answer in time."""

    def close(self) -> None: ...


Connect = Callable[[str, int], Connection]


class BrokerChannels:
    """`Channels` over connections that `connect` makes."""

    def __init__(self, connect: Connect, clock: Clock, request_timeout_ms: float) -> None:
        """`request_timeout_ms`: controller.socket.timeout.ms."""
        self._connect, self._clock, self._request_timeout_ms = connect, clock, request_timeout_ms
        self._channels: dict[int, BrokerChannel] = {}

    def add_broker(self, broker_id: int, host: str, port: int) -> None:
        self.remove_broker(broker_id)
        connection = self._connect(host, port)
        self._channels[broker_id] = BrokerChannel(broker_id, connection, self._clock, self._request_timeout_ms)

    def remove_broker(self, broker_id: int) -> None:
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def send(self, broker_id: int, message: Message, on_response: OnResponse) -> None:
        channel = self._channels.get(broker_id)
        if channel is not None and not channel.send(message, on_response):
            log.error("broker %d has not taken %d requests: cut off", broker_id, QUEUED_REQUESTS_MAX)
            self.remove_broker(broker_id)

    def queued(self) -> int:
        """Requests that wait, over all brokers."""
        return sum(channel.queued for channel in self._channels.values())


class BrokerChannel:
    """The queue of one broker and the task that empties it."""

    def __init__(self, broker_id: int, connection: Connection, clock: Clock, request_timeout_ms: float) -> None:
        self._broker_id, self._connection = broker_id, connection
        self._clock, self._request_timeout_ms = clock, request_timeout_ms
        self._queue: deque[tuple[Message, OnResponse]] = deque()
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"controller-to-{broker_id}")

    @property
    def queued(self) -> int:
        return len(self._queue)

    def send(self, message: Message, on_response: OnResponse) -> bool:
        """False when the queue is full."""
        if len(self._queue) >= QUEUED_REQUESTS_MAX:
            return False
        self._queue.append((message, on_response))
        self._wake.set()
        return True

    def close(self) -> None:
        self._task.cancel()
        self._connection.close()

    async def _run(self) -> None:
        while True:
            while self._queue:
                message, on_response = self._queue[0]
                response = await self._until_answered(message)
                self._queue.popleft()
                on_response(response)
            self._wake.clear()
            await self._wake.wait()

    async def _until_answered(self, message: Message) -> Message:
        version = VERSIONS[message.API_KEY]
        while True:
            try:
                return await self._connection.request(message, version, self._request_timeout_ms)
            except OSError as error:
                log.warning("broker %d did not take %s: %s", self._broker_id, type(message).__name__, error)
            rested = asyncio.Event()
            self._clock.call_later(RETRY_BACKOFF_MS, rested.set)
            await rested.wait()
