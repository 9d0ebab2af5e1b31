"""Clients whose own tasks are cancelled from outside: by asyncio.run in the end, or by a program that cancels all tasks
before it closes what it has."""

import asyncio
from typing import Any

import pytest

from odradek import TopicPartition
from odradek.aio import Consumer, Producer
from odradek.client.errors import ClientClosed
from odradek.testing import run

PLACE = TopicPartition("t", 0)
LONG_MS = 3_600_000
SOON_S = 1.0


def cancel_tasks_of(client: Any) -> None:
    for tasks in (client._engine.tasks, client._engine.cluster.tasks):
        tasks.close()


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("on_the_wire", [False, True])
def test_a_producer_fails_what_it_will_not_send_any_more(transactional: bool, on_the_wire: bool) -> None:
    """Its futures, flush and close waited for ever."""

    async def main(cluster: Any) -> None:
        settings: dict[str, Any] = {"linger_ms": 0 if on_the_wire else 60_000, "delivery_timeout_ms": 120_000}
        if transactional:
            settings["transactional_id"] = "id"
        producer = await Producer(bootstrap_servers=cluster.bootstrap, **settings).start()
        if transactional:
            await producer.init_transactions()
            await producer.begin_transaction()
        if on_the_wire:
            await (await producer.send("t", b"first", partition=0))
            await cluster.suspend(0)
        report = await producer.send("t", b"second", partition=0)
        await asyncio.sleep(SOON_S if on_the_wire else 0)
        cancel_tasks_of(producer)
        with pytest.raises(ClientClosed, match="its tasks were cancelled"):
            await report
        await asyncio.wait_for(producer.flush(), SOON_S)
        with pytest.raises(ClientClosed):
            await producer.send("t", b"third", partition=0)
        await asyncio.wait_for(producer.close(), SOON_S)

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_a_producer_whose_tasks_are_cancelled_before_they_have_begun_says_so() -> None:
    """Its records and its close waited for ever."""

    async def main(cluster: Any) -> None:
        producer = await Producer(bootstrap_servers=cluster.bootstrap).start()
        cancel_tasks_of(producer)
        with pytest.raises(ClientClosed, match="its tasks were cancelled"):
            await asyncio.wait_for(send_and_wait(producer), SOON_S)
        await asyncio.wait_for(producer.close(), SOON_S)

    run(main, brokers=1, topics={"t": 1}, seed=7)


async def send_and_wait(producer: Producer) -> None:
    await (await producer.send("t", b"x", partition=0))


def test_a_consumer_says_that_nothing_comes_any_more_and_commits_what_it_has_read() -> None:
    """Polls returned nothing from then on, as if the topics were empty."""

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            await producer.send("t", b"x", partition=0)
        settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": "g"}
        async with Consumer("t", auto_offset_reset="earliest", **settings) as consumer:
            assert len((await consumer.getmany(LONG_MS))[PLACE]) == 1
            polling = asyncio.ensure_future(consumer.getone())
            await asyncio.sleep(0.1)
            cancel_tasks_of(consumer)
            for poll in (polling, consumer.getone(), consumer.getmany(LONG_MS)):
                with pytest.raises(ClientClosed, match="its tasks were cancelled"):
                    await poll
        async with Consumer(**settings) as other:
            assert await other.committed(PLACE) == 1

    run(main, brokers=1, topics={"t": 1}, seed=7)
