"""What a consumer's loop and whoever takes its records share; with a blocking consumer those are two threads."""

import asyncio
import threading
from collections import deque
from collections.abc import Iterable

from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.positions import Positions
from odradek.client.errors import ClientBroken, ClientClosed
from odradek.client.records import TopicPartition


class Shared:
    """`lock` guards positions and chunks: the loop fills, `poll` empties. `arrived` is set on the loop alone."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.arrived = asyncio.Event()
        """There may be something for the application: records, a position, a turn in a rebalance, an error."""
        self.positions = Positions()
        self.chunks: dict[TopicPartition, deque[Chunk]] = {}
        """Of each partition, in the order in which they are to be read."""
        self.failure: Exception | None = None
        """For the application: raised by its next `poll`, once."""
        self.ended: ClientClosed | ClientBroken | None = None
        """Why nothing is read any more: raised by each call from then on."""

    def notify(self) -> None:
        """There may be something for the application."""
        self.arrived.set()

    def fail(self, error: Exception) -> None:
        """Hand an error to the application."""
        self.failure = error
        self.arrived.set()

    # -- for the fetcher, with the lock --------------------------------------------------------------------------------

    def keep(self, chunk: Chunk) -> None:
        """Take what a fetch has brought."""
        self.chunks.setdefault(chunk.topic_partition, deque()).append(chunk)

    def holds(self, partition: TopicPartition) -> bool:
        """Tell whether something of a partition waits here."""
        return bool(self.chunks.get(partition))

    def refuse(self, partitions: Iterable[TopicPartition], error: Exception) -> None:
        """Hand the application an error of some partitions."""
        self.failure = error

    # -- for the application -------------------------------------------------------------------------------------------

    def take_failure(self) -> Exception | None:
        """Return the error to raise now. Without the lock."""
        with self.lock:
            failure, self.failure = self.failure, None
            return failure

    def end(self, error: ClientClosed | ClientBroken) -> None:
        """Let each call from now on raise an error; the first one stays."""
        if self.ended is None:
            self.ended = error
        self.arrived.set()

    def check_open(self) -> None:
        """Raise ClientClosed or ClientBroken when it has ended."""
        if self.ended is not None:
            raise type(self.ended)(*self.ended.args) from self.ended.__cause__

    @property
    def readable(self) -> bool:
        """With the lock: tell whether there are bytes of a partition that is not paused."""
        return any(not state.paused and tp in self.chunks for tp, state in self.positions.partitions.items())
