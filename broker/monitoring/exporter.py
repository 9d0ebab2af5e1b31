"""The HTTP answers of a broker: `/metrics` for Prometheus, `/journal` and `/lag` for people, `/live` and `/ready`
for probes.

    GET /metrics                    the text exposition format, names by jmx_exporter's rules
    GET /metrics?names=confluent    names by Confluent's rules
    GET /journal                    JSON: {"broker": 1, "began_ms": 1700…, "forgotten": 0, "last": 7, "entries": […]}
    GET /journal?after=7            only entries with a greater number
    GET /lag                        JSON: {"zookeeper": {GROUP: MEMBERS}}, groups with their offsets in ZooKeeper
    GET /lag?group=ID               JSON: {"partitions": [[TOPIC, PARTITION, OFFSET, RECORDS, SECONDS]]}, how far behind
    GET /live                       200 since the broker has started
    GET /ready                      200 while it is registered and in every ISR that it belongs to, else 503 and why;
                                    replicas that a reassignment is adding to it do not count

One request per connection, which is closed after the answer. The text is made in slices of time, so that thousands of
partitions do not keep the loop; what a slow reader has not taken yet is bounded by the size of one answer and by
CONNECTIONS_MAX. There is no authentication: `metrics.host` says who can reach it, this machine alone if it is not set.
"""

import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final
from urllib.parse import parse_qs, urlsplit

from odradek.broker.monitoring.metric import Metric, Style
from odradek.broker.monitoring.metrics_catalog import CATALOG
from odradek.broker.monitoring.observed import Observed
from odradek.broker.services import Services
from odradek.world.clock import Clock, Timer
from odradek.world.network import Endpoint, Listener, Network
from odradek.world.tasks import OnDeath, Tasks
from odradek.world.time_slices import TimeSlice

log = logging.getLogger(__name__)

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
JSON: Final = "application/json"
REQUEST_BYTES_MAX: Final = 8192
CONNECTIONS_MAX: Final = 16
"""Most connections. A further one takes the place of the oldest that has asked nothing yet, or is slow to take its
answer, since probes must come through. If there is none such, the further one is closed."""
PATIENCE_MS: Final = 30_000.0
"""Time in which a connection has to send a request, and to take the whole answer; then it gives its place up."""
PIECES_PER_LOOK: Final = 32
"""Samples after which the clock is looked at."""
PARTITIONS_PER_LOOK: Final = 100
"""Partitions after which the clock is looked at."""
PARTITIONS_NAMED: Final = 5
"""Partitions that an answer of `/ready` names; of more it says how many."""


class Exporter:
    """Listens on `metrics.port`."""

    def __init__(self, network: Network, clock: Clock, tasks: Tasks) -> None:
        self._network, self._clock, self._tasks = network, clock, tasks
        self._listener: Listener | None = None
        self._open: dict[_Exchange, None] = {}
        """Exchanges in the order in which they came."""
        self._broker: Observed | None = None

    def listen(self, host: str, port: int) -> int:
        """Take the port, and return it; connections that come before `serve` wait. Raises OSError."""
        self._listener = self._network.listen(host, port, self._accepted)
        self._listener.pause()
        return self._listener.port

    def serve(self, broker: Observed) -> None:
        """Begin to answer."""
        assert self._listener is not None, "serve before listen"
        self._broker = broker
        self._listener.resume()

    def close(self) -> None:
        """Listen no more and close what is open. Harmless twice, or before `listen`."""
        if self._listener is not None:
            self._listener.close()
        for exchange in tuple(self._open):
            exchange.close()

    def _accepted(self, endpoint: Endpoint) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            slow = next((one for one in self._open if one.waits_for_peer), None)
            if slow is None:
                endpoint.close()
                return
            slow.close()
        self._open[_Exchange(endpoint, self._clock, self._asked, lambda one: self._open.pop(one, None))] = None

    def _asked(self, exchange: "_Exchange", target: str) -> None:
        self._tasks.spawn("metrics", lambda: self._answer(exchange, target), OnDeath.REPORT)

    async def _answer(self, exchange: "_Exchange", target: str) -> None:
        broker = self._broker
        assert broker is not None
        try:
            address = urlsplit(target)
        except ValueError:
            exchange.answer(400, TEXT, b"that is no address\n")
            return
        if address.path == "/metrics":
            style = Style.CONFLUENT if parse_qs(address.query).get("names") == ["confluent"] else Style.JMX_EXPORTER
            began_s = self._clock.perf_counter()
            text = "".join([piece async for piece in pieces(broker, self._clock, style)])
            broker.scrapes.add(self._clock.perf_counter() - began_s)
            exchange.answer(200, TEXT, text.encode())
        elif address.path == "/journal":
            after = parse_qs(address.query).get("after", ["0"])[0]
            exchange.answer(200, JSON, await self._journal(broker, whole_number(after)))
        elif address.path == "/lag":
            group = parse_qs(address.query).get("group")
            told = (
                {"partitions": broker.lag.of_group(group[0])}
                if group
                else {"zookeeper": broker.lag.groups_in_zookeeper}
            )
            exchange.answer(200, JSON, json.dumps(told).encode())
        elif address.path == "/live":
            exchange.answer(200, TEXT, b"alive\n")
        elif address.path == "/ready":
            reason = await reason_not_ready(broker.services, self._clock)
            exchange.answer(503 if reason else 200, TEXT, f"{reason or 'ready'}\n".encode())
        else:
            exchange.answer(404, TEXT, b"there are /metrics, /journal, /lag, /live and /ready\n")

    async def _journal(self, broker: Observed, after: int) -> bytes:
        journal = broker.services.journal
        head = {
            "broker": broker.services.identity.broker_id,
            "began_ms": journal.began_ms,
            "forgotten": journal.forgotten,
            "last": journal.last,
        }
        turn, told = TimeSlice(self._clock), []
        for entry in journal.entries(after):
            told.append(json.dumps(entry))
            if not len(told) % PIECES_PER_LOOK:
                await turn.pause_if_over()
        return f'{json.dumps(head)[:-1]}, "entries": [{", ".join(told)}]}}'.encode()


def whole_number(text: str) -> int:
    """Read a number that somebody has put into an address; 0 for what is none, or has more than eighteen digits."""
    return int(text) if text.isdecimal() and len(text) <= 18 else 0


async def pieces(
    broker: Observed, clock: Clock, style: Style, metrics: Sequence[Metric] = CATALOG
) -> AsyncIterator[str]:
    """Yield the text of metrics, with pauses for others."""
    turn = TimeSlice(clock)
    for metric in metrics:
        for number, piece in enumerate(metric.lines(broker, style)):
            yield piece
            if not number % PIECES_PER_LOOK:
                await turn.pause_if_over()


class _Exchange:
    """A connection: a request, an answer."""

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Clock,
        asked: Callable[["_Exchange", str], object],
        closed: Callable[["_Exchange"], object],
    ) -> None:
        self._endpoint, self._clock, self._asked, self._closed = endpoint, clock, asked, closed
        self.waits_for_peer = True
        """True while this waits for a request, or for room to send the answer."""
        self._received = bytearray()
        self._unsent = memoryview(b"")
        self._head_only = False
        self._timer: Timer = clock.call_later(PATIENCE_MS, self.close)
        endpoint.on_readable(self._on_readable)

    def answer(self, status: int, content_type: str, body: bytes) -> None:
        """Send the answer, then close."""
        reason = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}.get(status, "Bad Request")
        head = (
            f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        self._unsent = memoryview(head.encode() + (b"" if self._head_only else body))
        self._timer.cancel()
        self._timer = self._clock.call_later(PATIENCE_MS, self.close)
        self._send()

    def close(self) -> None:
        """Close the connection. Harmless twice."""
        self._timer.cancel()
        self._endpoint.close()
        self._unsent = memoryview(b"")
        self._closed(self)

    def _on_readable(self) -> None:
        buffer = bytearray(REQUEST_BYTES_MAX)
        try:
            size = self._endpoint.receive_into(memoryview(buffer))
        except BlockingIOError:
            return
        except OSError:
            size = 0
        self._received += buffer[:size]
        if not size:
            self.close()
        elif len(self._received) > REQUEST_BYTES_MAX:
            self._endpoint.on_readable(None)
            self.answer(400, TEXT, b"a request of more than 8 KiB\n")
        elif b"\r\n\r\n" in self._received:
            self._endpoint.on_readable(None)
            self._take(bytes(self._received).partition(b"\r\n")[0].decode("latin-1").split(" "))

    def _take(self, words: list[str]) -> None:
        self.waits_for_peer = False
        if len(words) != 3 or words[0] not in ("GET", "HEAD") or not words[2].startswith("HTTP/1."):
            self.answer(400, TEXT, b"GET or HEAD, please\n")
            return
        self._head_only = words[0] == "HEAD"
        self._asked(self, words[1])

    def _send(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self._endpoint.send(self._unsent) :]
        except BlockingIOError:
            self.waits_for_peer = True
            self._endpoint.on_writable(self._send)
            return
        except OSError as error:
            log.debug("an answer with metrics was not taken: %s", error)
        self.close()


async def reason_not_ready(services: Services, clock: Clock) -> str:
    """Return in a few words why the broker is not ready, "" when it is.

    It is ready when it is registered, controllers have told it of every log that it holds, and it is in the ISR of each
    partition that is assigned to it, without those that a reassignment is adding to it: of these nobody counts on its
    replica yet. A rolling restart that waits for that never has two replicas of a partition out of the ISR at once.
    """
    own, metadata = services.identity.broker_id, services.metadata
    if services.identity.session_over or not metadata.is_alive(own):
        return "not registered"
    turn = TimeSlice(clock)
    untold, outside = [], []
    for number, log in enumerate(services.logs.all_logs()):
        if metadata.partition(log.topic, log.partition) is None and not metadata.is_deleted(log.topic, log.partition):
            untold.append(f"{log.topic}-{log.partition}")
        if not number % PARTITIONS_PER_LOOK:
            await turn.pause_if_over()
    if untold:
        return f"not told yet who leads {_some(untold)}"
    for topic in list(metadata.topics):
        for index, state in list(metadata.topics.get(topic, {}).items()):
            if own in state.replicas and own not in state.isr and not _is_being_added(services, topic, index):
                outside.append(f"{topic}-{index}")
        await turn.pause_if_over()
    return f"not in the ISR of {_some(outside)}" if outside else ""


def _is_being_added(services: Services, topic: str, index: int) -> bool:
    partition = services.replicas.partitions.get((topic, index))
    return partition is not None and services.identity.broker_id in partition.adding


def _some(partitions: list[str]) -> str:
    named = ", ".join(partitions[:PARTITIONS_NAMED])
    left = len(partitions) - PARTITIONS_NAMED
    return f"{named} and {left} more" if left > 0 else named
