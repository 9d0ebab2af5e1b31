"""Senders that wait for memory: those who came first are served first, however much they need."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from odradek.aio import Producer
from odradek.client.producer.send_waits import SendWaits
from odradek.testing import run

SMALL, LARGE = bytes(400), bytes(12_000)
SETTINGS: dict[str, Any] = {"buffer_memory": 20_000, "batch_size": 1_000, "max_block_ms": 20_000}
SOON_S = 2


async def slow_producer(cluster: Any) -> Producer:
    """Return one whose memory is full as soon as some records are sent."""
    producer = await Producer(bootstrap_servers=cluster.bootstrap, **SETTINGS).start()
    await (await producer.send("t", b"", partition=0))
    await cluster.delay("Produce", 20, times=None)
    return producer


def test_small_records_do_not_keep_a_large_one_waiting_for_ever() -> None:
    """They took all memory that was freed: after max.block.ms the large one was refused, time and again."""

    async def main(cluster: Any) -> None:
        producer = await slow_producer(cluster)

        async def send_small(partition: int) -> None:
            while True:
                await producer.send("t", SMALL, partition=partition)

        senders = [asyncio.ensure_future(send_small(number % 4)) for number in range(30)]
        await asyncio.sleep(1)
        await asyncio.wait_for(producer.send("t", LARGE, partition=0), SOON_S)
        await asyncio.wait_for(producer.send("t", SMALL, partition=0), SOON_S)
        for sender in senders:
            sender.cancel()
        await asyncio.wait(senders)
        await producer.close()

    run(main, brokers=1, topics={"t": 4}, seed=7)


def test_who_waits_behind_one_that_gives_up_goes_on() -> None:
    async def main(cluster: Any) -> None:
        producer = await slow_producer(cluster)
        await cluster.suspend(0)
        while producer.engine.accumulator.used_bytes < 15_000:
            await producer.send("t", SMALL, partition=0)
        first = asyncio.ensure_future(producer.send("t", LARGE, partition=0))
        await asyncio.sleep(0)
        behind = [asyncio.ensure_future(producer.send("t", SMALL, partition=0)) for _ in range(3)]
        await asyncio.sleep(0.5)
        assert not any(one.done() for one in behind)
        first.cancel()
        await asyncio.wait_for(asyncio.gather(*behind), 0.1)
        assert not producer.engine.accumulator.memory_waiters
        await cluster.resume(0)
        await producer.close()

    run(main, brokers=1, topics={"t": 4}, seed=7)


def test_who_waits_is_woken_though_another_comes_just_now() -> None:
    """The one who came had none of the memory, and did not wake the first, for whom it was."""

    class JoinedMeanwhile(dict[Any, int]):
        def __iter__(self) -> Iterator[Any]:
            waiters = super().__iter__()
            if len(self) < 2:
                self[print] = 1
            return waiters

    woken: list[str] = []
    waiting = JoinedMeanwhile({lambda: woken.append("first"): 1})
    engine: Any = SimpleNamespace(accumulator=SimpleNamespace(memory_waiters=waiting))
    SendWaits(engine).memory_freed()
    assert woken == ["first"]
