"""Consumption of the partitions that a member owns: which stream each goes to, and how far it is.

Between the member, which claims and releases, the fetcher, which asks brokers, and the streams. Loop-thread only.
"""

import asyncio
import itertools
from collections.abc import Iterable, Mapping, Sized
from contextlib import nullcontext
from typing import Protocol

from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.positions import PartitionPosition, Positions
from odradek.client.records import TopicPartition
from odradek.client.waiting import WakeUp
from odradek.client.zookeeper.streams import MessageStream, Progress
from odradek.client.zookeeper.subscriptions import thread_number
from odradek.world.clock import Clock


class Streams(Protocol):
    """Streams of the application, by topic and thread."""

    def stream_of(self, topic: str, thread: int) -> MessageStream:
        """Return the stream of a topic's thread."""


class Claimed:
    """A partition that is owned and read."""

    __slots__ = ("progress", "stream")

    def __init__(self, progress: Progress, stream: MessageStream) -> None:
        self.progress = progress
        self.stream = stream


class Consumption:
    """The partitions that are read now. `positions` is the fetcher's list of what to ask for."""

    def __init__(self, clock: Clock, streams: Streams, stored: Mapping[TopicPartition, int]) -> None:
        self.positions = Positions()
        self.lock = nullcontext()
        """Positions are the loop's alone."""
        self.chunks: dict[TopicPartition, Sized] = {}
        """Nothing waits here: a stream that is full has its partitions paused."""
        self.claimed: dict[TopicPartition, Claimed] = {}
        self.changed = WakeUp(clock)
        """Something for the fetcher to look at."""
        self._clock = clock
        self._streams = streams
        self._stored = stored
        self._claims = itertools.count(1)
        self._leaving: dict[TopicPartition, Claimed] = {}
        """Still owned, no longer read."""
        self._before: dict[TopicPartition, tuple[int | None, Progress]] = {}
        """Partitions that were read before: the offset stored when they were given up, and how far they were read."""
        self._stopping: asyncio.Event | None = None

    def wake(self) -> None:
        """Have the fetcher look again: a stream has room, or a message has been processed."""
        self.changed.set()
        if self._stopping is not None:
            self._stopping.set()

    # -- for the fetcher -----------------------------------------------------------------------------------------------

    def keep(self, chunk: Chunk) -> None:
        """Give the partition's stream what a fetch has brought."""
        self.claimed[chunk.topic_partition].stream.put(chunk)

    def holds(self, partition: TopicPartition) -> bool:
        """Tell whether messages of a partition wait in its stream."""
        return self.claimed[partition].stream.holds(partition)

    def refuse(self, partitions: Iterable[TopicPartition], error: Exception) -> None:
        """Hand an error to the streams of these partitions."""
        for partition in partitions:
            if partition in self.claimed:
                self.claimed[partition].stream.fail(error)

    def notify(self) -> None:
        """Do nothing: streams tell their readers themselves."""

    # -- claiming and releasing ----------------------------------------------------------------------------------------

    def start(self, partitions: Mapping[TopicPartition, str]) -> None:
        """Read these, which are owned now and whose stored offsets are known, from there on."""
        assert not self.claimed, self.claimed
        for name, thread in partitions.items():
            stream = self._streams.stream_of(name.topic, thread_number(thread))
            progress = self._progress(name, self._stored.get(name))
            stream.assign(progress)
            self.claimed[name] = Claimed(progress, stream)
            state = PartitionPosition(fetch_offset=progress.handed_out, version=progress.claim)
            state.move_to(progress.handed_out)
            self.positions.partitions[name] = state
        self.wake()

    def _progress(self, name: TopicPartition, stored: int | None) -> Progress:
        """Return where to go on: at the stored offset or, if it is as this member left it, behind what was read
        then."""
        stored_before, progress = self._before.pop(name, (None, None))
        if progress is None or stored_before != stored or progress.handed_out < 0:
            offset = -1 if stored is None else stored
            progress = Progress(name, offset, offset)
        progress.claim = next(self._claims)
        return progress

    async def stop(self, patience_ms: float) -> None:
        """Read and hand out nothing more. Returns when all messages in hand are done with, or after a while.

        A message that is still in hand then will come again, to whoever owns its partition next.
        """
        self._leave()
        self._stopping = stopping = asyncio.Event()
        end_ms = self._clock.monotonic_ms() + patience_ms
        timer = self._clock.call_later(patience_ms, stopping.set)
        try:
            while self._is_in_hand() and self._clock.monotonic_ms() < end_ms:
                stopping.clear()
                if self._is_in_hand():
                    await stopping.wait()
        finally:
            self._stopping = None
            timer.cancel()

    def _is_in_hand(self) -> bool:
        return any(one.stream.in_hand for one in self._leaving.values())

    def _leave(self) -> None:
        for one in self.claimed.values():
            one.stream.stop()
        self._leaving.update(self.claimed)
        self.claimed = {}
        self.positions.partitions = {}

    def given_up(self) -> None:
        """Forget partitions that are no longer this member's: after `stop`, when what was consumed is committed."""
        for name, one in self._leaving.items():
            self._before[name] = (self._stored.get(name), one.progress)
        self._leaving = {}

    def abandon(self) -> None:
        """Ownership is lost: read and hand out nothing more, now."""
        self._leave()
        self.given_up()
        self.wake()

    # -- progress ------------------------------------------------------------------------------------------------------

    def consumed(self, *, in_hand: bool) -> dict[TopicPartition, int]:
        """Return the next offsets of all owned partitions. With `in_hand` the application is done with all it has."""
        found: dict[TopicPartition, int] = {}
        for name, one in (*self.claimed.items(), *self._leaving.items()):
            offset = one.stream.read(one.progress, in_hand=in_hand)
            if offset >= 0:
                found[name] = offset
        return found

    def locate(self, name: TopicPartition, offset: int) -> None:
        """Start a partition here that has no offset to go on from."""
        state = self.positions.partitions[name]
        state.move_to(offset)
        state.fetch_offset, state.reset_to = offset, None
        one = self.claimed[name]
        one.stream.locate(one.progress, offset)
        self.wake()
