"""What a consumer's loop and the application's thread share."""

import threading
from collections import deque

from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.positions import Positions
from odradek.client.records import TopicPartition


class Shared:
    """`lock` guards positions and chunks: the loop fills, `poll` empties. `arrived` tells whoever waits in `poll`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.arrived = threading.Condition(self.lock)
        self.positions = Positions()
        self.chunks: dict[TopicPartition, deque[Chunk]] = {}
        """Of each partition, in the order in which they are to be read."""
        self.failure: Exception | None = None
        """For the application: raised by its next `poll`, once."""

    def notify(self) -> None:
        """There may be something for the application. Without the lock."""
        with self.lock:
            self.arrived.notify_all()

    def fail(self, error: Exception) -> None:
        """Hand an error to the application. Without the lock."""
        with self.lock:
            self.failure = error
            self.arrived.notify_all()

    def take_failure(self) -> Exception | None:
        """The error to raise now. Without the lock."""
        with self.lock:
            failure, self.failure = self.failure, None
            return failure

    @property
    def readable(self) -> bool:
        """With the lock: whether there are bytes of a partition that is not paused."""
        return any(not state.paused and tp in self.chunks for tp, state in self.positions.partitions.items())
