"""The connector on its loop: the member of the group, its offsets, and what fills the streams that are read.

ConsumerConnector is this on a thread of its own, for programs whose threads read the streams.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from odradek.client.cluster import Cluster
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.errors import BrokerUnreachable, ClientClosed
from odradek.client.records import TopicPartition
from odradek.client.zookeeper.config import ConnectorSettings
from odradek.client.zookeeper.consumption import Consumption
from odradek.client.zookeeper.fetch_loop import FetchLoop
from odradek.client.zookeeper.member import Member
from odradek.client.zookeeper.offset_storage import NOT_COMMITTED, OffsetKeeper, storage_of
from odradek.client.zookeeper.streams import MessageStream
from odradek.client.zookeeper.subscriptions import consumer_id_of
from odradek.world.clock import Clock
from odradek.world.network import Network
from odradek.world.tasks import OnDeath, Tasks
from odradek.zk_schema.store import Store, StoreError
from odradek.zk_schema.znodes.consumers import ConsumerRegistration

logger = logging.getLogger(__name__)

ANY_TOPIC = ""
"""Key of the streams of a topic filter, which serve all topics."""


class StreamTable:
    """The application's streams by topic and thread."""

    def __init__(self) -> None:
        self._streams: dict[str, list[MessageStream]] = {}

    def add(self, topic: str, streams: list[MessageStream]) -> None:
        self._streams[topic] = streams

    def stream_of(self, topic: str, thread: int) -> MessageStream:
        streams = self._streams[topic] if topic in self._streams else self._streams[ANY_TOPIC]
        return streams[thread]

    def all_streams(self) -> Iterable[MessageStream]:
        return [stream for streams in self._streams.values() for stream in streams]


class ConnectorCore:
    """A connector on its event loop, with a ZooKeeper session that the caller opens. For the loop's thread only."""

    def __init__(
        self,
        settings: ConnectorSettings,
        store: Store,
        clock: Clock,
        random: Random,
        host: str,
        network: Callable[[ConsumerSettings], Network],
    ) -> None:
        """`host` becomes part of the consumer id, unless consumer.id is set; `network` is called once the first brokers
        are known, and returns the network to reach them by."""
        self.streams = StreamTable()
        self.keeper = OffsetKeeper(storage_of(settings, store, self._known_cluster))
        self.consumption = Consumption(clock, self.streams, self.keeper.stored)
        if settings.consumer_id is None:
            consumer_id = consumer_id_of(settings.group_id, host, clock.now_ms(), random.getrandbits(32))
        else:
            consumer_id = f"{settings.group_id}_{settings.consumer_id}"
        self.member = Member(store, clock, settings, consumer_id, self.consumption, self.keeper, self._brokers_seen)
        self._settings, self._store, self._clock, self._random = settings, store, clock, random
        self._network = network
        self._starter = Tasks(clock, lambda said: None)
        self._tasks: list[asyncio.Task[None]] = []
        self._fault: Exception | None = None
        """Fault in this program by which a task has died; the member has left its group then."""
        self._leaving: asyncio.Task[None] | None = None
        self._cluster: Cluster | None = None
        self._fetch_loop: FetchLoop | None = None
        self._bootstrap: list[str] = []

    @property
    def consumer_id(self) -> str:
        """Return the consumer id of this member."""
        return self.member.balance.consumer_id

    async def begin(self, registration: ConsumerRegistration) -> None:
        """Join the group; return when the member has its partitions, or has logged that it cannot get them."""
        self.member.join(ConsumerRegistration(registration.subscription, registration.pattern, self._clock.now_ms()))
        running = self._spawn(self.member.run())
        if self._settings.auto_commit_enable:
            self._spawn(self.member.commit_periodically())
        decided = self._spawn(self.member.decided())
        await asyncio.wait([running, decided], return_when=asyncio.FIRST_COMPLETED)
        if self._fault is not None:
            raise self._fault
        if running.done():
            running.result()

    async def commit(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        """Commit these offsets; None: all that was handed out. Raises StoreError, ClientError, KafkaError."""
        if self._fault is not None:
            raise ClientClosed(f"this connector is broken, and has left its group: {self._fault!r}") from self._fault
        retries = self._settings.offsets_commit_max_retries
        if offsets and self._cluster is None and self._settings.offsets_storage == "kafka":
            await self.member.look_for_brokers()  # the member has not joined yet, which looks for them, too
        if offsets is None:
            await self.member.commit(retries=retries)
        else:
            await self.keeper.commit(lambda: offsets, retries, unchanged=True)  # others may have changed them since

    async def close(self, *, in_hand: bool) -> None:
        """Commit (with auto.commit.enable), and leave the group. `in_hand`: commit messages in hand as well."""
        try:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._leaving is not None:
                await asyncio.wait([self._leaving])
            for stream in self.streams.all_streams():
                stream.stop()
            await self._commit_at_last(in_hand=in_hand)
        finally:  # also when interrupted: otherwise other members wait for the partitions until the session expires
            with suppress(StoreError):
                await self._store.close()
        if self._cluster is not None and self._fetch_loop is not None:
            await self._fetch_loop.end_sessions()
            self._cluster.close()

    async def _commit_at_last(self, *, in_hand: bool) -> None:
        if self._settings.auto_commit_enable and self._store.connected:
            limit_seconds = self._store.session_timeout_ms / 1000
            try:
                await asyncio.wait_for(self.member.commit(in_hand=in_hand), limit_seconds)
            except (StoreError, TimeoutError, *NOT_COMMITTED) as error:
                logger.warning("%s: offsets not committed: %s", self.consumer_id, error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._starter.result_of(self.consumer_id, lambda: work)
        self._tasks.append(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """After a task's exception, which is a fault in this program, leave the group, whose other members read on, and
        hand the exception to the readers of all streams."""
        fault = None if task.cancelled() else task.exception()
        if self._fault is not None or not isinstance(fault, Exception):
            return
        self._fault = fault
        logger.error("%s: broken: it leaves its group, and others get its partitions", self.consumer_id, exc_info=fault)
        for other in self._tasks:
            other.cancel()
        self.consumption.abandon()
        for stream in self.streams.all_streams():
            stream.break_off(fault)
        self._leaving = self._starter.spawn(f"{self.consumer_id}: leave", self._store.close, OnDeath.REPORT)

    def _known_cluster(self) -> Cluster:
        if self._cluster is None:
            raise BrokerUnreachable("brokers", "none is registered in ZooKeeper")
        return self._cluster

    def _brokers_seen(self, addresses: Sequence[str]) -> None:
        """Take registered brokers as bootstrap addresses; with the first ones, begin to use the cluster."""
        if not addresses or list(addresses) == self._bootstrap:
            return
        if self._cluster is not None:
            self._cluster.bootstrap_from(addresses)
            self._bootstrap = list(addresses)
            return
        settings = self._settings.for_brokers(list(addresses))
        self._bootstrap = list(addresses)
        self._cluster = Cluster(self._network(settings), self._clock, self._random, settings)
        loop = FetchLoop(self._cluster, settings, self.consumption, self._settings.reset_timestamp)
        self._fetch_loop = loop
        self._spawn(loop.run())
