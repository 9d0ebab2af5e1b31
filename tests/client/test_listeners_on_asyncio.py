"""Rebalance listeners that are coroutines, when the poll that called them is cancelled, or the consumer closed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek import RebalanceListener, TopicPartition
from odradek.aio import Consumer, Producer
from odradek.client.errors import ClientClosed, ClientError, ConfigError
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


class Noting(RebalanceListener):
    """Notes what it hears, and does something then."""

    def __init__(self, **does: Callable[[], Awaitable[object]]) -> None:
        self.does = does
        self.heard: list[str] = []

    async def _note(self, what: str) -> None:
        self.heard.append(what)
        if what in self.does:
            await self.does[what]()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await self._note("assigned")

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await self._note("revoked")

    async def on_partitions_lost(self, lost: Any) -> None:
        await self._note("lost")


def test_a_listener_of_another_client_hears_of_lost_partitions_as_revoked() -> None:
    """aiokafka's, which knows nothing of lost ones, ended the poll with an AttributeError."""

    class Others:
        def __init__(self) -> None:
            self.heard: list[str] = []

        def __len__(self) -> int:
            return len(self.heard)  # nothing yet, and yet it is one: it was passed over

        async def on_partitions_assigned(self, assigned: Any) -> None:
            self.heard.append("assigned")

        async def on_partitions_revoked(self, revoked: Any) -> None:
            self.heard.append("revoked")

    async def main(cluster: Any) -> None:
        listener: Any = Others()
        async with Consumer(bootstrap_servers=cluster.bootstrap, group_id="g", max_poll_interval_ms=10_000) as consumer:
            consumer.subscribe(["t"], listener=listener)
            await consumer.getmany(5_000)
            assert listener.heard == ["assigned"]
            await asyncio.sleep(20)
            await consumer.getmany(5_000)
            assert listener.heard == ["assigned", "revoked", "assigned"]

    run(main, brokers=1, topics={"t": 1}, seed=7)


async def a_moment() -> None:
    await asyncio.sleep(0.1)


def test_tasks_that_poll_at_once_have_each_listener_called_once() -> None:
    """With an automatic commit before it, each of them called it."""

    async def main(cluster: Any) -> None:
        listener = Noting(assigned=a_moment, revoked=a_moment)
        async with Consumer(bootstrap_servers=cluster.bootstrap, group_id="g") as consumer:
            for topics in (["t"], ["t", "other"]):
                consumer.subscribe(topics, listener=listener)
                await asyncio.gather(*(consumer.getmany(5_000) for _ in range(3)))
        assert listener.heard == ["assigned", "revoked", "assigned", "revoked"]

    run(main, brokers=1, topics={"t": 1, "other": 1}, seed=7)


def test_a_listener_may_unsubscribe_and_the_application_assign_then() -> None:
    """The listener heard of a loss then, and what the application had assigned was gone."""

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            await producer.send("t", b"x", partition=0)
        async with Consumer(
            bootstrap_servers=cluster.bootstrap, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            listener = Noting(assigned=consumer.unsubscribe)
            consumer.subscribe(["t"], listener=listener)
            with pytest.raises(ConfigError, match="nothing to read"):
                while True:
                    await consumer.getmany(1_000)
            assert consumer.assignment() == set()
            consumer.assign([PLACE])
            assert len((await consumer.getmany(LONG_S * 1_000))[PLACE]) == 1
            assert listener.heard == ["assigned", "revoked"]

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_who_unsubscribes_when_something_is_revoked_is_assigned_nothing_more() -> None:
    async def main(cluster: Any) -> None:
        settings: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap,
            "group_id": "g",
            "partition_assignment_strategy": "cooperative-sticky",
        }
        async with Consumer(**settings) as first, Consumer("t", **settings) as second:
            listener = Noting()
            first.subscribe(["t"], listener=listener)
            while not listener.heard:
                await first.getmany(100)

            async def unsubscribe() -> None:
                listener.does.clear()
                await first.unsubscribe()

            listener.does["revoked"] = unsubscribe
            polling = asyncio.ensure_future(second.getmany(LONG_S * 1_000))
            with pytest.raises(ConfigError, match="nothing to read"):
                while True:
                    await first.getmany(1_000)
            assert first.assignment() == set()
            assert set(listener.heard[1:]) == {"revoked"}
            polling.cancel()

    run(main, brokers=1, topics={"t": 2}, seed=7)


def test_partitions_are_revoked_in_close_though_a_commits_callback_raises() -> None:
    async def main(cluster: Any) -> None:
        consumer = await Consumer(bootstrap_servers=cluster.bootstrap, group_id="g").start()
        listener = Noting()
        consumer.subscribe(["t"], listener=listener)
        while not listener.heard:
            await consumer.getmany(100)
        consumer.commit_later({PLACE: 0}, lambda offsets, error: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await consumer.close()
        assert listener.heard == ["assigned", "revoked"]

    run(main, brokers=1, topics={"t": 1}, seed=7)
