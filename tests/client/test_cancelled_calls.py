"""Calls of the asyncio clients that are ended in the middle: cancelled, closed as a generator, hit by an exception.

Each call is begun again and again by a new client, and ended at another turn of the loop each time: so it is struck at
every place where it, or what works for it, waits. Afterwards the client goes on, holds nothing of the call, and closes.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from odradek import ConfigResource, ConsumerGroupMetadata, NewTopic, OffsetSpec, RebalanceListener, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.client.aio.opening import AsyncClient
from odradek.testing import run

PLACE = TopicPartition("t", 0)
LONG_S = 3_600
SOON_S = 1.0
"""Closing takes so long at most where all brokers are well."""
RECORDS = 6
Call = Callable[[Any], Awaitable[Any]]


class Struck(Exception):  # noqa: N818
    """Thrown into a call."""


class Blow:
    """Ends a coroutine at the n-th turn of the loop from its beginning on: by cancellation, GeneratorExit or Struck."""

    def __init__(self, turn: int, way: str) -> None:
        self._turn, self._way = turn, way
        self.turns = 0
        self.struck = False

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it. Raises CancelledError, GeneratorExit or Struck when that has ended it."""
        loop: Any = asyncio.get_running_loop()
        stop: asyncio.Future[None] = loop.create_future()
        task = asyncio.ensure_future(work if self._way == "cancelled" else self._drive(work, stop))
        one_turn = type(loop)._run_once

        def counted() -> None:
            self.turns += 1
            if self.turns == self._turn and not task.done():
                if self._way == "cancelled":
                    self.struck = task.cancel()
                else:
                    stop.set_result(None)
            one_turn(loop)

        loop._run_once = counted
        try:
            await task
        finally:
            del loop._run_once

    async def _drive(self, work: Coroutine[Any, Any, None], stop: "asyncio.Future[None]") -> None:
        """Do what a task does, so that something else than a cancellation can be thrown in."""
        hit = False
        while True:
            try:
                awaited = work.throw(Struck()) if hit else work.send(None)
            except StopIteration:
                return
            if awaited is None:
                await asyncio.sleep(0)
            else:
                awaited._asyncio_future_blocking = False
                await asyncio.wait([awaited] if stop.done() else [awaited, stop], return_when=asyncio.FIRST_COMPLETED)
            hit = stop.done() and not self.struck
            self.struck = stop.done()
            if hit and self._way == "closed":
                work.close()
                raise asyncio.CancelledError


async def strike_everywhere(
    call: Call, way: str, make: Callable[[], Awaitable[Any]], check: Callable[[Any], Awaitable[None]], source: Any
) -> int:
    """End a call at turns drawn from all that it has; tell how often it was struck."""
    blow, client = Blow(0, way), await make()
    await blow.run(awaited(call, client))
    await client.close()
    struck = 0
    for turn in sorted(source.sample(range(1, blow.turns + 1), min(8, blow.turns))):
        client, blow = await make(), Blow(turn, way)
        try:
            await blow.run(awaited(call, client))
        except (asyncio.CancelledError, Struck):
            assert blow.struck
        struck += blow.struck
        await check(client)
        began = asyncio.get_running_loop().time()
        await client.close()
        assert asyncio.get_running_loop().time() - began < SOON_S
        await asyncio.sleep(0.1)
        assert work_of(client) == set()
    return struck


async def awaited(call: Call, client: Any) -> None:
    await call(client)


def work_of(client: AsyncClient) -> set[str]:
    """Names of the tasks of a client that still run."""
    engine = getattr(client, "_engine", None)
    owners = [client._cluster.tasks] if engine is None else [engine.tasks, engine.cluster.tasks]  # type: ignore[attr-defined]
    return {task.get_name().rpartition(": ")[2] for tasks in owners for task in tasks._running}


WAYS = ["cancelled", "closed", "raised into"]


# -- producer ----------------------------------------------------------------------------------------------------------


async def send_and_wait(producer: Producer) -> None:
    await (await producer.send("t", b"struck", partition=0))


async def flush(producer: Producer) -> None:
    await producer.send("t", b"struck", partition=0)
    await producer.flush()


async def send_much(producer: Producer) -> None:
    """More than there is memory for."""
    for _ in range(4):
        await producer.send("t", bytes(600), partition=0)


async def open_transaction(producer: Producer) -> None:
    await producer.begin_transaction()
    await producer.send("t", b"struck", partition=0)


async def commit(producer: Producer) -> None:
    await open_transaction(producer)
    await producer.commit_transaction()


async def abort(producer: Producer) -> None:
    await open_transaction(producer)
    await producer.abort_transaction()


async def send_offsets(producer: Producer) -> None:
    await open_transaction(producer)
    await producer.send_offsets_to_transaction({PLACE: 1}, ConsumerGroupMetadata("g"))


async def block(producer: Producer) -> None:
    async with producer.transaction():
        await producer.send("t", b"struck", partition=0)


PRODUCER_CALLS: list[Call] = [
    send_and_wait,
    flush,
    send_much,
    lambda producer: producer.partitions_for("t"),
    lambda producer: producer.close(),
]
TRANSACTION_CALLS: list[Call] = [commit, abort, send_offsets, lambda producer: producer.init_transactions()]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("transactional", [False, True])
def test_a_producer_goes_on_after_any_call_was_ended(way: str, transactional: bool) -> None:
    delivered: list[Any] = []

    async def main(cluster: Any) -> None:
        settings: dict[str, Any] = {"linger_ms": 5, "buffer_memory": 1_500, "batch_size": 700}
        if transactional:
            settings["transactional_id"] = "id"

        async def make() -> Producer:
            producer = await Producer(bootstrap_servers=cluster.bootstrap, **settings).start()
            if transactional and call is not TRANSACTION_CALLS[-1]:
                await producer.init_transactions()
            return producer

        async def check(producer: Producer) -> None:
            if producer._closing:
                return
            assert not producer.engine.accumulator.memory_waiters
            if transactional:
                await end_what_is_open(producer)
                await producer.begin_transaction()
            report = await producer.send("t", b"after", partition=0)
            delivered.append((await report).offset)
            if transactional:
                await producer.commit_transaction()
            await producer.flush()
            accumulator = producer.engine.accumulator
            left = accumulator.used_bytes, accumulator.memory_waiters, accumulator.flushing, accumulator.unfinished
            assert left == (0, {}, 0, set())
            await asyncio.sleep(0.1)
            assert work_of(producer) == {f"producer {producer.config.client_id}"}

        calls = [*TRANSACTION_CALLS, block] if transactional else PRODUCER_CALLS
        for call in calls:
            if call is block and way == "closed":
                continue  # a block cannot wait for its abort then: Python forbids it
            assert await strike_everywhere(call, way, make, check, random.Random(7)) > 0
        there = {record.offset: record for record in await cluster.records("t")}
        assert {there[offset].value for offset in delivered} == {b"after"}
        assert {there[offset].transaction for offset in delivered} == {"committed" if transactional else None}

    run(main, brokers=1, topics={"t": 1}, seed=7)


async def end_what_is_open(producer: Producer) -> None:
    """What an application does that does not know how far it has come: it waits for what is pending, then aborts."""
    driver = producer.engine.transactions
    assert driver is not None
    pending = driver._pending.call
    if pending is not None:
        await getattr(producer, f"{pending.value}")()
    if driver._transaction.state.name == "UNINITIALISED":
        await producer.init_transactions()
    if driver._transaction.writing:
        await producer.abort_transaction()


# -- consumer ----------------------------------------------------------------------------------------------------------


class Slow(RebalanceListener):
    """Needs some turns of the loop for what it does."""

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await asyncio.sleep(0.01)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await asyncio.sleep(0.01)


class Reader:
    """A consumer, and what it has handed out."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.offsets: list[int] = []

    async def getmany(self) -> None:
        while not self.offsets:
            for records in (await self.consumer.getmany(1_000, max_records=2)).values():
                self.offsets += [record.offset for record in records]

    async def getone(self) -> None:
        record = await self.consumer.getone()
        assert record is not None
        self.offsets.append(record.offset)

    async def iterate(self) -> None:
        async for record in self.consumer:
            self.offsets.append(record.offset)
            if record.offset == 2:
                return

    async def commit(self) -> None:
        await self.getmany()
        await self.consumer.commit()

    async def unsubscribe(self) -> None:
        await self.getmany()
        await self.consumer.unsubscribe()

    async def close(self) -> None:
        await self.getmany()
        await self.consumer.close()


READER_CALLS: list[Call] = [
    Reader.getmany,
    Reader.getone,
    Reader.iterate,
    Reader.commit,
    Reader.unsubscribe,
    Reader.close,
    lambda reader: reader.consumer.committed(PLACE),
    lambda reader: reader.consumer.end_offsets([PLACE]),
    lambda reader: reader.consumer.topics(),
    lambda reader: reader.consumer.bootstrap(refresh=True),
]


@pytest.mark.parametrize("way", WAYS)
def test_a_consumer_hands_out_everything_after_any_call_was_ended(way: str) -> None:
    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for number in range(RECORDS):
                await producer.send("t", b"%d" % number, partition=0)
        readers: list[Reader] = []

        async def make() -> Consumer:
            settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
            consumer = await Consumer(**settings, group_id=f"g{len(readers)}", heartbeat_interval_ms=500).start()
            consumer.subscribe(["t"], listener=Slow())
            readers.append(Reader(consumer))
            return consumer

        async def check(consumer: Consumer) -> None:
            reader = readers[-1]
            if consumer._closing:
                return
            if not consumer.reads:  # it has unsubscribed
                consumer.subscribe(["t"])
            while not reader.offsets or reader.offsets[-1] < RECORDS - 1:
                for records in (await consumer.getmany(LONG_S * 1_000)).values():
                    reader.offsets += [record.offset for record in records]
            assert reader.offsets == list(range(RECORDS))
            await consumer.commit()
            assert await consumer.committed(PLACE) == RECORDS
            await asyncio.sleep(0.1)
            assert work_of(consumer) <= {"loop", "group", "fetch"}

        for call in READER_CALLS:
            if call is Reader.close and way == "closed":
                continue  # it leaves the group nevertheless, and Python forbids to wait for that then
            struck = await strike_everywhere(lambda _: call(readers[-1]), way, make, check, random.Random(7))  # noqa: B023
            assert struck > 0

    run(main, brokers=1, topics={"t": 1}, seed=7)


# -- admin -------------------------------------------------------------------------------------------------------------

ADMIN_CALLS: list[Call] = [
    lambda admin: admin.describe_cluster(),
    lambda admin: admin.create_topics([NewTopic("made", 1, 1)], raise_errors=False, wait_for_metadata=True),
    lambda admin: admin.delete_topics(["made"], raise_errors=False),
    lambda admin: admin.describe_configs([ConfigResource("TOPIC", "t")]),
    lambda admin: admin.alter_configs([ConfigResource("TOPIC", "t", configs={"retention.ms": "1000000"})]),
    lambda admin: admin.list_groups(),
    lambda admin: admin.group_lag("g"),
    lambda admin: admin.list_partition_offsets({PLACE: OffsetSpec.LATEST}),
    lambda admin: admin.elect_leaders(topic_partitions=[PLACE], raise_errors=False),
    lambda admin: admin.describe_log_dirs(),
]


@pytest.mark.parametrize("way", WAYS)
def test_an_admin_client_goes_on_after_any_call_was_ended(way: str) -> None:
    async def main(cluster: Any) -> None:
        async def make() -> Admin:
            return await Admin(bootstrap_servers=cluster.bootstrap).start()

        async def check(admin: Admin) -> None:
            assert "t" in await admin.list_topics()
            await asyncio.sleep(0.1)
            assert work_of(admin) == set()

        for call in ADMIN_CALLS:
            assert await strike_everywhere(call, way, make, check, random.Random(7)) > 0

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_a_connection_that_fails_after_all_have_given_it_up_is_no_error_of_the_program() -> None:
    """Python 3.14 logged it as one, with its traceback."""

    async def main(cluster: Any) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.describe_log_dirs(brokers=[0])
            await cluster.suspend(1)
            asked = asyncio.ensure_future(admin.describe_log_dirs(brokers=[1]))
            await asyncio.sleep(SOON_S)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            await asyncio.sleep(LONG_S)

    run(main, brokers=2, topics={"t": 1}, seed=7)
