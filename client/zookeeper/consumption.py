"""Consumption of the partitions that a member owns: which stream each goes to, and how far it is consumed.

It connects the member, which claims and releases partitions, the fetcher, and the streams. For the loop's thread only.
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
    """A partition that is owned and read: its stream, and its progress in that."""

    __slots__ = ("progress", "stream")

    def __init__(self, progress: Progress, stream: MessageStream) -> None:
        self.progress = progress
        self.stream = stream


class Consumption:
    """Consumption of one member. `positions` has the partitions that are read now, for the fetcher."""

    def __init__(self, clock: Clock, streams: Streams, stored: Mapping[TopicPartition, int]) -> None:
        self.positions = Positions()
        self.lock = nullcontext()
        """No lock: only the loop uses the positions."""
        self.chunks: dict[TopicPartition, Sized] = {}
        """Always empty, as chunks go to streams at once; the partitions of a full stream are paused instead."""
        self.claimed: dict[TopicPartition, Claimed] = {}
        self.changed = WakeUp(clock)
        """Wakes the fetch loop."""
        self._clock = clock
        self._streams = streams
        self._stored = stored
        self._claims = itertools.count(1)
        self._leaving: dict[TopicPartition, Claimed] = {}
        """Partitions that are still owned, but no longer read."""
        self._before: dict[TopicPartition, tuple[int | None, Progress]] = {}
        """Partitions that were given up → the offset that was stored then, and their progress."""
        self._stopping: asyncio.Event | None = None

    def wake(self) -> None:
        """Wake the fetch loop, and `stop`: a stream has room, or a message was processed."""
        self.changed.set()
        if self._stopping is not None:
            self._stopping.set()

    # -- for the fetcher -----------------------------------------------------------------------------------------------

    def keep(self, chunk: Chunk) -> None:
        """Add the records of a fetch to the partition's stream."""
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
        """Read these partitions, which are owned now, from their stored offsets on, which were read before."""
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
        """Return where to go on: at the stored offset, or, if that is still as this member left it, behind the messages
        that it was handed then."""
        stored_before, progress = self._before.pop(name, (None, None))
        if progress is None or stored_before != stored or progress.handed_out < 0:
            offset = -1 if stored is None else stored
            progress = Progress(name, offset, offset)
        progress.claim = next(self._claims)
        return progress

    async def stop(self, patience_ms: float) -> None:
        """Read and hand out nothing more. Return when all messages in hand are done with, or after `patience_ms`.

        A message that is still in hand then comes again, to the next owner of its partition.
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
        """Note that the partitions are no longer this member's: after `stop` and the commit of what was consumed."""
        for name, one in self._leaving.items():
            self._before[name] = (self._stored.get(name), one.progress)
        self._leaving = {}

    def abandon(self) -> None:
        """Read and hand out nothing more at once: the ownership is lost."""
        self._leave()
        self.given_up()
        self.wake()

    # -- progress ------------------------------------------------------------------------------------------------------

    def consumed(self, *, in_hand: bool) -> dict[TopicPartition, int]:
        """Return the next offsets to consume of all owned partitions; with `in_hand`, behind messages in hand."""
        found: dict[TopicPartition, int] = {}
        for name, one in (*self.claimed.items(), *self._leaving.items()):
            offset = one.stream.read(one.progress, in_hand=in_hand)
            if offset >= 0:
                found[name] = offset
        return found

    def locate(self, name: TopicPartition, offset: int) -> None:
        """Start a partition that has no offset to go on from at `offset`."""
        state = self.positions.partitions[name]
        state.move_to(offset)
        state.fetch_offset, state.reset_to = offset, None
        one = self.claimed[name]
        one.stream.locate(one.progress, offset)
        self.wake()
