"""The request log, Kafka's `kafka.request.logger`: at DEBUG a line for each request when it is answered, at TRACE also
one when it comes.

It stands around the dispatcher only while somebody wants it: a broker without it pays nothing. Contents are not
written, for they may be secret. Source: RequestChannel.updateRequestMetrics and RequestConvertToJson of Kafka 3.9; the
fields have their names.
"""

import json
import logging
from struct import Struct
from typing import Any, Final

from odradek.broker.network.outcomes import Answer, Client, Deferred, Dispatch, Outcome
from odradek.protocol.fields import Message
from odradek.protocol.headers import API_NAMES
from odradek.protocol.primitives import Part
from odradek.world.clock import Clock

requests = logging.getLogger("kafka.request.logger")
requests.setLevel(logging.WARNING)
"""Level as in the log4j.properties that Kafka ships: a root at DEBUG is not to bring a line for each request."""
TRACE: Final = 5
HEADER: Final = Struct(">hhi")
"""API, version, correlation id: how each request begins."""


def is_wanted() -> bool:
    """Tell whether the level of the logger asks for lines now."""
    return requests.isEnabledFor(logging.DEBUG)


class RequestLog:
    """Writes lines about the requests of one broker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def around(self, dispatch: Dispatch) -> Dispatch:
        """Return a dispatcher that does the same as `dispatch`, and logs a line for each request."""

        def handle(frame: memoryview, client: Client) -> Answer:
            began_s, facts = self._clock.perf_counter(), _facts(frame, client)
            if requests.isEnabledFor(TRACE):
                requests.log(TRACE, "Received request:%s", json.dumps(facts))
            answer = dispatch(frame, client)
            facts["clientId"] = client.identity[2:].decode(errors="replace")
            facts["principal"] = str(client.principal)
            if isinstance(answer, list):
                self._answered(facts, began_s, answer)
                return answer
            if answer is None:
                self._answered(facts, began_s, [])
                return None
            return _LoggedLater(answer, self, facts, began_s)

        return handle

    def _answered(self, facts: dict[str, Any], began_s: float, parts: list[Part]) -> None:
        total_ms = round(1000 * (self._clock.perf_counter() - began_s), 3)
        told = {**facts, "responseBytes": sum(map(len, parts)), "totalTimeMs": total_ms}
        extra = {"fields": told, "brief": "Completed request"}
        requests.debug("Completed request:%s", json.dumps(told), extra=extra)


class _LoggedLater:
    """A deferred answer, logged when it is given."""

    __slots__ = ("_began_s", "_deferred", "_facts", "_log")

    def __init__(self, deferred: Deferred, log: RequestLog, facts: dict[str, Any], began_s: float) -> None:
        self._deferred, self._log, self._facts, self._began_s = deferred, log, facts, began_s

    @property
    def outcome(self) -> Outcome:
        return self._deferred.outcome

    def answer(self, response: Message | None) -> list[Part]:
        parts = self._deferred.answer(response)
        self._log._answered(self._facts, self._began_s, parts)
        return parts


def _facts(frame: memoryview, client: Client) -> dict[str, Any]:
    """Read what is known of a request before it is handled. A frame may be too short to have a header."""
    key, version, correlation = HEADER.unpack_from(frame) if len(frame) >= HEADER.size else (-1, -1, -1)
    return {
        "requestApiKeyName": API_NAMES.get(key, f"API {key}"),
        "requestApiVersion": version,
        "correlationId": correlation,
        "connection": client.peer,
        "listener": client.listener,
        "requestBytes": len(frame),
    }
