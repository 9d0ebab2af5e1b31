"""Client quotas around the handlers: what a request takes is counted, and its client waits after the answer (KIP-219).

The answer is sent at once and names the time; then the connection is not read for so long. A Produce counts by the size
of the request, a consumer's Fetch by the records of the answer, every request by the time that the loop spends on
decoding and handling it, in however many slices: a quota of 100 is the whole loop. Free of that are requests without an
answer, and most of brokers and the controller, but not to somebody who may not send them.

Kafka answers a Fetch that is over its quota without records and lets the client fetch them after the pause; here they
come before it. The rate is the same, and a fetch session loses no news.

Source: KafkaApis, ClientRequestQuotaManager and RequestHandlerHelper of Kafka 3.9.
"""

import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final

from odradek.broker.metrics.request_metrics import errors_of
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext, Respond, Settled, Silent
from odradek.broker.quotas.client_quotas import ClientQuotas, QuotaType
from odradek.broker.replication.fetch_sessions import replica_of
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.fetch import FetchResponse

PRODUCE, FETCH = 0, 1
DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
FREE: Final = frozenset({4, 5, 6, 7, 27, 56})
"""Keys of APIs without quotas: LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, WriteTxnMarkers and
AlterPartition; they cost those who may not send them. AllocateProducerIds costs, as in Kafka, also a broker."""

Handle = Callable[[Any, Any, RequestContext], Outcome]
Decode = Callable[[memoryview, int], tuple[Any, int]]


class Throttled:
    """Counts what requests take: from where an API's decoder begins to where its handler returns."""

    def __init__(self, quotas: ClientQuotas, processor_ms: Callable[[], float]) -> None:
        """`processor_ms` tells how long the loop has worked."""
        self._quotas = quotas
        self._processor_ms = processor_ms
        self._request_bytes = 0
        self._began_ms = 0.0

    def noting(self, decode: Decode) -> Decode:
        """Put the beginning of what is measured before the decoder of an API."""

        def noted(frame: memoryview, at: int) -> tuple[Any, int]:
            self._request_bytes, self._began_ms = len(frame), self._processor_ms()
            return decode(frame, at)

        return noted

    def around(self, handle: Handle, key: int) -> Handle:
        """Put the quotas around the handler of an API."""
        if key in FREE:
            return self._around_free(handle)
        if key == PRODUCE:
            return self._around_produce(handle)
        if key == FETCH:
            return self._around_fetch(handle)
        return lambda broker, request, context: self._after(handle(broker, request, context), context)

    def _around_free(self, handle: Handle) -> Handle:
        def counted(broker: Any, request: Any, context: RequestContext) -> Outcome:
            outcome = handle(broker, request, context)
            if isinstance(outcome, Reply) and next(errors_of(outcome.response), 0) == DENIED:
                return self._after(outcome, context)
            return outcome

        return counted

    def _around_produce(self, handle: Handle) -> Handle:
        def counted(broker: Any, request: Any, context: RequestContext) -> Outcome:
            throttle_ms = self._use(QuotaType.PRODUCE, context, self._request_bytes)
            return self._after(handle(broker, request, context), context, throttle_ms)

        return counted

    def _around_fetch(self, handle: Handle) -> Handle:
        def counted(broker: Any, request: Any, context: RequestContext) -> Outcome:
            if replica_of(request)[0] >= 0:
                return handle(broker, request, context)
            most = self._quotas.most_at_once(QuotaType.FETCH, context.principal.name, context.client_id)
            if most is not None:
                request.max_bytes = min(request.max_bytes, most)
            return self._after(handle(broker, request, context), context, sized=True)

        return counted

    def _use(self, kind: QuotaType, context: RequestContext, value: float) -> int:
        return self._quotas.use(kind, context.principal.name, context.client_id, value)

    def _note_wait(self, kind: QuotaType, context: RequestContext, throttle_ms: int) -> None:
        if throttle_ms:
            self._quotas.note_wait(kind, context.principal.name, context.client_id, throttle_ms)

    def _time_used(self, context: RequestContext, used_ms: float) -> int:
        """Count the time that a request took; return how many ms its client is to wait for it."""
        return self._use(QuotaType.REQUEST, context, _percent(used_ms))

    def _after(self, outcome: Outcome, context: RequestContext, bytes_ms: int = 0, *, sized: bool = False) -> Outcome:
        """Have the client wait after the answer: `bytes_ms`, for the time used, and if `sized` for the size of that."""
        used_ms = self._processor_ms() - self._began_ms
        if isinstance(outcome, tuple):  # is quicker than to ask whether it is a Coroutine
            return self._settled(outcome, context, used_ms, bytes_ms, sized)
        return self._later(outcome, context, used_ms, bytes_ms, sized)

    async def _later(
        self, outcome: Coroutine[Any, Any, Settled], context: RequestContext, used_ms: float, bytes_ms: int, sized: bool
    ) -> Settled:
        settled, later_ms = await _measured(outcome, self._processor_ms)
        return self._settled(settled, context, used_ms + later_ms, bytes_ms, sized)

    def _settled(
        self, outcome: Settled, context: RequestContext, used_ms: float, bytes_ms: int, sized: bool
    ) -> Settled:
        if isinstance(outcome, Silent):  # as in Kafka its time is free: no answer would tell the client to wait
            self._note_wait(QuotaType.PRODUCE, context, bytes_ms)
            return outcome._replace(throttle_ms=bytes_ms)
        time_ms = self._time_used(context, used_ms)

        def throttle_of(response: Message, own_ms: int) -> int:
            of_answer_ms = self._use(QuotaType.FETCH, context, _size(response)) if sized else 0
            throttle_ms = max(bytes_ms, time_ms, of_answer_ms, own_ms)
            if throttle_ms and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = max(response.throttle_time_ms, throttle_ms)
            if time_ms == throttle_ms:
                self._note_wait(QuotaType.REQUEST, context, time_ms)
            elif own_ms < throttle_ms:
                self._note_wait(QuotaType.FETCH if sized else QuotaType.PRODUCE, context, throttle_ms)
            return throttle_ms

        if isinstance(outcome, Reply):
            return outcome._replace(throttle_ms=throttle_of(outcome.response, outcome.throttle_ms))
        start = outcome.start

        def start_throttled(respond: Respond) -> Any:
            def throttled(response: Message, throttle_ms: int = 0) -> None:
                respond(response, throttle_of(response, throttle_ms))

            return start(throttled)

        return outcome._replace(start=start_throttled)


@types.coroutine
def _measured(
    outcome: Coroutine[Any, Any, Settled], processor_ms: Callable[[], float]
) -> Generator[Any, Any, tuple[Settled, float]]:
    """Wait for an outcome, and measure how long the loop works on it, without what it does for others meanwhile."""
    used_ms, sent = 0.0, None
    step: Callable[[Any], Any] = outcome.send
    while True:
        began_ms = processor_ms()
        try:
            awaited = step(sent)
        except StopIteration as end:
            return end.value, used_ms + processor_ms() - began_ms
        used_ms += processor_ms() - began_ms
        try:
            sent, step = (yield awaited), outcome.send
        except GeneratorExit:
            outcome.close()
            raise
        except BaseException as error:  # noqa: BLE001 - is the affair of the outcome, as with a plain await
            sent, step = error, outcome.throw


def _percent(processor_ms: float) -> float:
    """Share of a second of the loop: a whole second is 100."""
    return processor_ms / 10.0


ANSWER_OVERHEAD_BYTES, PARTITION_OVERHEAD_BYTES = 20, 50
"""About what an answer to Fetch has beside records and names."""


def _size(response: Message) -> int:
    """Return about the size in bytes of an answer to Fetch, before it is encoded."""
    assert isinstance(response, FetchResponse)
    size = ANSWER_OVERHEAD_BYTES
    for topic in response.responses:
        size += len(topic.topic)
        for data in topic.partitions:
            size += PARTITION_OVERHEAD_BYTES + (0 if data.records is None else len(data.records))
    return size
