"""Worlds that the contract is run in, and their clients: asyncio ones, or blocking ones behind `Awaited`."""

import asyncio
import inspect
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from odradek.aio import Admin, Consumer, Producer
from odradek.client.admin.client import KafkaAdminClient
from odradek.client.admin.values import (
    NewTopic,
)
from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.consumer.client import KafkaConsumer
from odradek.client.original import (
    SimpleConsumer,
)
from odradek.client.original.simple_consumer import SimpleConsumerCore
from odradek.client.producer.client import KafkaProducer
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.testing.patience import PATIENCE_SECONDS

LONG_MS = PATIENCE_SECONDS * 1000
ROUND_SECONDS = 0.1
ROUNDS = int(PATIENCE_SECONDS / ROUND_SECONDS)
FACES: Mapping[type, type] = {
    Producer: KafkaProducer,
    Consumer: KafkaConsumer,
    Admin: KafkaAdminClient,
    SimpleConsumerCore: SimpleConsumer,
}
RENAMED = {"getmany": "poll", "commit_later": "commit_async"}
"""Methods that have another name in the blocking form."""


class Awaited:
    """A blocking client with the methods of the asyncio one: what waits there runs in a thread here."""

    def __init__(self, core: type, *positional: Any, **settings: Any) -> None:
        self._core = core
        self._blocking = FACES[core](*positional, **settings)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._blocking, RENAMED.get(name, name))
        if inspect.iscoroutinefunction(getattr(self._core, name)):
            return partial(asyncio.to_thread, found)
        return found

    async def send(self, *given: Any, **named: Any) -> Any:
        return await asyncio.to_thread(partial(self._blocking.send, *given, **named))

    async def getone(self, timeout_ms: float = LONG_MS) -> Any:
        return await asyncio.to_thread(partial(next, self._blocking, None))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        manager = self._blocking.transaction()
        await asyncio.to_thread(manager.__enter__)
        try:
            yield
        except BaseException as error:
            await asyncio.to_thread(manager.__exit__, type(error), error, None)
            raise
        await asyncio.to_thread(manager.__exit__, None, None, None)


class ContractWorld:
    """Makes clients of one cluster, and closes them.

    `kraft`: it is Kafka 4's, which has features and no old versions. `world`: network, clock and random, for the
    virtual one.
    """

    _numbers = itertools.count()

    def __init__(self, bootstrap: list[str], *, blocking: bool = False, kraft: bool = False, **world: Any) -> None:
        self.bootstrap, self.kraft, self._blocking, self._world = bootstrap, kraft, blocking, world
        self._stack = AsyncExitStack()
        self.name = f"contract-{next(self._numbers)}-{'blocking' if blocking else 'aio'}"

    async def __aenter__(self) -> "ContractWorld":
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.aclose()

    async def _made(self, core: type, *positional: Any, **settings: Any) -> Any:
        if core is not SimpleConsumerCore:
            settings = {"bootstrap_servers": self.bootstrap, **settings}
        if self._blocking:
            client: Any = await asyncio.to_thread(partial(Awaited, core, *positional, **settings))
        else:
            client = await core(*positional, **self._world, **settings).start()
        self._stack.push_async_callback(client.close)
        return client

    async def producer(self, **settings: Any) -> Any:
        return await self._made(Producer, **settings)

    async def consumer(self, *topics: str, **settings: Any) -> Any:
        defaults = {"auto_offset_reset": "earliest", "consumer_timeout_ms": LONG_MS, "fetch_max_wait_ms": 50}
        return await self._made(Consumer, *topics, **{**defaults, **settings})

    async def admin(self) -> Any:
        return await self._made(Admin)

    async def simple_consumer(self, host: str, port: int) -> Any:
        return await self._made(SimpleConsumerCore, host, port)

    async def topic(self, partitions: int = 1, values: int = 0, suffix: str = "") -> str:
        """Create a topic that every broker knows, with values b"0", b"1", … in its partition 0; return its name."""
        name = f"{self.name}{suffix}"
        admin = await self.admin()
        await admin.create_topics([NewTopic(name, partitions, 1, configs={"retention.ms": "-1"})])
        await self.until(lambda: self._known_everywhere(name), f"{name} in the metadata of every broker")
        if values:
            producer = await self.producer()
            reports = [await producer.send(name, b"%d" % number, partition=0) for number in range(values)]
            for report in reports:
                await report
        return name

    async def _known_everywhere(self, topic: str) -> bool:
        question = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        async with Admin(bootstrap_servers=self.bootstrap, **self._world) as admin:

            async def ask(cluster: Cluster, deadline: Deadline) -> bool:
                await cluster.refresh()
                answers = [await cluster.request(node, question, MetadataResponse) for node in cluster.view.nodes]
                return not any(one.error_code for answer in answers for one in answer.topics)

            return await admin._run("asking every broker", ask)

    async def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Look again until something is there: clusters need a moment to agree."""
        for _ in range(ROUNDS):
            found = condition()
            found = await found if inspect.isawaitable(found) else found
            if found:
                return found
            await asyncio.sleep(ROUND_SECONDS)
        raise AssertionError(f"never came: {what}")


async def read(consumer: Any, count: int) -> list[bytes]:
    """Return the values of the next records."""
    found: list[bytes] = []
    for _ in range(200):
        if len(found) >= count:
            break
        for records in (await consumer.getmany(500)).values():
            found += [record.value for record in records]
    return found


async def raises(kind: type[Exception], work: Any) -> Any:
    """Return what an awaitable, or a call, raises."""
    try:
        result = work() if callable(work) else work
        if inspect.isawaitable(result):
            await result
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was to be raised")
