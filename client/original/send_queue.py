"""Queue of producer.type=async, and the thread that empties it (Kafka's ProducerSendThread).

A batch is handled when it has batch.num.messages, or queue.buffering.max.ms after the last one.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from odradek.client.errors import ClientClosed, ConfigError, QueueFull
from odradek.client.forks import SAID, watch
from odradek.client.original.config import OriginalProducerConfig
from odradek.client.original.messages import KeyedMessage

logger = logging.getLogger(__name__)


class EventHandler:
    """Handles the batches of an async producer, on its thread: `event.handler` is an object with these methods."""

    def init(self, properties: Any) -> None:
        """Take event.handler.props. Called once, before anything else."""

    def handle(self, messages: Sequence[KeyedMessage], send: Callable[[Sequence[KeyedMessage]], None]) -> None:
        """Handle a batch: by default `send` it. If this raises, that is logged, and the batch is lost."""
        send(messages)

    def close(self) -> None:
        """End. Called once, after the last batch."""


class CallbackHandler:
    """Observes the queue of an async producer, and may change what passes: `callback.handler` is an object with these
    methods.

    `before_enqueue` and `after_enqueue` are called on the threads that send; the next three on the producer's own.
    """

    def init(self, properties: Any) -> None:
        """Take callback.handler.props. Called once, before anything else."""

    def before_enqueue(self, message: KeyedMessage) -> KeyedMessage:
        """Return the message to queue in place of this one."""
        return message

    def after_enqueue(self, message: KeyedMessage, added: bool) -> None:
        """React to a message that was queued, or (`added` False) for which there was no room."""

    def after_dequeuing_existing_data(self, message: KeyedMessage) -> Sequence[KeyedMessage]:
        """Return the messages to add to the batch in place of this one."""
        return [message]

    def before_sending_data(self, messages: Sequence[KeyedMessage]) -> Sequence[KeyedMessage]:
        """Return the messages to handle in place of this batch."""
        return messages

    def last_batch_before_close(self) -> Sequence[KeyedMessage]:
        """Return messages to add to the last batch."""
        return []

    def close(self) -> None:
        """End. Called once, after the last batch."""


Handler = TypeVar("Handler", EventHandler, CallbackHandler)


def handler_of(given: Any, kind: type[Handler], setting: str) -> Handler:
    """Return a handler: the one given, or one of the class given, or without any that of Kafka. Raises ConfigError."""
    made = kind() if given is None else given() if isinstance(given, type) else given
    missing = [name for name in vars(kind) if not name.startswith("_") and not callable(getattr(made, name, None))]
    if missing:
        raise ConfigError(
            f"{setting} must be a {kind.__name__}, or its class, not {given!r}, which lacks {', '.join(missing)}",
            setting=setting,
        )
    found: Handler = made
    return found


STOP: Final = object()


class SendQueue:
    """A bounded queue with its thread, on which `handle` is called with each batch, and may block."""

    def __init__(
        self, settings: OriginalProducerConfig, handle: Callable[[list[KeyedMessage]], None], callbacks: CallbackHandler
    ) -> None:
        """Start the thread."""
        self._settings = settings
        self._callbacks = callbacks
        self._queue: queue.Queue[Any] = queue.Queue(settings.queue_buffering_max_messages)
        self._forked = False
        self._closing = False
        self._putting = 0
        """Number of threads that are putting a message in, perhaps waiting for room: `close` waits for them."""
        self._all_put = threading.Condition()
        batches = _Batches(self._queue, settings, handle, callbacks)
        self._thread = threading.Thread(target=batches.run, name="odradek-producer-send", daemon=True)
        self._thread.start()
        watch(self)

    def forked(self) -> None:
        """Refuse every message from now on: this is a copy in a forked process, without the thread."""
        self._forked = True

    def put(self, message: KeyedMessage) -> None:
        """Queue a message. Raises QueueFull after queue.enqueue.timeout.ms, ClientClosed; TypeError if before_enqueue
        returns no message."""
        if self._forked:
            raise ClientClosed(f"the producer does not work here: {SAID}")
        given, message = message, self._callbacks.before_enqueue(message)
        if not isinstance(message, KeyedMessage):
            raise TypeError(
                "callback.handler: before_enqueue must return the KeyedMessage to queue, "
                f"not {type(message).__name__}: a message to topic {given.topic} is not sent"
            )
        wait_ms = 0 if self.is_current else self._settings.queue_enqueue_timeout_ms  # nobody else would make room
        try:
            self._put(message, wait_ms)
        except queue.Full:
            self._callbacks.after_enqueue(message, False)
            size = self._settings.queue_buffering_max_messages
            waited = f"none was sent within queue.enqueue.timeout.ms={wait_ms}"
            raise QueueFull(
                f"queue.buffering.max.messages={size} are queued, and "
                + ("a handler on the producer's own thread cannot wait for room" if self.is_current else waited),
                setting="queue.buffering.max.messages",
            ) from None
        self._callbacks.after_enqueue(message, True)

    def _put(self, message: KeyedMessage, wait_ms: float) -> None:
        with self._all_put:
            if self._closing:  # the thread would not handle it any more
                raise ClientClosed("the producer was closed meanwhile")
            self._putting += 1
        try:
            self._queue.put(message, block=wait_ms != 0, timeout=wait_ms / 1000 if wait_ms > 0 else None)
        finally:
            with self._all_put:
                self._putting -= 1
                self._all_put.notify_all()

    @property
    def is_current(self) -> bool:
        """Tell whether the caller is the queue's thread: a handler of the application."""
        return threading.current_thread() is self._thread

    @property
    def works_here(self) -> bool:
        """Tell whether the caller is in the thread's process, but not that thread itself."""
        return not self._forked and not self.is_current

    def close(self) -> None:
        """Wait until everything that was queued before is handled, and end the thread. To be called once."""
        if not self._forked:
            with self._all_put:
                self._closing = True
                self._all_put.wait_for(lambda: not self._putting)
            self._queue.put(STOP)
            self._thread.join()

    def abandon(self) -> None:
        """Have the thread end after all that is queued, without waiting. If the queue is full, it is not ended."""
        try:
            self._queue.put_nowait(STOP)
        except queue.Full:
            logger.warning("a producer with a full queue was dropped: its thread runs until the program ends")


class _Batches:
    """The thread's side. It refers only to the queue, so that a producer that nobody refers to can be collected."""

    def __init__(
        self,
        messages: "queue.Queue[Any]",
        settings: OriginalProducerConfig,
        handle: Callable[[list[KeyedMessage]], None],
        callbacks: CallbackHandler,
    ) -> None:
        self._messages = messages
        self._wait_seconds = settings.queue_buffering_max_ms / 1000
        self._most = settings.batch_num_messages
        self._handle = handle
        self._callbacks = callbacks

    def run(self) -> None:
        """Gather batches and hand them on, until STOP."""
        batch: list[KeyedMessage] = []
        due = time.monotonic() + self._wait_seconds
        while (message := self._next(due)) is not STOP:
            if message is not None:
                batch += self._guarded(self._callbacks.after_dequeuing_existing_data, message)
            if message is None or len(batch) >= self._most:
                self._hand_on(batch)
                batch, due = [], time.monotonic() + self._wait_seconds
        self._hand_on([*batch, *self._guarded(self._callbacks.last_batch_before_close)])

    def _next(self, due: float) -> Any:
        """Return the next message or STOP, or None when it is time for a batch."""
        try:
            return self._messages.get(timeout=max(0.0, due - time.monotonic()))
        except queue.Empty:
            return None

    def _hand_on(self, batch: list[KeyedMessage]) -> None:
        if batch:
            self._guarded(self._handle_what_passes, batch)

    def _handle_what_passes(self, batch: list[KeyedMessage]) -> Sequence[KeyedMessage]:
        self._handle(list(self._callbacks.before_sending_data(batch)))
        return ()

    def _guarded(self, function: Callable[..., Sequence[KeyedMessage]], *given: Any) -> Sequence[KeyedMessage]:
        """Call a function of the application. If it raises, that is logged, and its messages are lost, as in Kafka."""
        try:
            messages = function(*given)
            if messages is None:
                raise TypeError(f"a list of messages must be returned, not None, by {function!r}")
            return list(messages)  # here, as it may be a generator, and raise
        except BaseException:  # also sys.exit: it would end the thread, and nobody would empty the queue
            logger.exception("the thread of an async producer has dropped some messages")
            return ()
