"""Answers to a consumer's fetch that come when it wants something else by now, or do not come."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.aio import Consumer
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.records import encode_batch
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork

T0 = TopicPartition("t", 0)
END = 20
BATCH = 3
LONG_MS = 300_000


class Leader:
    """Leads a log of END records, whose values are their offsets. `meanwhile` is called while it answers."""

    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self.errors: list[ErrorCode | None] = []
        """Of the next answers; None: there is none."""
        self.meanwhile: Callable[[], object] = lambda: None
        broker.handlers[FetchRequest] = self.fetch

    def fetch(self, request: FetchRequest) -> FetchResponse | None:
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        if error is None:
            return None
        if error is not ErrorCode.NONE:
            return FetchResponse(error_code=error)
        (topic,) = request.topics
        offset = topic.partitions[0].fetch_offset
        values = [b"%d" % one for one in range(offset, END)[:BATCH]]
        records = bytes(encode_batch(offset, [0] * len(values), [None] * len(values), values)) if values else b""
        one = PartitionData(partition_index=0, high_watermark=END, records=records)
        self.meanwhile()
        return FetchResponse(
            responses=[FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[one])]
        )


def run(scripted_broker: Any, work: Callable[[Consumer, Leader], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        leader = Leader(scripted_broker(network))
        async with Consumer(
            network=network.host("client"), clock=clock, random=random.Random(0), bootstrap_servers="broker:9092",
            request_timeout_ms=1_000, retry_backoff_ms=50, metadata_max_age_ms=LONG_MS,
        ) as consumer:  # fmt: skip
            consumer.assign([T0])
            await work(consumer, leader)

    run_virtual(main)


async def read(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += [int(one.value or b"") for records in (await consumer.getmany(1_000)).values() for one in records]
    return found


@pytest.mark.parametrize(("first", "then"), [(10, 1), (1, 10)])
def test_an_answer_from_before_a_jump_moves_nothing(scripted_broker: Any, first: int, then: int) -> None:
    """Where it ends is not where the next fetch begins: all between would be passed over."""

    async def work(consumer: Consumer, leader: Leader) -> None:
        def jump() -> None:
            leader.meanwhile = lambda: None
            consumer.seek(T0, then)

        leader.meanwhile = jump
        consumer.seek(T0, first)
        assert await read(consumer, END - then) == list(range(then, END))

    run(scripted_broker, work)


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_SERVER_ERROR, None])
def test_a_fetch_that_fails_as_a_whole_asks_who_leads_now(scripted_broker: Any, error: ErrorCode | None) -> None:
    """A broker that has lost its partitions may refuse, or be silent, for longer than metadata is young."""

    async def work(consumer: Consumer, leader: Leader) -> None:
        consumer.seek(T0, 0)
        assert await read(consumer, END) == list(range(END))
        await asyncio.sleep(1)  # until nothing that was wanted at the start is asked for any more
        asked = len(leader.broker.requests(MetadataRequest))
        leader.errors = [error]
        consumer.seek(T0, 0)
        await read(consumer, END)
        assert len(leader.broker.requests(MetadataRequest)) > asked

    run(scripted_broker, work)
