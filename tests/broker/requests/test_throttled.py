"""The time of the loop that a request takes counts for its client, in however many slices it is taken."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.network.outcomes import Reply, RequestContext, Settled, Silent
from odradek.broker.quotas.client_quotas import ClientQuotas, QuotaType
from odradek.broker.quotas.rates import RateWindows
from odradek.broker.requests.authorization.refusals import of_write_txn_markers
from odradek.broker.requests.throttled import Throttled
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from odradek.protocol.messages.list_offsets import ListOffsetsResponse
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.testing.virtual_clock import VirtualClock, run_virtual

LIST_OFFSETS, LEADER_AND_ISR, WRITE_TXN_MARKERS, ALLOCATE_PRODUCER_IDS = 2, 4, 27, 67
CONTEXT = RequestContext(7, "c", "1.2.3.4:5", "PLAINTEXT")


class Loop:
    """Counts what it works, and what is used of the quota for that."""

    def __init__(self, clock: VirtualClock) -> None:
        self.worked_ms = 0.0
        self.used: list[float] = []
        quotas = ClientQuotas(clock, RateWindows(11, 1000.0), RateWindows(11, 1000.0))
        use: Callable[..., int] = quotas.use

        def noted(kind: QuotaType, user: str, client_id: str, value: float) -> int:
            assert kind is QuotaType.REQUEST
            self.used.append(value)
            return use(kind, user, client_id, value)

        quotas.use = noted  # type: ignore[method-assign]
        quotas.set_entity("clients/c", {"request_percentage": "0.5"})
        self.throttled = Throttled(quotas, lambda: self.worked_ms)

    def handle(self, outcome: Any, key: int = LIST_OFFSETS) -> Any:
        """Handle a request that takes 10 ms at once."""

        def decode(frame: memoryview, at: int) -> tuple[Any, int]:
            self.worked_ms += 10.0
            return None, at

        self.throttled.noting(decode)(memoryview(b""), 0)
        return self.throttled.around(lambda broker, request, context: outcome, key)(None, None, CONTEXT)


@pytest.mark.parametrize("last", [Reply(ListOffsetsResponse()), Silent()])
def test_all_slices_count_and_nothing_that_others_do_between(last: Reply | Silent) -> None:
    async def main(clock: VirtualClock) -> None:
        loop = Loop(clock)

        async def sliced() -> Settled:
            loop.worked_ms += 20.0
            await asyncio.sleep(0)
            loop.worked_ms += 30.0
            await asyncio.sleep(1.0)
            loop.worked_ms += 40.0
            return last

        running = asyncio.ensure_future(loop.handle(sliced()))
        assert loop.used == []
        await asyncio.sleep(0.5)
        loop.worked_ms += 1000.0
        settled = await running
        assert loop.used == ([10.0] if isinstance(last, Reply) else []), "percent of a second; free without an answer"
        assert isinstance(settled, Reply | Silent) and isinstance(settled, type(last))
        assert (settled.throttle_ms > 0) is isinstance(last, Reply)

    run_virtual(main)


def test_an_error_and_an_end_reach_what_is_measured() -> None:
    async def main(clock: VirtualClock) -> None:
        loop = Loop(clock)
        ends: list[str] = []

        async def fails() -> Settled:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise
            return Silent()

        async def recovers(waited: "asyncio.Future[None]") -> Settled:
            try:
                await waited
            except ValueError:
                ends.append("recovered")
            return Silent()

        cancelled = asyncio.ensure_future(loop.handle(fails()))
        waited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        recovered = asyncio.ensure_future(loop.handle(recovers(waited)))
        await asyncio.sleep(0)
        cancelled.cancel()
        waited.set_exception(ValueError())
        await asyncio.wait((cancelled, recovered))
        assert cancelled.cancelled() and recovered.result() == Silent()
        assert ends == ["cancelled", "recovered"]

    run_virtual(main)


def test_who_may_not_send_what_brokers_send_waits_for_the_time_used() -> None:
    """Requests of brokers are free, those of somebody who only pretends are not (RequestHandlerHelper.handleError)."""

    async def main(clock: VirtualClock) -> None:
        loop = Loop(clock)
        assert loop.handle(Reply(LeaderAndIsrResponse()), LEADER_AND_ISR) == Reply(LeaderAndIsrResponse())
        stale = Reply(LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH))
        assert loop.handle(stale, LEADER_AND_ISR) == stale
        assert loop.used == []
        denied = LeaderAndIsrResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        loop.handle(Reply(denied), LEADER_AND_ISR)
        assert loop.used == [1.0]
        topic = WritableTxnMarkerTopic(name="t", partition_indexes=[0])
        markers = WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=1, topics=[topic])])
        refused = of_write_txn_markers(markers, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        loop.handle(Reply(refused), WRITE_TXN_MARKERS)
        assert loop.used == [1.0, 1.0]

    run_virtual(main)


def test_a_block_of_producer_ids_costs_the_time_used() -> None:
    """Although it is asked for by brokers (KafkaApis.handleAllocateProducerIdsRequest)."""

    async def main(clock: VirtualClock) -> None:
        loop = Loop(clock)
        for _ in range(6):
            settled = loop.handle(Reply(AllocateProducerIdsResponse()), ALLOCATE_PRODUCER_IDS)
        assert loop.used == [1.0] * 6
        assert settled.throttle_ms == settled.response.throttle_time_ms > 0

    run_virtual(main)
