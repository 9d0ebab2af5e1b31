"""Producer ids for idempotent producers, from blocks that the controller hands out (KIP-730)."""

import asyncio
from collections.abc import Callable

from odradek.broker.metadata import MetadataCache
from odradek.broker.replication.fetcher_manager import PeerFactory
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

VERSION = 0
LARGEST_PRODUCER_ID = 2**63 - 1
REQUEST_TIMEOUT_MS = 10_000.0


class ProducerIds:
    """Hands out the ids of the present block one by one, and fetches the next block when it is used up.

    Ids that are left over when the broker stops are never used.
    """

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        metadata: MetadataCache,
        connect: PeerFactory,
        listener: str,
    ) -> None:
        self._broker_id, self._broker_epoch = broker_id, broker_epoch
        self._metadata, self._connect, self._listener = metadata, connect, listener
        self._next, self._end = 0, 0
        self._fetching = asyncio.Lock()

    async def next(self) -> int:
        """A producer id that nobody else has. Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS, which clients retry."""
        async with self._fetching:
            if self._next == self._end:
                self._next, self._end = await self._fetch_block()
            self._next += 1
            return self._next - 1

    async def _fetch_block(self) -> tuple[int, int]:
        node = self._metadata.node(self._metadata.controller_id, self._listener)
        if node is None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "there is no controller to ask for producer ids")
        peer = self._connect(node, f"producer-ids-{self._broker_id}")
        try:
            response = await peer.request(
                AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch()),
                VERSION,
                REQUEST_TIMEOUT_MS,
            )
        except (OSError, TimeoutError) as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"controller {node.id}: {error}") from error
        finally:
            peer.close()
        assert isinstance(response, AllocateProducerIdsResponse)
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode(response.error_code).name)
        first, count = response.producer_id_start, response.producer_id_len
        if first < self._end or count <= 0 or first > LARGEST_PRODUCER_ID - count:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{count} producer ids from {first} are no block")
        return first, first + count
