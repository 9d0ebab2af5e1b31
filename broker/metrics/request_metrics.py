"""Metrics of requests: times by API and phase, and errors in the answers (Kafka's RequestMetrics).

    queue      from the wake-up of the loop that read the request to the beginning of its handling
    local      its handling, with decoding and the encoding of a plain answer
    remote     waiting for something: followers, more data, ZooKeeper, another broker
    response   from the answer to its turn behind the answers of requests that came before it (Kafka's response queue)
    send       from there until the kernel has taken the last byte
    total      all of it
    throttle   how long its connection is muted for a quota

Requests and errors are all counted. Times are measured of a sample, because the clock reads of one request would cost
more than a fiftieth of it: the requests of the first wake-up that comes MEASURE_EVERY_S after the last one that was
measured, and MEASURE_PAUSE_S later for each request of that one. So what comes seldom is measured always, and of what
comes by the thousands, many in one wake-up perhaps, a thousand a second at most. A phase that a request does not have
is not counted in it.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Array, Message, Struct, WireType
from odradek.world.durations import Durations

MEASURE_EVERY_S: Final = 0.01
MEASURE_PAUSE_S: Final = 0.001
PHASES: Final = ("queue", "local", "remote", "response", "send", "total", "throttle")
FETCH_FOLLOWER, FETCH_CONSUMER = "FetchFollower", "FetchConsumer"
"""Kafka's names of the two kinds of Fetch; its `Fetch` are both together."""


class ApiMetrics:
    """Requests of one API."""

    __slots__ = ("errors", "local", "name", "queue", "remote", "requests", "response", "send", "throttle", "total")

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: Counter[int] = Counter()
        """Number of requests by version."""
        self.errors: Counter[int] = Counter()
        """Errors in answers, by code; a request for many partitions may count several."""
        self.queue, self.local, self.remote, self.response = Durations(), Durations(), Durations(), Durations()
        self.send, self.total, self.throttle = Durations(), Durations(), Durations()

    def phases(self) -> Iterator[tuple[str, Durations]]:
        """Yield all distributions with their names."""
        return ((phase, getattr(self, phase)) for phase in PHASES)

    def answered_with(self, response: Message) -> None:
        """Count the errors in an answer."""
        for _ in self.count_errors(response):
            pass

    def count_errors(self, response: Message) -> Iterator[None]:
        """Count the errors in an answer, with a pause behind each place for one."""
        for code in errors_of(response):
            if code:
                self.errors[code] += 1
            yield


NO_API: Final = ApiMetrics("")
"""Metrics of a connection that has not asked for anything yet."""


class RequestWatch:
    """Takes the time of one request, which has just been handled."""

    __slots__ = ("api", "arrived_s", "since_s")

    def __init__(self, api: ApiMetrics, arrived_s: float, began_s: float, now_s: float) -> None:
        self.api, self.arrived_s, self.since_s = api, arrived_s, now_s
        api.queue.add(began_s - arrived_s)
        api.local.add(now_s - began_s)

    def answered(self, now_s: float, throttle_ms: int) -> None:
        """Note that the answer is known, after a wait; the connection is muted for `throttle_ms`."""
        self.api.remote.add(now_s - self.since_s)
        if throttle_ms > 0:
            self.api.throttle.add(throttle_ms / 1000.0)
        self.since_s = now_s

    def queued(self, now_s: float) -> None:
        """Note that all earlier answers of the connection are on their way, so that this one's turn has come."""
        self.api.response.add(now_s - self.since_s)
        self.since_s = now_s

    def sent(self, now_s: float) -> None:
        """Note that the whole answer is sent, or that the request has none."""
        self.api.send.add(now_s - self.since_s)
        self.api.total.add(now_s - self.arrived_s)


def all_sent(sending: list[RequestWatch], now_s: float) -> None:
    """Note that the answers of all these requests are sent, and empty the list."""
    for watch in sending:
        watch.sent(now_s)
    sending.clear()


class Sampling:
    """Sampling of wake-ups: which of them are measured, for all connections of a broker."""

    __slots__ = ("next_s",)

    def __init__(self) -> None:
        self.next_s = -math.inf
        """The first wake-up at or after this time is measured; whoever measures it moves this on."""


class RequestMetrics:
    """Measurements of all APIs that have been asked for. The number of names is bounded by what is served."""

    def __init__(self) -> None:
        self.apis: dict[str, ApiMetrics] = {}

    def of_api(self, name: str) -> ApiMetrics:
        """Return the metrics of an API, made when there are none."""
        api = self.apis.get(name)
        if api is None:
            api = self.apis[name] = ApiMetrics(name)
        return api

    def failed(self, name: str, response: Message) -> None:
        """Count the errors of a Produce's or Fetch's answer, whose handlers know that there are some."""
        self.of_api(name).answered_with(response)


ErrorReader = Callable[[Any], Iterator[int]]
_readers: dict[type[Struct], ErrorReader | None] = {}


def errors_of(response: Struct) -> Iterator[int]:
    """Yield all error codes in a response, at whatever depth; 0 where there was none."""
    reader = _reader(type(response))
    return iter(()) if reader is None else reader(response)


def _reader(struct: type[Struct]) -> ErrorReader | None:
    """Return a function that finds the error codes in such a struct; None where there are none."""
    if struct in _readers:
        return _readers[struct]
    own = [one.name for one in struct.FIELDS if one.name == "error_code"]
    nested = [(one.name, isinstance(one.wire, Array)) for one in struct.FIELDS if _holds_errors(one.wire)]

    def read(value: Any) -> Iterator[int]:
        for name in own:
            yield getattr(value, name)
        for name, many in nested:
            inner = getattr(value, name)
            for one in (inner or ()) if many else () if inner is None else (inner,):
                yield from errors_of(one)

    _readers[struct] = read if own or nested else None
    return _readers[struct]


def _holds_errors(wire: WireType) -> bool:
    element = wire.element if isinstance(wire, Array) else wire
    return isinstance(element, type) and issubclass(element, Struct) and _reader(element) is not None


def error_name(code: int) -> str:
    """Return Kafka's name of an error code; UNKNOWN_… for one that has no name."""
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"UNKNOWN_{code}"
