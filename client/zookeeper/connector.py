"""ConsumerConnector: Kafka 0.8's high-level consumer, for programs whose threads read streams."""

import asyncio
import logging
import random
import socket
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from odradek.client import arguments
from odradek.client.cluster import Cluster
from odradek.client.connection import secured
from odradek.client.consumer.config import deserializer
from odradek.client.errors import BrokerUnreachable, ClientClosed, ClientError, ClientTimeout, ConfigError
from odradek.client.loop_thread import LoopThread
from odradek.client.records import TopicPartition
from odradek.client.zookeeper.config import settings_of
from odradek.client.zookeeper.consumption import Consumption
from odradek.client.zookeeper.fetch_loop import FetchLoop
from odradek.client.zookeeper.member import Member
from odradek.client.zookeeper.offset_storage import NOT_COMMITTED, OffsetKeeper, storage_of
from odradek.client.zookeeper.streams import MessageStream
from odradek.client.zookeeper.subscriptions import Blacklist, TopicFilter, Whitelist, consumer_id_of
from odradek.world.clock import LoopClock
from odradek.world.tasks import Tasks
from odradek.world.tcp import TcpNetwork
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.store import ConnectionLost, StoreError, ZooKeeperLoginRefused
from odradek.zk_schema.znodes.consumers import BLACK_LIST, STATIC, WHITE_LIST, ConsumerRegistration

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
ANY_TOPIC = ""
"""Key of the streams of a topic filter, which are the same for every topic."""


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


class ConsumerConnector:
    """A member of a consumer group that is balanced in ZooKeeper.

        connector = ConsumerConnector.create(zookeeper_connect="localhost:2181", group_id="g")
        streams = connector.create_message_streams({"topic": 2})["topic"]    # one thread of yours for each
        for message in streams[0]: ...
        connector.shutdown()

    Settings are Kafka 0.8's, as keywords or as a mapping with Kafka's names (client/zookeeper/config.py). Every method
    may be called from any thread; each stream is for one thread.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        """Connect to ZooKeeper, and log in if that is set.

        Raises ConfigError, ClientTimeout (zookeeper.connection.timeout.ms), ClientError for a login that is refused.
        """
        self._settings = settings_of(config, settings)
        self._thread = LoopThread(f"odradek-{self._settings.client_id or self._settings.group_id}")
        self._streams = StreamTable()
        self._created = False
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []
        self._cluster: Cluster | None = None
        self._fetch_loop: FetchLoop | None = None
        self._bootstrap: list[str] = []
        try:
            self._thread.run(self._open())
        except BaseException:
            self._thread.stop()
            raise

    @classmethod
    def create(cls, config: Mapping[str, Any] | None = None, **settings: Any) -> Self:
        """Create a connector, as the constructor does, under the name of Kafka's `Consumer.create(config)`."""
        return cls(config, **settings)

    @property
    def consumer_id(self) -> str:
        """Consumer id of this member: the name of its znode in /consumers/[group]/ids."""
        return self._member.balance.consumer_id

    # -- for the application -------------------------------------------------------------------------------------------

    def create_message_streams(
        self, topic_count: Mapping[str, int], key_decoder: Any = None, value_decoder: Any = None
    ) -> dict[str, list[MessageStream]]:
        """Join the group with so many streams for each topic; once for a connector.

        Returns when the member has its partitions, or has reported that it cannot get them (it goes on trying then).
        """
        for topic, count in topic_count.items():
            _check_count(count, arguments.topic_name(topic))
        if not topic_count:
            raise ConfigError("no topics: give {topic: number of streams}")
        registration = ConsumerRegistration(dict(topic_count), STATIC)
        return self._join(registration, topic_count, key_decoder, value_decoder)

    def create_message_streams_by_filter(
        self, topic_filter: TopicFilter | str, count: int = 1, key_decoder: Any = None, value_decoder: Any = None
    ) -> list[MessageStream]:
        """Join the group with so many streams for all topics of a `Whitelist` (a text is one) or not of a `Blacklist`.

        Topics that are created later belong to it too.
        """
        _check_count(count, "the filter")
        given = Whitelist(topic_filter) if isinstance(topic_filter, str) else topic_filter
        pattern = BLACK_LIST if isinstance(given, Blacklist) else WHITE_LIST
        registration = ConsumerRegistration({given.cleaned: count}, pattern)
        return self._join(registration, {ANY_TOPIC: count}, key_decoder, value_decoder)[ANY_TOPIC]

    def commit_offsets(self, offsets: Mapping[TopicPartition | tuple[str, int], int] | None = None) -> None:
        """Commit everything that the streams have handed out; or offsets given, of any partitions of the group.

        Raises ClientError, KafkaError; ConfigError, TypeError for offsets that are none.
        """
        if offsets is None:
            return self._run(self._commit(None))
        given = arguments.offsets_to_commit(offsets)
        return self._run(self._commit({name: position.offset for name, position in given.items()}))

    def shutdown(self) -> None:
        """Commit (with auto.commit.enable), leave the group at once, end all iterations; harmless twice."""
        self._shutdown(in_hand=True)

    def _shutdown(self, *, in_hand: bool) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._thread.run(self._close(in_hand=in_hand))
        finally:
            # Last of all: when its iterations end, a program may end too, and what is not done yet never will be.
            for stream in self._streams.all_streams():
                stream.close()
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Shut down; after an exception the messages in hand, whose processing may have failed, come again."""
        self._shutdown(in_hand=kind is None)

    # -- on the loop ---------------------------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        if self._closed:
            work.close()
            raise ClientClosed("the connector is shut down")
        try:
            return self._thread.run(work)
        except StoreError as error:
            raise ClientError(str(error)) from error

    async def _open(self) -> None:
        settings = self._settings
        self._clock = LoopClock(asyncio.get_running_loop())
        self._starter = Tasks(self._clock, lambda said: None)
        self._random = random.Random()
        # Once for its errors alone, at the door: keys and certificates that cannot be read, a login without a password.
        secured(TcpNetwork(asyncio.get_running_loop()), self._clock, settings)
        self._store = KazooStore(
            settings.zookeeper_connect,
            self._clock,
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
            make_chroot=False,
            link=settings.link(),
        )
        keeper = OffsetKeeper(storage_of(settings, self._store, self._known_cluster))
        self._keeper = keeper
        self._consumption = Consumption(self._clock, self._streams, keeper.stored)
        host = socket.gethostname()
        if settings.consumer_id is None:
            consumer_id = consumer_id_of(settings.group_id, host, self._clock.now_ms(), self._random.getrandbits(32))
        else:
            consumer_id = f"{settings.group_id}_{settings.consumer_id}"
        self._member = Member(
            self._store, self._clock, settings, consumer_id, self._consumption, keeper, self._brokers_seen
        )
        try:
            await self._store.start(settings.connection_timeout_ms)
        except ConnectionLost as error:
            raise ClientTimeout(
                f"ZooKeeper at {settings.zookeeper_connect} not reached within "
                f"zookeeper.connection.timeout.ms={settings.connection_timeout_ms}"
            ) from error
        except ZooKeeperLoginRefused as error:
            raise ClientError("ZooKeeper refuses the login of zookeeper.sasl.jaas.config") from error

    def _join(
        self, registration: ConsumerRegistration, counts: Mapping[str, int], key_decoder: Any, value_decoder: Any
    ) -> dict[str, list[MessageStream]]:
        if self._created:
            raise ClientError("this connector has created its message streams already: make another connector")
        key, value = deserializer(key_decoder, "key"), deserializer(value_decoder, "value")
        self._created = True
        created = {
            topic: [
                MessageStream(
                    self._settings.queued_max_message_chunks,
                    self._settings.consumer_timeout_ms,
                    key,
                    value,
                    lambda: self._thread.soon(self._consumption.wake),
                )
                for _ in range(count)
            ]
            for topic, count in counts.items()
        }
        for topic, streams in created.items():
            self._streams.add(topic, streams)
        self._run(self._begin(registration))
        return created

    async def _begin(self, registration: ConsumerRegistration) -> None:
        self._member.join(ConsumerRegistration(registration.subscription, registration.pattern, self._clock.now_ms()))
        running = self._spawn(self._member.run())
        if self._settings.auto_commit_enable:
            self._spawn(self._member.commit_periodically())
        decided = self._spawn(self._member.decided())
        await asyncio.wait([running, decided], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._starter.result_of(self.consumer_id, lambda: work)
        self._tasks.append(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """An error here is a mistake in this program: whoever reads must hear of it."""
        if not task.cancelled() and isinstance(task.exception(), Exception):
            logger.error("%s: broken", self.consumer_id, exc_info=task.exception())
            for stream in self._streams.all_streams():
                stream.fail(task.exception())  # type: ignore[arg-type]

    def _known_cluster(self) -> Cluster:
        if self._cluster is None:
            raise BrokerUnreachable("brokers", "none is registered in ZooKeeper")
        return self._cluster

    def _brokers_seen(self, addresses: Sequence[str]) -> None:
        """The first brokers that are seen are those to begin from; later ones come with the metadata."""
        if not addresses or list(addresses) == self._bootstrap:
            return
        self._bootstrap = list(addresses)
        if self._cluster is not None:
            self._cluster.bootstrap_from(self._bootstrap)
            return
        settings = self._settings.for_brokers(self._bootstrap)
        network = TcpNetwork(
            asyncio.get_running_loop(),
            send_buffer_bytes=settings.send_buffer_bytes,
            receive_buffer_bytes=settings.receive_buffer_bytes,
        )
        self._cluster = Cluster(network, self._clock, self._random, settings)
        loop = FetchLoop(self._cluster, settings, self._consumption, self._settings.reset_timestamp)
        self._fetch_loop = loop
        self._spawn(loop.run())

    async def _commit(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        retries = self._settings.offsets_commit_max_retries
        if offsets is None:
            await self._member.commit(retries=retries)
        else:
            await self._keeper.commit(lambda: offsets, retries, unchanged=True)  # others may have written since

    async def _close(self, *, in_hand: bool) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in self._streams.all_streams():
            stream.stop()
        if self._settings.auto_commit_enable and self._store.connected:
            limit_seconds = self._store.session_timeout_ms / 1000
            try:
                await asyncio.wait_for(self._member.commit(in_hand=in_hand), limit_seconds)
            except (StoreError, TimeoutError, *NOT_COMMITTED) as error:
                logger.warning("%s: offsets not committed: %s", self.consumer_id, error)
        with suppress(StoreError):
            await self._store.close()
        if self._cluster is not None and self._fetch_loop is not None:
            await self._fetch_loop.end_sessions()
            self._cluster.close()


def _check_count(count: object, what: str) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ConfigError(f"{what}: the number of streams must be at least 1, not {count!r}")
