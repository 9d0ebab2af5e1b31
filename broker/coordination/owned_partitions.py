"""The partitions of a coordinator's topic that this broker owns, and the loading of those that it has come to lead.

A partition is loaded in slices, so that other requests are served meanwhile; until it is loaded, what lives there is
answered COORDINATOR_LOAD_IN_PROGRESS. One whose log cannot be read is not served at all, and read again later: to serve
a part of the committed offsets would send consumers back to wherever their reset policy says. A record that is whole on
the disk but makes no sense is skipped alone, since reading it again would not help; and so is one that a bug of ours
keeps from being taken over, since all the rest must still be served.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from odradek.broker.coordination.topic_storage import TopicStorage
from odradek.broker.replication.controller_requests import LeadershipListener
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from odradek.protocol.primitives import Buffer
from odradek.protocol.topic_names import PartitionKey
from odradek.world.clock import Clock
from odradek.world.time_slices import run_in_slices

log = logging.getLogger(__name__)

LOAD_RETRY_MS = 5_000.0
"""Pause before a partition that could not be read is read again."""

T = TypeVar("T", covariant=True)
U = TypeVar("U")


class SkippedRecords:
    """Records that a replay has skipped because their key or value makes no sense: one such record must not keep all
    that lives in the partition from being served. Counts them, and keeps what is wrong with the first."""

    def __init__(self) -> None:
        self.count = 0
        self.first = ""

    def add(self, offset: int, error: MalformedMessage) -> None:
        """Note that the record at that offset was skipped."""
        self.count += 1
        self.first = self.first or f"offset {offset}: {error}"


class Replay(Protocol[T]):
    """Result of reading the batches of a partition."""

    @property
    def next_offset(self) -> int:
        """Offset of the first record not seen yet."""

    @property
    def skipped(self) -> SkippedRecords:
        """Records that could not be read."""

    def steps(self, data: Buffer) -> Iterator[None]:
        """Take in the whole batches of `data`, pausing now and then. Raises MalformedMessage for a damaged batch."""

    def results(self) -> Iterable[T]:
        """Return all that lives in the partition."""


class OwnedPartitions(Generic[U]):
    """The partitions of `topic` led by this broker.

    `replay(offset)` makes an empty replay that begins there; `install(partition, result)` is called for each of its
    results when all of the partition has been read.
    """

    def __init__(
        self,
        topic: str,
        clock: Clock,
        storage: TopicStorage,
        load_buffer_bytes: int,
        replay: Callable[[int], Replay[U]],
        install: Callable[[int, U], object],
    ) -> None:
        self._topic = topic
        self._clock = clock
        self._storage = storage
        self._load_buffer_bytes = load_buffer_bytes
        self._replay, self._install = replay, install
        self._epochs: dict[int, int] = {}
        self._owned: set[int] = set()
        self._loading: dict[int, Iterator[None]] = {}
        self._stopped = False

    @property
    def loading(self) -> Collection[int]:
        """Partitions that are being read."""
        return self._loading.keys()

    def check(self, partition: int) -> ErrorCode:
        """Return NONE when requests for what lives in the partition can be served, else the error for them."""
        if partition in self._owned:
            return ErrorCode.NONE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if partition in self._loading else ErrorCode.NOT_COORDINATOR

    def epoch(self, partition: int) -> int:
        """Return the newest leader epoch known of a partition that is led here."""
        return self._epochs[partition]

    def elected(self, partition: int, epoch: int) -> None:
        """Load the partition, which this broker leads in that leader epoch. An older epoch than known is ignored."""
        if epoch < self._epochs.get(partition, epoch):
            known = self._epochs[partition]
            log.info("%s-%d: not loading in epoch %d, %d is known", self._topic, partition, epoch, known)
            return
        self._epochs[partition] = epoch
        if partition not in self._owned and partition not in self._loading and not self._stopped:
            self._begin_to_load(partition)

    def resigned(self, partition: int) -> None:
        """Give the partition up, and forget its epoch: a topic that is deleted and created again begins with the first.

        (Kafka's coordinator would not load such a topic until its epoch has caught up with the old one, or the broker
        is restarted.) What comes late, from an older epoch of the same topic, is refused by the replica.
        """
        self._epochs.pop(partition, None)
        self._owned.discard(partition)
        self._loading.pop(partition, None)

    def stop(self) -> None:
        """Load nothing more, as the broker goes down."""
        self._stopped = True
        self._loading.clear()

    def _begin_to_load(self, partition: int) -> None:
        loading = self._loading[partition] = self._load(partition)
        run_in_slices(self._clock, loading, lambda: self._loading.get(partition) is loading)

    def _load_again(self, partition: int, failed: Iterator[None]) -> None:
        if self._loading.get(partition) is failed:
            self._begin_to_load(partition)

    def _load(self, partition: int) -> Iterator[None]:
        """Read all of the partition, hand over what lives there, and own it."""
        count = 0
        try:
            replay = self._replay(self._storage.log_start_offset(partition))
            yield from self._read(partition, replay)
        except Exception as error:
            ours = None if isinstance(error, (KafkaError, MalformedMessage, OSError)) else error
            log.error("%s-%d cannot be loaded, retrying later: %s", self._topic, partition, error, exc_info=ours)
            again = partial(self._load_again, partition, self._loading[partition])
            self._clock.call_later(LOAD_RETRY_MS, again)
            return
        if replay.skipped.count:
            where, skipped = f"{self._topic}-{partition}", replay.skipped
            log.error("%s: %d records are invalid and ignored, the first: %s", where, skipped.count, skipped.first)
        for result in replay.results():
            try:
                self._install(partition, result)
            except Exception:
                log.exception("%s-%d: an entry cannot be taken over", self._topic, partition)
            count += 1
            yield
        del self._loading[partition]
        self._owned.add(partition)
        log.info("%s-%d is loaded: %d entries", self._topic, partition, count)

    def _read(self, partition: int, replay: Replay[U]) -> Iterator[None]:
        while True:
            offset = replay.next_offset
            data, end_offset = self._storage.read(partition, offset, self._load_buffer_bytes)
            yield from replay.steps(data)
            if not data or replay.next_offset >= end_offset:
                return
            if replay.next_offset == offset:
                raise MalformedMessage(f"no whole batch at offset {offset} in {len(data)} bytes")


class TopicCoordinator(Protocol):
    """The coordinator of one topic: hears of that topic's partitions what a `LeadershipListener` hears of all."""

    def on_elected(self, partition: int, epoch: int) -> None: ...

    def on_resigned(self, partition: int) -> None:
        """Take note that this broker does not lead the partition, or not any more."""

    def on_partitions_deleted(self, partitions: Sequence[PartitionKey]) -> None:
        """Take note that the cluster does not have these partitions any more; they may be of any topic."""


class CoordinatorElections(LeadershipListener):
    """Tells the coordinators, which `coordinators` has by topic, what happens to the partitions of their topics."""

    def __init__(self) -> None:
        self.coordinators: Mapping[str, TopicCoordinator] = {}

    def on_elected(self, topic: str, index: int, leader_epoch: int) -> None:
        if topic in self.coordinators:
            self.coordinators[topic].on_elected(index, leader_epoch)

    def on_resigned(self, topic: str, index: int) -> None:
        if topic in self.coordinators:
            self.coordinators[topic].on_resigned(index)

    def on_partitions_deleted(self, partitions: Sequence[PartitionKey]) -> None:
        for coordinator in self.coordinators.values():
            coordinator.on_partitions_deleted(partitions)
