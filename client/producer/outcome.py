"""Outcome of a batch: set once, waited for by any thread and any loop."""

import asyncio
import threading
from collections.abc import Callable

from odradek.client.records import RecordMetadata, TopicPartition

Callback = Callable[[RecordMetadata | None, Exception | None], object]
"""Called with (metadata, None) or (None, error), on the producer's own thread: it must not block."""


class Outcome:
    """Delivered at an offset, or failed; set once by the producer's thread, read by any."""

    __slots__ = (
        "_awake",
        "_waiters",
        "base_offset",
        "decided",
        "error",
        "log_append_time_ms",
        "timestamps_ms",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self._awake = threading.Event()
        self._waiters: list[Callable[[], object]] = []
        self.decided = False
        """Delivered or failed; those who wait hear of it after the callbacks have."""
        self.topic_partition = topic_partition
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.timestamps_ms: list[int] = []
        self.error: Exception | None = None

    def deliver(self, base_offset: int, log_append_time_ms: int, timestamps_ms: list[int]) -> None:
        """Acknowledged. `log_append_time_ms` is -1 unless the broker stamps records itself."""
        assert not self.decided, f"{self.topic_partition}: decided twice"
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.timestamps_ms = timestamps_ms
        self.decided = True

    def fail(self, error: Exception) -> None:
        """Given up."""
        assert not self.decided, f"{self.topic_partition}: decided twice"
        self.error = error
        self.decided = True

    def wake(self) -> None:
        """Let those who wait look: it is decided and its callbacks were called, or the batch was split."""
        self._awake.set()
        for call in self._waiters:
            call()

    async def until_awake(self) -> None:
        """Wait for `wake`, on any thread's loop."""
        if self._awake.is_set():
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def end() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def woken() -> None:
            if asyncio._get_running_loop() is loop:
                end()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(end)

        self._waiters.append(woken)
        if self._awake.is_set():  # meanwhile, on the producer's thread, which may have looked already
            end()
        await waiter

    def forked(self, error: Exception) -> None:
        """Fail here, in the copy of a process; its parent goes on with the delivery."""
        self._awake = threading.Event()
        self._waiters = []
        if not self.decided:
            self.fail(error)
        self._awake.set()

    @property
    def awake(self) -> bool:
        """Tell whether waiting is over."""
        return self._awake.is_set()

    def wait(self, timeout_seconds: float | None) -> bool:
        """Until `wake`, or the time is over (False)."""
        return self._awake.wait(timeout_seconds)

    def metadata(self, index: int) -> RecordMetadata:
        """Of the record at `index` of the batch. Only when it was delivered."""
        topic, partition = self.topic_partition
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        timestamp_ms = self.log_append_time_ms if self.log_append_time_ms >= 0 else self.timestamps_ms[index]
        return RecordMetadata(topic, partition, offset, timestamp_ms)

    def tell(self, index: int, callback: Callback) -> None:
        """Hand the fate of the record at `index` to a callback. Only when it is decided."""
        if self.error is not None:
            callback(None, self.error)
        else:
            callback(self.metadata(index), None)
