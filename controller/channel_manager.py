"""Requests from the controller on their way to the brokers (Kafka's ControllerChannelManager).

`BrokerChannels` has a queue for each broker, whose requests are sent in order, one at a time, until the broker is
removed. A request is repeated until it is answered: the broker's fences (controller epoch, broker epoch, leader epoch)
make that harmless. The receivers rely on the order.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from odradek.controller.request_batch import VERSIONS
from odradek.protocol.fields import Message
from odradek.world.clock import Clock, sleep
from odradek.world.tasks import OnDeath, Tasks

log = logging.getLogger(__name__)

RETRY_BACKOFF_MS = 100.0
QUEUED_REQUESTS_MAX = 100_000
"""Most requests that wait for one broker: a broker that does not take them is cut off until it registers anew."""

OnResponse = Callable[[Message], None]


class Channels(Protocol):
    """The network as the controller uses it. `send` to an unknown broker does nothing."""

    def add_broker(self, broker_id: int, host: str, port: int) -> None:
        """Open a channel to this address. One that is open already keeps all that waits in it, and sends it there."""

    def remove_broker(self, broker_id: int) -> None:
        """Forget a broker, with its queue and the request in flight; harmless for an unknown one."""

    def send(self, broker_id: int, message: Message, on_response: OnResponse) -> None:
        """Queue a request. `on_response` is called at most once, on the loop, never from within `send`."""

    def queued_by_broker(self) -> dict[int, int]:
        """Count the requests that wait to be sent, by broker id."""


class Connection(Protocol):
    """The part of odradek.broker.cluster.peer.Peer that a channel needs."""

    async def request(self, message: Message, version: int, timeout_ms: float) -> Message:
        """Send a request and return its answer. Raises OSError when the broker is out of reach or too slow."""

    def close(self) -> None: ...


Connect = Callable[[str, int], Connection]


class BrokerChannels:
    """Implementation of `Channels` over connections that `connect` makes."""

    def __init__(self, connect: Connect, clock: Clock, request_timeout_ms: float, tasks: Tasks) -> None:
        """`request_timeout_ms`: controller.socket.timeout.ms. `tasks` supervises the task of each channel."""
        self._connect, self._clock, self._request_timeout_ms, self._tasks = connect, clock, request_timeout_ms, tasks
        self._channels: dict[int, BrokerChannel] = {}

    def add_broker(self, broker_id: int, host: str, port: int) -> None:
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = BrokerChannel(
                broker_id, self._connect, self._clock, self._request_timeout_ms
            )
            channel.go_to(host, port)
            channel.start(self._tasks)
        else:
            channel.go_to(host, port)

    def remove_broker(self, broker_id: int) -> None:
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def send(self, broker_id: int, message: Message, on_response: OnResponse) -> None:
        channel = self._channels.get(broker_id)
        if channel is not None and not channel.send(message, on_response):
            log.error(
                "broker %d has %d unanswered requests and gets no more until it registers anew: restart it",
                broker_id,
                QUEUED_REQUESTS_MAX,
            )
            self.remove_broker(broker_id)

    def queued_by_broker(self) -> dict[int, int]:
        return {broker_id: channel.queued for broker_id, channel in self._channels.items()}


class BrokerChannel:
    """The requests that wait for one broker, and the task that sends them."""

    def __init__(self, broker_id: int, connect: Connect, clock: Clock, request_timeout_ms: float) -> None:
        self._broker_id, self._connect = broker_id, connect
        self._clock, self._request_timeout_ms = clock, request_timeout_ms
        self._address: tuple[str, int] | None = None
        self._connection: Connection
        self._queue: deque[tuple[Message, OnResponse]] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def queued(self) -> int:
        return len(self._queue)

    def start(self, tasks: Tasks) -> None:
        """Begin to send. A request stays in the queue until it is answered, so the task may be restarted."""
        self._task = tasks.spawn(f"controller-to-{self._broker_id}", self._run, OnDeath.RESTART)

    def go_to(self, host: str, port: int) -> None:
        """Send to this address from now on. A request in flight to another one fails, and is repeated here."""
        if self._address != (host, port):
            if self._address is not None:
                self._connection.close()
            self._address, self._connection = (host, port), self._connect(host, port)

    def send(self, message: Message, on_response: OnResponse) -> bool:
        """Queue a request to the broker; False when the queue is full."""
        if len(self._queue) >= QUEUED_REQUESTS_MAX:
            return False
        self._queue.append((message, on_response))
        self._wake.set()
        return True

    def close(self) -> None:
        if self._task is not None:
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
                name = type(message).__name__
                log.warning("broker %d did not take %s, it is sent again: %s", self._broker_id, name, error)
            await sleep(self._clock, RETRY_BACKOFF_MS)
