"""ConsumerConnector: Kafka 0.8's high-level consumer, for programs whose threads read streams."""

import asyncio
import random
import socket
import threading
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from odradek.client import arguments
from odradek.client.connection import secured
from odradek.client.consumer.config import ConsumerSettings, deserializer
from odradek.client.errors import ClientClosed, ClientError, ClientTimeout, ConfigError
from odradek.client.loop_thread import LoopThread
from odradek.client.records import TopicPartition
from odradek.client.zookeeper.config import settings_of
from odradek.client.zookeeper.core import ANY_TOPIC, ConnectorCore
from odradek.client.zookeeper.listener import ConsumerRebalanceListener, ListenerOnThread
from odradek.client.zookeeper.streams import MessageStream
from odradek.client.zookeeper.subscriptions import Blacklist, TopicFilter, Whitelist
from odradek.world.clock import LoopClock
from odradek.world.tcp import TcpNetwork
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.kazoo_store.values import BadAddress
from odradek.zk_schema.store import ConnectionLost, SessionExpired, StoreError, ZooKeeperLoginRefused
from odradek.zk_schema.znodes.consumers import BLACK_LIST, STATIC, WHITE_LIST, ConsumerRegistration

Result = TypeVar("Result")


class ConsumerConnector:
    """A member of a consumer group that is balanced in ZooKeeper.

        connector = ConsumerConnector.create(zookeeper_connect="localhost:2181", group_id="g")
        streams = connector.create_message_streams({"topic": 2})["topic"]    # two streams, each for one thread
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
        self._created = False
        self._closed = False
        self._end = threading.RLock()
        """Held during the shutdown, for which other callers wait."""
        try:
            self._core = self._thread.run(self._opened())
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
        return self._core.consumer_id

    # -- for the application -------------------------------------------------------------------------------------------

    def create_message_streams(
        self, topic_count: Mapping[str, int], key_decoder: Any = None, value_decoder: Any = None
    ) -> dict[str, list[MessageStream]]:
        """Join the group with the number of streams given for each topic; only once for a connector.

        Returns when the member has its partitions, or has logged that it cannot get them, which it then keeps trying.
        Raises ConfigError, TypeError; ClientError if streams were created before.
        """
        for topic, count in arguments.mapping(topic_count, "topic_count").items():
            _check_count(count, arguments.topic_name(topic))
        if not topic_count:
            raise ConfigError("no topics: give {topic: number of streams}")
        registration = ConsumerRegistration(dict(topic_count), STATIC)
        return self._join(registration, topic_count, key_decoder, value_decoder)

    def create_message_streams_by_filter(
        self, topic_filter: TopicFilter | str, count: int = 1, key_decoder: Any = None, value_decoder: Any = None
    ) -> list[MessageStream]:
        """Join the group with `count` streams for all topics that match a `Whitelist` (or a text), or do not match a
        `Blacklist`, those created later too. Raises as `create_message_streams`.
        """
        _check_count(count, "the filter")
        given: object = Whitelist(topic_filter) if isinstance(topic_filter, str) else topic_filter
        if not isinstance(given, TopicFilter):
            said = f"topic_filter must be a Whitelist, a Blacklist or a string, not {type(given).__name__}: {given!r}"
            raise TypeError(said)
        pattern = BLACK_LIST if isinstance(given, Blacklist) else WHITE_LIST
        registration = ConsumerRegistration({given.cleaned: count}, pattern)
        return self._join(registration, {ANY_TOPIC: count}, key_decoder, value_decoder)[ANY_TOPIC]

    def set_consumer_rebalance_listener(self, listener: ConsumerRebalanceListener) -> None:
        """Have a listener told of rebalances: an object with `before_releasing_partitions(ownership)` and
        `before_starting_fetchers(consumer_id, assignment)`. Before the streams are created; ClientError after that.
        """
        for name in ("before_releasing_partitions", "before_starting_fetchers"):
            if not callable(getattr(listener, name, None)):
                raise TypeError(f"a rebalance listener needs a method {name}; {type(listener).__name__} has none")
        if self._created:
            raise ClientError("this connector has created its message streams already: set the listener before that")
        self._core.member.listener = ListenerOnThread(listener)

    def commit_offsets(self, offsets: Mapping[TopicPartition | tuple[str, int], int] | None = None) -> None:
        """Commit everything that the streams have handed out, or the offsets given, of any partitions of the group.

        Raises ClientError, KafkaError; ConfigError, TypeError for invalid offsets.
        """
        if offsets is None:
            return self._run(self._core.commit(None))
        given = arguments.offsets_to_commit(offsets)
        return self._run(self._core.commit({name: position.offset for name, position in given.items()}))

    def shutdown(self) -> None:
        """Commit (with auto.commit.enable), leave the group at once, end all iterations. Calling it again does nothing;
        in another thread it waits for the end of the first call. A forked process has nothing to shut down."""
        self._shutdown(in_hand=True)

    def _shutdown(self, *, in_hand: bool) -> None:
        if not self._thread.running:  # or this is a copy in a forked process: the member is the parent's
            return
        with self._end:
            if self._closed:
                return
            self._closed = True
            try:
                self._thread.run(self._core.close(in_hand=in_hand))
            finally:
                # Last of all: a program may end with its iterations, and with it whatever is not done yet.
                for stream in self._core.streams.all_streams():
                    stream.close()
                self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Shut down. After an exception the messages in hand, whose processing may have failed, are not committed."""
        self._shutdown(in_hand=kind is None)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        if self._closed:
            work.close()
            raise ClientClosed("the connector is shut down")
        try:
            return self._thread.run(work)
        except StoreError as error:
            said = error.reason if isinstance(error, SessionExpired | ConnectionLost) else str(error)
            where = f"group {self._settings.group_id}: ZooKeeper at {self._settings.zookeeper_connect}"
            raise ClientError(f"{where}: {said}: messages whose offsets are not committed come again") from error

    async def _opened(self) -> ConnectorCore:
        settings, loop = self._settings, asyncio.get_running_loop()
        clock = LoopClock(loop)
        # Only for its errors, which the constructor is to raise: keys that cannot be read, a login without a password.
        secured(TcpNetwork(loop), clock, settings)
        try:
            store = KazooStore(
                settings.zookeeper_connect,
                clock,
                session_timeout_ms=settings.zookeeper_session_timeout_ms,
                make_chroot=False,
                link=settings.link(),
            )
        except BadAddress as error:
            raise ConfigError(str(error), setting="zookeeper.connect") from None
        core = ConnectorCore(settings, store, clock, random.Random(), socket.gethostname(), self._network)
        try:
            await store.start(settings.connection_timeout_ms)
        except ConnectionLost as error:
            raise ClientTimeout(
                f"ZooKeeper at {settings.zookeeper_connect} not reached within "
                f"zookeeper.connection.timeout.ms={settings.connection_timeout_ms}"
            ) from error
        except ZooKeeperLoginRefused as error:
            raise ClientError("ZooKeeper refuses the login of zookeeper.sasl.jaas.config") from error
        return core

    def _network(self, settings: ConsumerSettings) -> TcpNetwork:
        return TcpNetwork(
            asyncio.get_running_loop(),
            send_buffer_bytes=settings.send_buffer_bytes,
            receive_buffer_bytes=settings.receive_buffer_bytes,
        )

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
                    lambda: self._thread.soon(self._core.consumption.wake),
                )
                for _ in range(count)
            ]
            for topic, count in counts.items()
        }
        for topic, streams in created.items():
            self._core.streams.add(topic, streams)
        self._run(self._core.begin(registration))
        return created


def _check_count(count: object, what: str) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ConfigError(f"{what}: the number of streams must be at least 1, not {count!r}")
