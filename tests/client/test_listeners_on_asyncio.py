"""Rebalance listeners that are coroutines, when the poll that called them is cancelled, or the consumer closed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek import RebalanceListener, TopicPartition
from odradek.aio import Consumer, Producer
from odradek.client.errors import ClientClosed, ClientError
from odradek.testing import run

PLACE = TopicPartition("t", 0)
LONG_S = 3_600
RECORDS = 6


class Thinking(RebalanceListener):
    """Seeks once it may, and says so; `seek` may be anything else."""

    def __init__(self, seek: Callable[[], object]) -> None:
        self._seek = seek
        self.may = asyncio.Event()
        self.heard: list[str] = []

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.heard.append("assigned")
        await self.may.wait()
        self._seek()
        self.heard.append("sought")

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.heard.append("revoked")


def with_a_cancelled_poll(
    seek: Callable[[Consumer], object], then: Callable[[Consumer, Thinking], Awaitable[None]]
) -> None:
    """`then` gets a consumer whose poll was cancelled while its listener was at work, and that listener."""

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for number in range(RECORDS):
                await producer.send("t", b"%d" % number, partition=0)
        consumer = Consumer(bootstrap_servers=cluster.bootstrap, group_id="g", auto_offset_reset="earliest")
        async with consumer:
            listener = Thinking(lambda: seek(consumer))
            consumer.subscribe(["t"], listener=listener)
            polling = asyncio.ensure_future(consumer.getmany(LONG_S * 1_000))
            while not listener.heard:
                await asyncio.sleep(0.01)
            polling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await polling
            await then(consumer, listener)

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_a_rebalance_listener_comes_to_its_end_whatever_becomes_of_the_poll() -> None:
    """It died with the poll and was not called again: who seeks in it read from somewhere else."""

    async def then(consumer: Consumer, listener: Thinking) -> None:
        again = asyncio.ensure_future(consumer.getmany(LONG_S * 1_000))
        await asyncio.sleep(1)
        assert not again.done()
        listener.may.set()
        assert [record.offset for record in (await again)[PLACE]] == [4, 5]
        assert listener.heard == ["assigned", "sought"]

    with_a_cancelled_poll(lambda consumer: consumer.seek(PLACE, 4), then)


def test_the_next_poll_raises_what_a_listener_has_raised_since() -> None:
    async def then(consumer: Consumer, listener: Thinking) -> None:
        listener.may.set()
        await asyncio.sleep(1)
        with pytest.raises(ZeroDivisionError):
            await consumer.getmany(LONG_S * 1_000)
        assert [record.offset for record in (await consumer.getmany(LONG_S * 1_000))[PLACE]][:1] == [0]
        assert listener.heard == ["assigned"]

    with_a_cancelled_poll(lambda consumer: 1 / 0, then)


@pytest.mark.parametrize("way", ["close", "unsubscribe"])
def test_a_listener_at_work_is_let_to_its_end_before_partitions_are_given_up(way: str) -> None:
    async def then(consumer: Consumer, listener: Thinking) -> None:
        ending = asyncio.ensure_future(getattr(consumer, way)())
        await asyncio.sleep(1)
        assert listener.heard == ["assigned"]
        listener.may.set()
        await ending
        assert listener.heard == ["assigned", "sought", "revoked"]

    with_a_cancelled_poll(lambda consumer: consumer.seek(PLACE, 4), then)


def test_a_close_waits_only_so_long_for_a_listener_at_work() -> None:
    async def then(consumer: Consumer, listener: Thinking) -> None:
        await consumer.close(timeout_ms=500)
        listener.may.set()
        await asyncio.sleep(1)
        assert listener.heard == ["assigned", "revoked"]

    with_a_cancelled_poll(lambda consumer: consumer.seek(PLACE, 4), then)


@pytest.mark.parametrize("own_task", [False, True])
def test_a_listener_that_polls_is_told_that_it_may_not(own_task: bool) -> None:
    told: list[str] = []

    class Polling(RebalanceListener):
        def __init__(self, consumer: Consumer) -> None:
            self.consumer = consumer

        async def on_partitions_assigned(self, assigned: Any) -> None:
            poll = self.consumer.getmany(LONG_S * 1_000)
            with pytest.raises(ClientError) as refused:
                await (asyncio.ensure_future(poll) if own_task else poll)
            told.append(str(refused.value))
            self.consumer.wakeup()

        async def on_partitions_revoked(self, revoked: Any) -> None:
            await self.consumer.close()

    async def main(cluster: Any) -> None:
        async with Consumer(bootstrap_servers=cluster.bootstrap, group_id="g") as consumer:
            consumer.subscribe(["t"], listener=Polling(consumer))
            assert await consumer.getmany(LONG_S * 1_000) == {}
            consumer.subscribe(["other"], listener=Polling(consumer))
            with pytest.raises(ClientClosed):
                await consumer.getmany(LONG_S * 1_000)

    run(main, brokers=1, topics={"t": 1, "other": 1}, seed=7)
    assert told == ["a rebalance callback cannot poll: the poll that calls it is waiting"]
