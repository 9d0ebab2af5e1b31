"""Producer ids for idempotent producers, from blocks that the controller hands out (KIP-730)."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from odradek.broker.cluster.broker_client import BrokerClients

VERSION = 0
LARGEST_PRODUCER_ID = 2**63 - 1


class ProducerIds:
    """Producer ids of this broker: those of the present block one by one, then those of the next block it fetches.

    Ids that are left over when the broker stops are never used.
    """

    def __init__(
        self, broker_id: int, broker_epoch: Callable[[], int], clients: "BrokerClients", request_timeout_ms: int
    ) -> None:
        self._broker_id, self._broker_epoch = broker_id, broker_epoch
        self._client = clients(f"producer-ids-{broker_id}")
        self._timeout_ms = request_timeout_ms
        self._next, self._end = 0, 0
        self._fetching = asyncio.Lock()

    @property
    def left(self) -> range:
        """Ids of the present block that nobody has yet."""
        return range(self._next, self._end)

    def close(self) -> None:
        """Give up the request for a block that is under way."""
        self._client.close()

    async def next(self) -> int:
        """Return a producer id that nobody else has. Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS (clients retry)."""
        async with self._fetching:
            if self._next == self._end:
                self._next, self._end = await self._fetch_block()
            self._next += 1
            return self._next - 1

    async def _fetch_block(self) -> tuple[int, int]:
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        try:
            response = await self._client.to_controller(request, VERSION, self._timeout_ms)
        except OSError as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids: {error}") from error
        assert isinstance(response, AllocateProducerIdsResponse)
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error_code(response.error_code).name)
        first, count = response.producer_id_start, response.producer_id_len
        if first < self._end or count <= 0 or first > LARGEST_PRODUCER_ID - count:
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{count} producer ids from {first} are not a block"
            )
        return first, first + count
