"""Trace of who asks brokers what: noted around the dispatcher of each, where that is wanted."""

from collections import deque
from collections.abc import Callable
from struct import Struct

from odradek.broker.network.outcomes import Answer, Client, Deferred, Dispatch, Outcome
from odradek.protocol.fields import Message
from odradek.protocol.headers import API_NAMES
from odradek.protocol.primitives import Part
from odradek.testing.cluster.views import SeenRequest
from odradek.world.clock import Clock

REQUESTS_MAX = 10_000
"""Requests that are remembered, the last ones."""
API_AND_VERSION = Struct(">hh")


class _Note:
    __slots__ = ("api", "at_ms", "broker", "client", "request_bytes", "response_bytes", "took_ms")

    def __init__(self, at_ms: float, broker: int, client: tuple[str, str], api: tuple[int, int], size: int) -> None:
        self.at_ms, self.broker, self.client, self.api, self.request_bytes = at_ms, broker, client, api, size
        self.response_bytes: int | None = None
        self.took_ms: float | None = None

    def view(self) -> SeenRequest:
        (client_id, peer), (key, version) = self.client, self.api
        name = API_NAMES.get(key, f"API {key}")
        return SeenRequest(self.at_ms, self.broker, client_id, peer, name, version, self.request_bytes,
                           self.response_bytes, self.took_ms)  # fmt: skip


class _NotedLater:
    """A deferred answer, noted when it is given."""

    __slots__ = ("_deferred", "_note", "_trace")

    def __init__(self, deferred: Deferred, note: _Note, trace: "Trace") -> None:
        self._deferred, self._note, self._trace = deferred, note, trace

    @property
    def outcome(self) -> Outcome:
        return self._deferred.outcome

    def answer(self, response: Message | None) -> list[Part]:
        parts = self._deferred.answer(response)
        self._trace.answered(self._note, parts)
        return parts


class Trace:
    """The requests of one cluster's clients."""

    def __init__(self, clock: Clock, is_client: Callable[[str], bool]) -> None:
        """`is_client` tells for a peer's address whether its requests are wanted."""
        self._clock, self._is_client = clock, is_client
        self._begin_ms = clock.monotonic_ms()
        self._notes: deque[_Note] = deque(maxlen=REQUESTS_MAX)

    def now_ms(self) -> float:
        """Return the time since the cluster began (ms)."""
        return self._clock.monotonic_ms() - self._begin_ms

    def around(self, dispatch: Dispatch, broker: int) -> Dispatch:
        """Return a dispatcher that does the same and notes each request of a client."""

        def handle(frame: memoryview, client: Client) -> Answer:
            at_ms, size = self.now_ms(), len(frame)
            api = API_AND_VERSION.unpack_from(frame) if size >= API_AND_VERSION.size else (-1, -1)
            answer = dispatch(frame, client)
            if not self._is_client(client.peer):
                return answer
            name = client.identity[2:].decode(errors="replace")
            note = _Note(at_ms, broker, (name, client.peer), api, size)
            self._notes.append(note)
            if isinstance(answer, list):
                self.answered(note, answer)
                return answer
            return None if answer is None else _NotedLater(answer, note, self)

        return handle

    def answered(self, note: _Note, parts: list[Part]) -> None:
        """The answer to a request is made."""
        note.response_bytes = sum(map(len, parts))
        note.took_ms = self.now_ms() - note.at_ms

    def requests(self) -> list[SeenRequest]:
        """List the requests that are remembered, in order."""
        return [note.view() for note in self._notes]

    def clear(self) -> None:
        """Forget them."""
        self._notes.clear()
