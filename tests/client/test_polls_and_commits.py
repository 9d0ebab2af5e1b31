"""Polls that find an automatic commit due, or another poll under way; seeks that are refused."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from odradek import ClientError, TopicPartition
from odradek.aio import Consumer, Producer
from odradek.client.consumer.member_states import State
from odradek.client.errors import ConfigError
from odradek.testing import run
from odradek.testing.patience import PATIENCE_SECONDS
from tests.client.fetched_chunks import T0, Bench, batch

PLACE = TopicPartition("t", 0)
LONG_MS = 3_600_000
RECORDS = 100


def test_a_poll_amid_a_rebalance_returns_what_is_there_though_a_commit_is_due() -> None:
    """It may not be sent then: the poll tried it again and again, and never let its loop hear that all have joined."""

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for number in range(2 * RECORDS):
                await producer.send("t", b"x", partition=number % 2)
        settings: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap,
            "group_id": "g",
            "partition_assignment_strategy": "cooperative-sticky",
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 100,
            "heartbeat_interval_ms": 300,
            "max_poll_records": 1,
        }
        async with Consumer("t", **settings) as first, Consumer("t", **settings) as second:
            while not first.assignment() or not second.assignment():
                await asyncio.gather(first.getmany(100), second.getmany(100))
            async with Consumer("t", **settings) as third:  # the second does not poll, and so does not join again
                joining = asyncio.ensure_future(third.getmany(LONG_MS))
                membership = first._group.membership  # type: ignore[union-attr]
                while membership.state is not State.JOINING:
                    await first.getmany(0)
                    await asyncio.sleep(0.1)
                for _ in range(10):
                    await asyncio.sleep(0.1)
                    assert await first.getmany(LONG_MS)
                assert membership.state is State.JOINING
                joining.cancel()

    run(main, brokers=1, topics={"t": 2}, seed=7)


def test_a_consumer_that_commits_as_often_as_it_can_reads_all_the_same() -> None:
    """Each poll began a commit, found that the next was due, and began that: its loop stood still."""

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for _ in range(RECORDS):
                await producer.send("t", b"x", partition=0)
        settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": "g"}
        async with Consumer("t", **settings, auto_offset_reset="earliest", auto_commit_interval_ms=0) as consumer:
            for _ in range(RECORDS):
                assert await consumer.getone()
                await asyncio.sleep(0.01)
            assert 0 < await consumer.committed(PLACE) < RECORDS
        async with Consumer(**settings) as other:
            assert await other.committed(PLACE) == RECORDS

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_iterating_goes_on_behind_an_automatic_commit_though_no_more_records_come() -> None:
    """It waited for new ones, for ever, with up to max.poll.records that it had decoded."""

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for _ in range(RECORDS):
                await producer.send("t", b"x", partition=0)
        settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": "g"}
        async with Consumer("t", **settings, auto_offset_reset="earliest") as consumer:
            began = asyncio.get_running_loop().time()
            async for record in consumer:
                await asyncio.sleep(1)
                if record.offset == RECORDS - 1:
                    break
            assert asyncio.get_running_loop().time() - began < RECORDS + 5

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_who_commits_without_joining_looks_the_coordinator_up_only_when_it_has_moved() -> None:
    """It asked for the coordinator before each commit and each look at the group's offsets."""

    async def main(cluster: Any) -> None:
        await cluster.create_topic("t")
        settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": "g", "client_id": "alone"}
        async with Consumer(enable_auto_commit=False, **settings) as consumer:
            consumer.assign([PLACE])
            assert await consumer.position(PLACE) == 0
            before = len(await cluster.requests("FindCoordinator", "alone"))
            for offset in range(10):
                await consumer.commit({PLACE: offset})
                assert await consumer.committed(PLACE) == offset
            assert len(await cluster.requests("FindCoordinator", "alone")) == before
            await cluster.coordinator_moves("g")
            await consumer.commit({PLACE: 20})
            assert await consumer.committed(PLACE) == 20

    run(main)


def test_who_polls_while_another_does_is_refused_and_in_nobodys_way() -> None:
    """Two threads that polled at once were told "generator already executing", and the consumer then read nothing."""
    refused: list[str] = []

    def poll_as_well(topic: str, headers: object, data: bytes | None) -> bytes | None:
        for poll in (lambda: bench.buffer.take(10), bench.buffer.next_record):
            with ThreadPoolExecutor(1) as other, pytest.raises(ClientError) as told:
                other.submit(poll).result(PATIENCE_SECONDS)
            refused.append(str(told.value))
        return data

    bench = Bench(poll_as_well)
    bench.start(T0)
    bench.arrive(T0, batch(0, b"a", b"b"))
    assert bench.values() == [b"a", b"b"]
    assert len(refused) == 4 and all("for one thread" in one for one in refused)
    bench.arrive(T0, batch(2, b"c"))
    assert bench.values() == [b"c"]


@pytest.mark.parametrize("name", ["seek_to_beginning", "seek_to_end", "seek_to_committed", "pause"])
def test_what_is_refused_for_one_partition_is_done_for_none(name: str) -> None:
    """Those before it were sought all the same."""

    async def main(cluster: Any) -> None:
        async with Consumer(bootstrap_servers=cluster.bootstrap, group_id="g") as consumer:
            consumer.assign([PLACE])
            consumer.seek(PLACE, 5)
            with pytest.raises(ConfigError, match="t-1 is not assigned to this consumer"):
                getattr(consumer, name)(PLACE, TopicPartition("t", 1))
            assert await consumer.position(PLACE) == 5
            assert consumer.paused() == set()

    run(main, brokers=1, topics={"t": 2})


def test_a_commit_of_nothing_waits_for_those_before_it() -> None:
    """It returned at once: the callbacks of earlier commits, which a commit that waits is to come after, were not
    called (PlaintextConsumerCommitTest)."""

    async def main(cluster: Any) -> None:
        told: list[Exception | None] = []
        async with Consumer(bootstrap_servers=cluster.bootstrap, group_id="g") as consumer:
            consumer.assign([T0])
            for offset, after in ((1, {}), (2, None), (3, {TopicPartition("t", 1): 7})):
                consumer.commit_later({T0: offset}, lambda _, error: told.append(error))
                await consumer.commit(after)
                assert told == [None] * offset
                assert await consumer.committed(T0) == offset

    run(main, brokers=1, topics={"t": 2})
