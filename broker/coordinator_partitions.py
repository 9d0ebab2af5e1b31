"""The partitions of `__consumer_offsets` and `__transaction_state` as their coordinators see them: which one something
lives in, which of them this broker owns, the loading of one that it has just come to lead, and the writing to it.

A partition is loaded in slices, so that other requests are served meanwhile; until it is loaded, what lives there is
answered COORDINATOR_LOAD_IN_PROGRESS. One whose log cannot be read is not served at all, and read again later: to serve
a part of the committed offsets would send consumers back to wherever their reset policy says.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.log.log import Origin
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from odradek.protocol.primitives import Buffer
from odradek.world.clock import Clock
from odradek.world.files import FileRange
from odradek.world.time_slices import run_in_slices
from odradek.zk_schema.store import NoNode, Store
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.topics import TopicAssignment, topic_path

log = logging.getLogger(__name__)

ALL = -1
"""Acknowledgements: of every replica in sync."""
LONGEST_TEXT = 8_000
"""Characters in whatever a client names itself, its group or its transactions by: strings in the records of these
topics have 16-bit lengths, in bytes."""
LOAD_RETRY_MS = 5_000.0
"""Pause before a partition that could not be read is read again."""

T = TypeVar("T", covariant=True)
U = TypeVar("U")


def java_hash(text: str) -> int:
    """Compute Java's String.hashCode: a signed 32-bit number over the text's UTF-16 units."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(name: str, partition_count: int) -> int:
    """Find the partition that a group or a transactional id lives in: Kafka's `Utils.abs(name.hashCode) % count`, where
    the absolute value of the smallest number is 0 (GroupMetadataManager.partitionFor)."""
    value = java_hash(name)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


class PartitionCount:
    """Number of partitions of a coordinator's topic, which says where everything in it lives and must not change.

    It is read from ZooKeeper when the broker starts, because the broker leads partitions before its metadata has come:
    to guess by the setting would put a group where nobody looks for it. A topic that did not exist then has as many as
    the metadata says since, and until it does the setting is what it is created with.
    """

    def __init__(self, topic: str, metadata: MetadataCache, setting: int) -> None:
        self._topic, self._metadata, self._setting = topic, metadata, setting
        self._read = 0

    async def read(self, store: Store) -> None:
        """Read what is there at the broker's start. Raises StoreError."""
        try:
            data, _ = await store.get(topic_path(self._topic))
            self._read = len(TopicAssignment.decode(self._topic, data).partitions)
        except NoNode:
            return
        except BadZnode as error:
            log.error("how many partitions %s has cannot be read: %s", self._topic, error)

    def __call__(self) -> int:
        """Return the number."""
        return self._read or self._metadata.partition_count(self._topic) or self._setting


class TopicStorage(Protocol):
    """The partitions of a coordinator's topic, as this broker has them."""

    def append(self, partition: int, records: bytearray, timeout_ms: int, done: Callable[[ErrorCode], None]) -> None:
        """Append one batch as the leader. `done` is called once, perhaps before this returns.

        NONE: every replica in sync has it. Any error of Produce otherwise; NOT_LEADER_OR_FOLLOWER when not the leader.
        """

    def read(self, partition: int, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Return batches from `offset` on, the first one whole, the last one perhaps not; and the log end offset.

        Raises KafkaError when there is no such log, OSError or KafkaError when it cannot be read.
        """

    def log_start_offset(self, partition: int) -> int:
        """Return the first offset that can be read; raises KafkaError when there is no such log."""


class ReplicatedTopicStorage:
    """A coordinator's topic in this broker's replicas.

    `acks`: as a producer's, who is told before the others have it unless that is ALL (`offsets.commit.required.acks`).
    """

    def __init__(self, replicas: ReplicaManager, topic: str, acks: int = ALL) -> None:
        self._replicas, self._topic, self._acks = replicas, topic, acks

    def append(self, partition: int, records: bytearray, timeout_ms: int, done: Callable[[ErrorCode], None]) -> None:
        """See TopicStorage. A `done` that raises is logged here: the caller of it may be a follower's connection."""

        def guarded(error: ErrorCode) -> None:
            try:
                done(error)
            except Exception:
                log.exception("%s-%d: what was to follow an append has failed", self._topic, partition)

        try:
            led = self._replicas.led(self._topic, partition)
            if self._acks != ALL:
                self._replicas.append(led, records, self._acks, Origin.COORDINATOR)
        except KafkaError as error:
            guarded(error.code)
            return
        if self._acks == ALL:
            self._replicas.append_and_wait(led, records, timeout_ms, guarded)
        else:
            guarded(ErrorCode.NONE)

    def read(self, partition: int, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """See TopicStorage."""
        replica_log = self._held(partition).log
        end = replica_log.log_end_offset
        records = replica_log.read(offset, max_bytes, end, whole_first_batch=True).records
        if isinstance(records, FileRange):
            return records.file.pread(records.length, records.position), end
        return records, end

    def log_start_offset(self, partition: int) -> int:
        """See TopicStorage."""
        return self._held(partition).log.log_start_offset

    def _held(self, partition: int) -> Partition:
        held = self._replicas.partition(self._topic, partition)
        if isinstance(held, ErrorCode):
            raise KafkaError(held, f"{self._topic}-{partition} is not held by this broker")
        return held


class Replay(Protocol[T]):
    """Result of reading the batches of a partition."""

    @property
    def next_offset(self) -> int:
        """Offset of the first record not seen yet."""

    def steps(self, data: Buffer) -> Iterator[None]:
        """Take in the whole batches of `data`, pausing now and then. Raises MalformedMessage."""

    def results(self) -> Iterable[T]:
        """All that lives in the partition."""


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

    @property
    def is_loading(self) -> bool:
        """True while any partition is being read."""
        return bool(self._loading)

    def check(self, partition: int) -> ErrorCode:
        """NONE when requests for what lives in the partition can be served."""
        if partition in self._owned:
            return ErrorCode.NONE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if partition in self._loading else ErrorCode.NOT_COORDINATOR

    def epoch(self, partition: int) -> int:
        """Return the newest leader epoch known of a partition that is, or was, led here."""
        return self._epochs[partition]

    def elected(self, partition: int, epoch: int) -> None:
        """This broker leads the partition in that leader epoch. An older epoch than known is ignored."""
        if epoch < self._epochs.get(partition, epoch):
            known = self._epochs[partition]
            log.info("%s-%d: not loading in epoch %d, %d is known", self._topic, partition, epoch, known)
            return
        self._epochs[partition] = epoch
        if partition not in self._owned and partition not in self._loading:
            self._begin_to_load(partition)

    def resigned(self, partition: int, epoch: int | None) -> bool:
        """This broker does not lead the partition any more (None: whatever the epoch); False when it still does."""
        if epoch is not None:
            if epoch < self._epochs.get(partition, epoch):
                return False
            self._epochs[partition] = epoch
        self._owned.discard(partition)
        self._loading.pop(partition, None)
        return True

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
        except (KafkaError, MalformedMessage, OSError) as error:
            log.error("%s-%d cannot be loaded, and is read again later: %s", self._topic, partition, error)
            again = partial(self._load_again, partition, self._loading[partition])
            self._clock.call_later(LOAD_RETRY_MS, again)
            return
        for result in replay.results():
            self._install(partition, result)
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


class Coordinator(Protocol):
    """The group coordinator, or the transaction coordinator."""

    def on_elected(self, partition: int, epoch: int) -> None:
        """This broker has become the leader of that partition of the coordinator's topic."""

    def on_resigned(self, partition: int, epoch: int | None) -> None:
        """It does not lead it any more (None: whatever the epoch)."""

    def on_partitions_deleted(self, partitions: Sequence[tuple[str, int]]) -> None:
        """The cluster does not have these partitions, of any topics, any more."""


class CoordinatorElections:
    """Passes on to the coordinators what happens to the partitions of their topics. `coordinators`: by topic."""

    def __init__(self) -> None:
        self.coordinators: Mapping[str, Coordinator] = {}

    def on_elected(self, topic: str, index: int, leader_epoch: int) -> None:
        """This broker leads that partition from now on."""
        if topic in self.coordinators:
            self.coordinators[topic].on_elected(index, leader_epoch)

    def on_resigned(self, topic: str, index: int) -> None:
        """It does not lead that partition, or not any more."""
        if topic in self.coordinators:
            self.coordinators[topic].on_resigned(index, None)

    def on_partitions_deleted(self, partitions: Sequence[tuple[str, int]]) -> None:
        """The cluster does not have these partitions any more."""
        for coordinator in self.coordinators.values():
            coordinator.on_partitions_deleted(partitions)
