"""A stage for the APIs of transactions: a producer that asks a whole broker, which coordinates everything."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.broker.requests.whole_broker import Client, with_broker

NONE = ErrorCode.NONE
ID, GROUP = "id", "g"


class Producer:
    """Asks for transactions; `identity` is the producer id and epoch that it was given."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.identity = (-1, -1)

    async def init(self, version: int = 4, transactional_id: str = ID, timeout_ms: int = 60_000, **named: int) -> Any:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **named)
        answer = await self.client.ask(request, version)
        if answer.error_code == NONE:
            self.identity = (answer.producer_id, answer.producer_epoch)
        return answer

    async def add(
        self, *asked: tuple[str, int], version: int = 3, epoch: int | None = None, transactional_id: str = ID
    ) -> list[tuple[str, int, int]]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=self.identity[0],
            v3_and_below_producer_epoch=self.identity[1] if epoch is None else epoch,
            v3_and_below_topics=_topics(asked),
        )
        return errors_of((await self.client.ask(request, version)).results_by_topic_v3_and_below)

    @property
    def fields(self) -> dict[str, Any]:
        """What requests say of the producer."""
        return {"transactional_id": ID, "producer_id": self.identity[0], "producer_epoch": self.identity[1]}

    def asked(self, *asked: tuple[str, int], verify_only: bool, **changes: Any) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(verify_only=verify_only, topics=_topics(asked), **(self.fields | changes))

    async def add_offsets(self, version: int, epoch: int, transactional_id: str = ID) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=self.identity[0], producer_epoch=epoch, group_id=GROUP
        )
        return ErrorCode((await self.client.ask(request, version)).error_code)

    async def end(self, version: int = 3, epoch: int | None = None, committed: bool = True) -> ErrorCode:
        fields = self.fields if epoch is None else self.fields | {"producer_epoch": epoch}
        request = EndTxnRequest(committed=committed, **fields)
        return ErrorCode((await self.client.ask(request, version)).error_code)

    async def described(self) -> Any:
        [state] = (await self.client.ask(DescribeTransactionsRequest(transactional_ids=[ID]), 0)).transaction_states
        return state


def _topics(asked: tuple[tuple[str, int], ...]) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in asked]


def errors_of(results: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.name, one.partition_index, one.partition_error_code)
        for topic in results
        for one in topic.results_by_partition
    ]


SETTINGS = {
    f"{topic}_{name}": "1"
    for topic in ("transaction_state_log", "offsets_topic")
    for name in ("num_partitions", "replication_factor")
}


async def until_it_coordinates(client: Client) -> None:
    services = client.cluster.brokers[0].server.services
    while services.transactions.check(ID) is not NONE or services.groups.check(GROUP) is not NONE:
        for key_type in (0, 1):  # which creates the topics
            await client.ask(FindCoordinatorRequest(key=GROUP, key_type=key_type), 3)
        await asyncio.sleep(0.05)


def with_producer(scenario: Callable[[Producer], Awaitable[None]], **settings: str) -> None:
    """Run it with a topic of two partitions, and a broker that coordinates everything."""

    async def prepared(client: Client) -> None:
        await client.create(partitions=2)
        await until_it_coordinates(client)
        await scenario(Producer(client))

    with_broker(prepared, 1, **SETTINGS, **settings)
