"""Which partitions of `__consumer_offsets` this broker coordinates, and the loading of one it has just come to lead.

A partition is loaded in slices, so that other requests are served meanwhile; until it is loaded its groups are answered
COORDINATOR_LOAD_IN_PROGRESS. One whose log cannot be read is not owned at all: to serve a part of the committed offsets
would send consumers back to wherever their reset policy says.
"""

import logging
from collections.abc import Callable, Iterator

from odradek.broker.groups.offsets import OffsetTable
from odradek.broker.groups.replay import Replay
from odradek.broker.groups.roster import Roster
from odradek.broker.groups.slices import run_in_slices
from odradek.broker.groups.storage import GroupStorage
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from odradek.world.clock import Clock

log = logging.getLogger(__name__)

Install = Callable[[int, Roster, OffsetTable], object]
"""Called for each group of a partition (its number first) when all of the partition has been read."""


class Ownership:
    """The partitions led by this broker. `install` is called for every group that was loaded."""

    def __init__(self, clock: Clock, storage: GroupStorage, load_buffer_bytes: int, install: Install) -> None:
        self._clock = clock
        self._storage = storage
        self._load_buffer_bytes = load_buffer_bytes
        self._install = install
        self._epochs: dict[int, int] = {}
        self._owned: set[int] = set()
        self._loading: dict[int, Iterator[None]] = {}

    @property
    def is_loading(self) -> bool:
        """Whether any partition is still being read."""
        return bool(self._loading)

    def check(self, partition: int) -> ErrorCode:
        """NONE when requests for the groups of the partition can be served."""
        if partition in self._owned:
            return ErrorCode.NONE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if partition in self._loading else ErrorCode.NOT_COORDINATOR

    def elected(self, partition: int, epoch: int) -> None:
        """This broker leads the partition in that leader epoch. An older epoch than known is ignored."""
        if epoch < self._epochs.get(partition, epoch):
            log.info("partition %d: not loading in epoch %d, %d is known", partition, epoch, self._epochs[partition])
            return
        self._epochs[partition] = epoch
        if partition not in self._owned and partition not in self._loading:
            loading = self._load(partition)
            self._loading[partition] = loading
            run_in_slices(self._clock, loading, lambda: self._loading.get(partition) is loading)

    def resigned(self, partition: int, epoch: int | None) -> bool:
        """This broker does not lead the partition any more (None: whatever the epoch); False when it still does."""
        if epoch is not None:
            if epoch < self._epochs.get(partition, epoch):
                return False
            self._epochs[partition] = epoch
        self._owned.discard(partition)
        self._loading.pop(partition, None)
        return True

    def _load(self, partition: int) -> Iterator[None]:
        """Read all of the partition, hand its groups over, and own it."""
        count = 0
        try:
            replay = Replay(self._storage.log_start_offset(partition))
            yield from self._read(partition, replay)
        except (KafkaError, MalformedMessage, OSError) as error:
            log.error("partition %d of the group metadata cannot be loaded: %s", partition, error)
            del self._loading[partition]
            return
        for roster, offsets in replay.groups():
            self._install(partition, roster, offsets)
            count += 1
            yield
        del self._loading[partition]
        self._owned.add(partition)
        log.info("partition %d of the group metadata is loaded: %d groups", partition, count)

    def _read(self, partition: int, replay: Replay) -> Iterator[None]:
        while True:
            offset = replay.next_offset
            data, end_offset = self._storage.read(partition, offset, self._load_buffer_bytes)
            yield from replay.steps(data)
            if not data or replay.next_offset >= end_offset:
                return
            if replay.next_offset == offset:
                raise MalformedMessage(f"no whole batch at offset {offset} in {len(data)} bytes")
