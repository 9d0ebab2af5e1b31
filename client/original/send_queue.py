"""The queue of producer.type=async and the thread that empties it (Kafka's ProducerSendThread).

A batch is handled when it has batch.num.messages, or queue.buffering.max.ms after the last one.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from odradek.client.errors import ClientClosed, QueueFull
from odradek.client.forks import SAID, watch
from odradek.client.original.config import OriginalProducerConfig
from odradek.client.original.messages import KeyedMessage

logger = logging.getLogger(__name__)


class EventHandler:
    """Handles the batches of an async producer, on its thread: `event.handler` is an object with these methods."""

    def init(self, properties: Any) -> None:
        """Take event.handler.props, once, before anything else."""

    def handle(self, messages: Sequence[KeyedMessage], send: Callable[[Sequence[KeyedMessage]], None]) -> None:
        """Handle a batch: by default `send` it. What this raises is logged, and the batch is lost."""
        send(messages)

    def close(self) -> None:
        """End, after the last batch."""


class CallbackHandler:
    """Looks into the queue of an async producer: `callback.handler` is an object with these methods.

    Each may change what passes through it. The first two are called by the threads that send, the others by the
    producer's own.
    """

    def init(self, properties: Any) -> None:
        """Take callback.handler.props, once, before anything else."""

    def before_enqueue(self, message: KeyedMessage) -> KeyedMessage:
        """Return what is queued in place of a message."""
        return message

    def after_enqueue(self, message: KeyedMessage, added: bool) -> None:
        """Hear that a message was queued, or that there was no room for it."""

    def after_dequeuing_existing_data(self, message: KeyedMessage) -> Sequence[KeyedMessage]:
        """Return what joins the batch in place of a message."""
        return [message]

    def before_sending_data(self, messages: Sequence[KeyedMessage]) -> Sequence[KeyedMessage]:
        """Return what is handled in place of a batch."""
        return messages

    def last_batch_before_close(self) -> Sequence[KeyedMessage]:
        """Return what joins the last batch."""
        return []

    def close(self) -> None:
        """End, after the last batch."""


STOP: Final = object()


class SendQueue:
    """A bounded queue with its thread. `handle` is called there with each batch, and may block."""

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
        """Threads that put something in, and wait for room perhaps: the end comes behind it."""
        self._all_put = threading.Condition()
        batches = _Batches(self._queue, settings, handle, callbacks)
        self._thread = threading.Thread(target=batches.run, name="odradek-producer-send", daemon=True)
        self._thread.start()
        watch(self)

    def forked(self) -> None:
        """Refuse everything from now on: this is a copy in another process, without the thread."""
        self._forked = True

    def put(self, message: KeyedMessage) -> None:
        """Queue a message. Raises QueueFull after queue.enqueue.timeout.ms, ClientClosed."""
        if self._forked:
            raise ClientClosed(f"the producer does not work here: {SAID}")
        message = self._callbacks.before_enqueue(message)
        wait_ms = self._settings.queue_enqueue_timeout_ms
        try:
            self._put(message, wait_ms)
        except queue.Full:
            self._callbacks.after_enqueue(message, False)
            size = self._settings.queue_buffering_max_messages
            raise QueueFull(
                f"queue.buffering.max.messages={size} are queued, and none was sent within "
                f"queue.enqueue.timeout.ms={wait_ms}",
                setting="queue.buffering.max.messages",
            ) from None
        self._callbacks.after_enqueue(message, True)

    def _put(self, message: KeyedMessage, wait_ms: float) -> None:
        with self._all_put:
            if self._closing:  # nobody would take it out
                raise ClientClosed("the producer was closed meanwhile")
            self._putting += 1
        try:
            self._queue.put(message, block=wait_ms != 0, timeout=wait_ms / 1000 if wait_ms > 0 else None)
        finally:
            with self._all_put:
                self._putting -= 1
                self._all_put.notify_all()

    @property
    def works_here(self) -> bool:
        """Tell whether this is the process of the thread, and another thread than that."""
        return not self._forked and threading.current_thread() is not self._thread

    def close(self) -> None:
        """Have everything handled that was queued before, and end the thread. Once."""
        if not self._forked:
            with self._all_put:
                self._closing = True
                self._all_put.wait_for(lambda: not self._putting)
            self._queue.put(STOP)
            self._thread.join()

    def abandon(self) -> None:
        """End the thread after the queue as it is, without waiting; what does not fit into a full queue is not told."""
        try:
            self._queue.put_nowait(STOP)
        except queue.Full:
            logger.warning("a producer with a full queue was dropped: its thread runs until the program ends")


class _Batches:
    """The thread's side: knows its queue alone, so that a producer that nobody refers to can be collected."""

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
        """Gather and hand on batches, until STOP."""
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
            self._guarded(lambda: self._handle(list(self._callbacks.before_sending_data(batch))) or ())

    def _guarded(self, function: Callable[..., Sequence[KeyedMessage]], *given: Any) -> Sequence[KeyedMessage]:
        """Call what the application gave; what it raises is logged, and what it was for is gone, as in Kafka."""
        try:
            return function(*given)
        except BaseException:  # sys.exit, too, would end the thread: then nobody empties the queue
            logger.exception("the thread of an async producer has dropped some messages")
            return ()
