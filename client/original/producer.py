"""Producer of Kafka 0.7 and 0.8, synchronous or asynchronous."""

import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from odradek.client.errors import ClientClosed
from odradek.client.original.config import settings_of
from odradek.client.original.delivery import Delivery
from odradek.client.original.messages import KeyedMessage, Sendable, keyed_messages
from odradek.client.original.send_queue import CallbackHandler, EventHandler, SendQueue


class Producer:
    """Sends messages as the producers of Kafka 0.7 and 0.8. Thread-safe.

        with Producer({"metadata.broker.list": "localhost:9092", "serializer.class": StringEncoder}) as producer:
            producer.send(KeyedMessage("topic", "message", key="key"))

    With producer.type=sync `send` waits for the brokers and raises what goes wrong. With async it queues: a thread
    hands batches to the event handler, and what goes wrong there is logged. Settings have the names of either
    generation (`queue.time` and `queue.buffering.max.ms`); request.required.acks is 0 unless given, as it was then.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        """Take settings, as a mapping of Kafka's names or as keywords. Raises ConfigError."""
        self._closed = True
        self.config = settings_of(config, settings)
        self._delivery = Delivery(self.config)
        self._queue: SendQueue | None = None
        self._handler = self.config.event_handler or EventHandler()
        self._callbacks = self.config.callback_handler or CallbackHandler()
        if self.config.producer_type == "async":
            handler, send = self._handler, self._delivery.send_what_encodes
            handler.init(self.config.event_handler_props)
            self._callbacks.init(self.config.callback_handler_props)
            self._queue = SendQueue(self.config, lambda batch: handler.handle(batch, send), self._callbacks)
        self._closed = False

    def send(self, *messages: Sendable | Sequence[Sendable]) -> None:
        """Send messages: KeyedMessage, ProducerData, or lists of them.

        Raises with producer.type=sync FailedToSendMessage and what an encoder or a partitioner raises, with async
        QueueFull; TypeError, ClientClosed.
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
        """Have everything sent that is queued, then close connections. Harmless twice."""
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
