"""Delivery of messages: encodes them, chooses their partitions, and waits for the brokers.

This is what `send` of sync does, and what the event handler of async does on its own thread.
"""

import logging
import random
from collections.abc import Sequence
from typing import Any

from odradek.client.errors import ConfigError, FailedToSendMessage
from odradek.client.original.config import OriginalProducerConfig
from odradek.client.original.encoders import encode_function, partition_function
from odradek.client.original.messages import KeyedMessage
from odradek.client.producer.batch import RecordFuture
from odradek.client.producer.client import KafkaProducer
from odradek.protocol.errors import KafkaError

logger = logging.getLogger(__name__)


class Delivery:
    """The way of a Producer to the brokers; thread-safe."""

    def __init__(self, settings: OriginalProducerConfig) -> None:
        """Connect when there is something to send. Raises ConfigError."""
        self._settings = settings
        self._encode = encode_function(settings.serializer_class, "serializer.class")
        key_encoder = settings.key_serializer_class
        self._encode_key = self._encode if key_encoder is None else encode_function(key_encoder, "key.serializer.class")
        self._partition = partition_function(settings.partitioner_class)
        self._random = random.Random()
        self._producers: dict[str, KafkaProducer] = {}
        """Producers by codec: a producer of today has one codec for all of its topics."""
        for codec in {settings.for_topic(""), *map(settings.for_topic, settings.compressed_topics)}:
            try:
                self._producers[codec] = KafkaProducer(**settings.for_brokers(codec))
            except BaseException:
                self.close()
                raise

    def send(self, messages: Sequence[KeyedMessage]) -> None:
        """Send messages, and wait until they are acknowledged, or as request.required.acks says.

        Raises FailedToSendMessage when that fails for any of them, the others being sent; what an encoder or a
        partitioner raises, with nothing sent.
        """
        self._deliver(messages, drop=False)

    def send_what_encodes(self, messages: Sequence[KeyedMessage]) -> None:
        """Send messages as `send`, but leave out, and log, those that cannot be encoded or have no partition."""
        self._deliver(messages, drop=True)

    def _deliver(self, messages: Sequence[KeyedMessage], *, drop: bool) -> None:
        topics: dict[str, list[bool] | KafkaError] = {}
        ready: list[tuple[KeyedMessage, bytes | None, bytes | None, int]] = []
        failures: list[tuple[KeyedMessage, Exception]] = []
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
        """Return which partitions of a topic have a leader, or why that is not known: asked once for all messages.

        Raises ConfigError for what is no name of a topic.
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
            raise FailedToSendMessage(failures) from failures[0][1]

    def _route(self, message: KeyedMessage, has_leader: Sequence[bool]) -> int:
        """Return the partition that the key chooses; without a key any that has a leader, by chance."""
        key: Any = message.routing_key
        if key is None:
            return self._random.choice([n for n, led in enumerate(has_leader) if led] or range(len(has_leader)))
        chosen = self._partition(key, len(has_leader))
        if not 0 <= chosen < len(has_leader):
            raise ConfigError(
                f"partitioner.class gave {chosen!r}: topic {message.topic} has {len(has_leader)} partitions"
            )
        return chosen

    def close(self) -> None:
        """Close connections. Harmless twice."""
        for producer in self._producers.values():
            producer.close()
