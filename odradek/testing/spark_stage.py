"""A cluster on the virtual clock, and in place of Spark: tasks and a driver that are called one by one, and can die."""

import asyncio
import random
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow

from odradek.aio import Admin, Consumer
from odradek.client.admin.values import NewTopic
from odradek.client.aio.world import World
from odradek.client.records import ConsumerRecord, TopicPartition
from odradek.client.spark import process
from odradek.client.spark.epochs import TaskResult
from odradek.client.spark.sink_options import SinkOptions, parse_sink
from odradek.client.spark.writing import Message, Place, abort, commit, write_task
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, VirtualLoop

SERVERS = {"kafka.bootstrap.servers": "broker-0:9092"}
QUERY = "5eed"
BROKER_SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
}


def rows(*values: str, **columns: Sequence[Any]) -> pyarrow.RecordBatch:
    """Return what Spark hands to a task: a column `value`, and others."""
    return pyarrow.RecordBatch.from_pydict({"value": list(values), **columns})


class Stage:
    """A cluster, and a process of Spark beside it."""

    def __init__(self, loop: VirtualLoop, runner: asyncio.Runner, brokers: int) -> None:
        self._loop, self._runner = loop, runner
        self.clock = VirtualClock(loop)
        self.cluster = EmbeddedCluster(self.clock, brokers, BROKER_SETTINGS)
        self.options = parse_sink({**SERVERS, "topic": "t", "transactionalId": "x"})
        self.world: dict[str, Any] = {"network": self.cluster.network.host("client"), "clock": self.clock}

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    def new_process(self) -> None:
        """Spark goes on in another process: whatever the former held open is dropped as a kill drops it."""
        before = process.here()
        self.run(_dropped(before))
        process.stand_in(process.Process(self.run, World(random=random.Random(0), **self.world)))

    def create(self, topic: str = "t", partitions: int = 3) -> None:
        async def create() -> None:
            async with Admin(bootstrap_servers="broker-0:9092", **self.world) as admin:
                await admin.create_topics([NewTopic(topic, partitions, 1)])

        self.run(create())

    def wait(self, seconds: float) -> None:
        """Let time pass."""

        async def wait() -> None:
            await self._sleep(seconds)

        self.run(wait())

    async def _sleep(self, seconds: float) -> None:
        slept = self._loop.create_future()
        self.clock.call_later(seconds * 1000, lambda: slept.set_result(None))
        await slept

    # -- Spark's part --------------------------------------------------------------------------------------------------

    def task(
        self, number: int, epoch: int | None, *batches: pyarrow.RecordBatch, options: SinkOptions | None = None
    ) -> Message:
        """Write one attempt of a task, from beginning to end; return its commit message."""
        query = QUERY if epoch is not None else None
        return Message(write_task(options or self.options, Place(number, query, epoch), batches))

    def tasks(self, epoch: int, *values: Sequence[str]) -> list[Any]:
        """Write all tasks of an epoch; each has the values of one list. Return their commit messages."""
        return [self.task(number, epoch, rows(*one)) for number, one in enumerate(values)]

    def commit(self, messages: Sequence[Message], **more: Any) -> None:
        commit(self.options, messages, **more)

    def abort(self, messages: Sequence[Message | None]) -> None:
        abort(self.options, messages)

    # -- what others see -----------------------------------------------------------------------------------------------

    def records(self, topic: str = "t", *, committed: bool = True) -> list[ConsumerRecord]:
        """Return all that a reader of committed data (or of all) is given now, by partition and offset."""

        async def read() -> list[ConsumerRecord]:
            level = "read_committed" if committed else "read_uncommitted"
            settings: dict[str, Any] = {
                "bootstrap_servers": "broker-0:9092",
                "isolation_level": level,
                "enable_auto_commit": False,
            }
            found: list[ConsumerRecord] = []
            async with Consumer(**settings, **self.world) as consumer:
                numbers = await consumer.partitions_for_topic(topic)
                places = [TopicPartition(topic, number) for number in sorted(numbers or ())]
                consumer.assign(places)
                consumer.seek_to_beginning(*places)
                ends = await consumer.end_offsets(places)
                while any([await consumer.position(one) < ends[one] for one in places]):
                    for some in (await consumer.getmany(timeout_ms=1_000)).values():
                        found += some
            return sorted(found, key=lambda one: (one.partition, one.offset))

        found: list[ConsumerRecord] = self.run(read())
        return found

    def values(self, topic: str = "t", *, committed: bool = True) -> list[str]:
        """Return the values, sorted."""
        return sorted(record.value.decode() for record in self.records(topic, committed=committed))


async def _dropped(before: process.Process) -> None:
    """Connections break and nothing is said: `stop` of each producer, and no more."""
    for session in list(before._sessions.values()):
        producer = getattr(session, "_producer", None)
        if producer is not None:
            producer.stop()
        session.cluster.close()  # type: ignore[attr-defined]  # every kind of session has one


@contextmanager
def stage(brokers: int = 1) -> Iterator[Stage]:
    """Run a stage with one cluster, from start to end."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        one = Stage(loop, runner, brokers)
        one.run(one.cluster.__aenter__())
        process.stand_in(process.Process(one.run, World(random=random.Random(0), **one.world)))
        try:
            yield one
        finally:
            one.run(process.here().close())
            process.stand_in(None)
            one.run(one.cluster.__aexit__(None, None, None))


def result(message: Message) -> TaskResult:
    """Return what a task told the driver."""
    assert message.result is not None
    return message.result
