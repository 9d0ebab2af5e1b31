"""Producer of Kafka 0.7 and 0.8, synchronous or asynchronous."""

import logging
import random
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from odradek.client.errors import ClientClosed, ClientError, ConfigError, FailedToSendMessage
from odradek.client.original.config import OriginalProducerConfig, settings_of
from odradek.client.original.encoders import encode_function, partition_function
from odradek.client.original.messages import KeyedMessage, Sendable, keyed_messages
from odradek.client.original.send_queue import CallbackHandler, EventHandler, SendQueue, handler_of
from odradek.client.producer.batch import RecordFuture
from odradek.client.producer.client import KafkaProducer
from odradek.protocol.errors import KafkaError

logger = logging.getLogger(__name__)


class Delivery:
    """Delivery of a Producer's messages: encodes them, chooses partitions, and waits for the brokers. Thread-safe.

    With producer.type=sync `send` does this, with async the event handler does it on its own thread.
    """

    def __init__(self, settings: OriginalProducerConfig, now_s: Callable[[], float] = time.monotonic) -> None:
        """Take settings; connections are opened with the first message. Raises ConfigError."""
        self._settings, self._now_s = settings, now_s
        self._encode = encode_function(settings.serializer_class, "serializer.class")
        key_encoder = settings.key_serializer_class
        self._encode_key = self._encode if key_encoder is None else encode_function(key_encoder, "key.serializer.class")
        self._partition = partition_function(settings.partitioner_class)
        self._random = random.Random()
        self._kept: dict[str, int] = {}
        """Partition that messages without a key go to, by topic: the same one until the metadata are refreshed, or a
        message has failed (Kafka 0.8: DefaultEventHandler.sendPartitionPerTopicCache)."""
        self._kept_since_s = now_s()
        self._producers: dict[str, KafkaProducer] = {}
        """Codec → the present producer for its topics, as each has one codec for all of them."""
        for codec in {settings.for_topic(""), *map(settings.for_topic, settings.compressed_topics)}:
            try:
                self._producers[codec] = KafkaProducer(**settings.for_brokers(codec))
            except BaseException:
                self.close()
                raise

    def send(self, messages: Sequence[KeyedMessage]) -> None:
        """Send messages, and wait for acknowledgements as request.required.acks says.

        Raises FailedToSendMessage when some are not acknowledged, while the others are sent; what an encoder or a
        partitioner raises, in which case nothing is sent.
        """
        self._deliver(messages, drop=False)

    def send_what_encodes(self, messages: Sequence[KeyedMessage]) -> None:
        """Send messages as `send` does, but drop, and log, those that cannot be encoded or routed."""
        self._deliver(messages, drop=True)

    def _deliver(self, messages: Sequence[KeyedMessage], *, drop: bool) -> None:
        topics: dict[str, list[bool] | KafkaError] = {}
        ready: list[tuple[KeyedMessage, bytes | None, bytes | None, int]] = []
        failures: list[tuple[KeyedMessage, Exception]] = []
        refresh_ms, now_s = self._settings.topic_metadata_refresh_interval_ms, self._now_s()
        if refresh_ms >= 0 and 1000.0 * (now_s - self._kept_since_s) > refresh_ms:
            self._kept, self._kept_since_s = {}, now_s
        for message in messages:
            try:
                key = None if message.key is None else self._encode_key(message.key)
                value = self._encode(message.message)
                leaders = self._leaders(message.topic, topics)
                if isinstance(leaders, KafkaError):
                    failures.append((message, leaders))
                else:
                    ready.append((message, key, value, self._route(message, leaders)))
            except Exception:
                if not drop:
                    raise
                logger.exception("a message to topic %s cannot be encoded or routed, and is dropped", message.topic)
        self._send(ready, failures)

    def _leaders(self, topic: str, known: dict[str, list[bool] | KafkaError]) -> list[bool] | KafkaError:
        """Return which partitions of a topic have a leader, or why that is not known; kept in `known` for the others.

        Raises ConfigError for an invalid topic name.
        """
        if topic not in known:
            producer = self._producers[self._settings.for_topic(topic)]
            try:
                known[topic] = [one.leader >= 0 for one in producer.describe_partitions(topic)]
            except ConfigError:
                raise
            except KafkaError as error:
                known[topic] = error
        return known[topic]

    def _send(
        self,
        ready: Sequence[tuple[KeyedMessage, bytes | None, bytes | None, int]],
        failures: list[tuple[KeyedMessage, Exception]],
    ) -> None:
        sent: list[tuple[KeyedMessage, RecordFuture]] = []
        for message, key, value, partition in ready:
            producer = self._producers[self._settings.for_topic(message.topic)]
            try:
                sent.append((message, producer.send(message.topic, value, key, partition=partition)))
            except KafkaError as error:
                failures.append((message, error))
        for message, future in sent:
            try:
                future.result()
            except KafkaError as error:
                failures.append((message, error))
        if failures:
            self._kept = {}
            raise FailedToSendMessage(failures) from failures[0][1]

    def _route(self, message: KeyedMessage, has_leader: Sequence[bool]) -> int:
        """Return the partition that the key chooses; without a key, one that has a leader, for a while the same."""
        key: Any = message.routing_key
        if key is None:
            kept = self._kept.get(message.topic, len(has_leader))
            if kept >= len(has_leader) or not has_leader[kept]:
                kept = self._random.choice([n for n, led in enumerate(has_leader) if led] or range(len(has_leader)))
                self._kept[message.topic] = kept
            return kept
        chosen = self._partition(key, len(has_leader))
        if not 0 <= chosen < len(has_leader):
            raise ConfigError(
                f"partitioner.class gave {chosen!r}: topic {message.topic} has {len(has_leader)} partitions"
            )
        return chosen

    def close(self) -> None:
        """Close all connections. Calling it again does nothing."""
        for producer in self._producers.values():
            producer.close()


class Producer:
    """Producer with the interface of Kafka 0.7's and 0.8's. Thread-safe.

        with Producer({"metadata.broker.list": "localhost:9092", "serializer.class": StringEncoder}) as producer:
            producer.send(KeyedMessage("topic", "message", key="key"))

    With producer.type=sync `send` waits for the brokers and raises their errors. With async it queues: a thread hands
    batches to the event handler, and errors there are logged. Settings may have the names of 0.7 or of 0.8
    (`queue.time`, `queue.buffering.max.ms`); request.required.acks is 0 unless given, as in 0.8.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        """Take settings, as a mapping of Kafka's names or as keywords. Raises ConfigError, and what `init` of a handler
        raises."""
        self._closed = True
        self._end = threading.RLock()
        """Held during `close`, for which other callers wait."""
        self.config = settings_of(config, settings)
        self._handler = handler_of(self.config.event_handler, EventHandler, "event.handler")
        self._callbacks = handler_of(self.config.callback_handler, CallbackHandler, "callback.handler")
        self._delivery = Delivery(self.config)
        self._queue: SendQueue | None = None
        try:
            if self.config.producer_type == "async":
                self._queue = self._begun()
        except BaseException:
            self._delivery.close()
            raise
        self._closed = False

    def _begun(self) -> SendQueue:
        handler, send = self._handler, self._delivery.send_what_encodes
        handler.init(self.config.event_handler_props)
        self._callbacks.init(self.config.callback_handler_props)
        return SendQueue(self.config, lambda batch: handler.handle(batch, send), self._callbacks)

    def send(self, *messages: Sendable | Sequence[Sendable]) -> None:
        """Send messages: KeyedMessage, ProducerData, or lists of them.

        With producer.type=sync raises FailedToSendMessage, and what an encoder or a partitioner raises; with async
        QueueFull; with both TypeError, ClientClosed.
        """
        if self._closed:
            raise ClientClosed("the producer is closed")
        wanted = keyed_messages(messages)
        if self._queue is None:
            self._delivery.send(wanted)
            return
        for one in wanted:
            self._queue.put(one)

    def close(self) -> None:
        """Send everything that is queued, then close connections. Calling it again does nothing; in another thread it
        waits for the end of the first call. Raises ClientError in a handler on the producer's own thread."""
        if not self._closed and self._queue is not None and self._queue.is_current:
            raise ClientError("a handler may not close its producer, which waits for the handler: use another thread")
        if self._closed and not (self._queue is not None and self._queue.works_here):
            return
        with self._end:
            if self._closed:
                return
            self._closed = True
            try:
                if self._queue is not None:
                    self._queue.close()
                    self._callbacks.close()
                    self._handler.close()
            finally:
                self._delivery.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self.__dict__.get("_closed") is False:
            warnings.warn("Producer was dropped without close()", ResourceWarning, stacklevel=2, source=self)
            if self._queue is not None:
                self._queue.abandon()


__all__ = ["KeyedMessage", "Producer"]
