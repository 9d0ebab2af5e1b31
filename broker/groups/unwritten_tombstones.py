"""Tombstones that a full disk did not take: they are written when it has room, unless something newer has the key.

What they are of is forgotten here. Without them the next coordinator would know it again: groups that were deleted, and
offsets of a former topic, behind which the readers of one that was created again would begin. Kafka gives them up.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from odradek.broker.groups.group import CoordinatedGroup
from odradek.broker.groups.group_records import OffsetKey, Record, batches_of_tombstones, read_key
from odradek.protocol.errors import ErrorCode
from odradek.world.clock import Clock, Timer

log = logging.getLogger(__name__)

RETRY_MS: Final = 5_000
TOMBSTONES_MAX: Final = 10_000
"""Most tombstones that wait in all; further ones are given up."""


class UnwrittenTombstones:
    """Tombstones that wait, by the partition of `__consumer_offsets` that they are for."""

    def __init__(
        self,
        clock: Clock,
        groups: Mapping[str, CoordinatedGroup],
        write: Callable[[int, Sequence[Record]], ErrorCode],
    ) -> None:
        """Take the `groups` as the coordinator knows them, and the way to append some tombstones to a partition."""
        self._clock, self._groups, self._write = clock, groups, write
        self._waiting: dict[int, dict[bytes, None]] = {}
        self._timer: Timer | None = None

    def add(self, partition: int, tombstones: Sequence[Record]) -> None:
        """Write these later."""
        room = TOMBSTONES_MAX - sum(map(len, self._waiting.values()))
        self._waiting.setdefault(partition, {}).update(dict.fromkeys(key for key, _ in tombstones[:room]))
        if room < len(tombstones):
            log.warning("%d tombstones of groups will not be written", len(tombstones) - room)
        self._plan()

    def forget(self, partition: int) -> None:
        """Write none of this partition: another broker leads it."""
        self._waiting.pop(partition, None)
        self._plan()

    def stop(self) -> None:
        """Write nothing any more."""
        self._waiting.clear()
        self._plan()

    def _plan(self) -> None:
        """Have a timer as long as something waits."""
        if self._waiting and self._timer is None:
            self._timer = self._clock.call_later(RETRY_MS, self._write_again)
        elif self._timer is not None and not self._waiting:
            self._timer.cancel()
            self._timer = None

    def _write_again(self) -> None:
        """Write what can be written now."""
        self._timer = None
        for partition, waiting in list(self._waiting.items()):
            for key in [key for key in waiting if self._is_newer(key)]:
                del waiting[key]
            due: list[Record] = [(key, None) for key in waiting if not self._is_under_way(key)]
            for some in batches_of_tombstones(due):
                if self._write(partition, some) is not ErrorCode.NONE:
                    break
                for key, _ in some:
                    del waiting[key]
            if not waiting:
                del self._waiting[partition]
        self._plan()

    def _is_newer(self, key: bytes) -> bool:
        """Tell whether the log has something newer under that key, or will have."""
        named = read_key(key)
        assert named is not None, key
        group = self._groups.get(named.group_id)
        if group is None:
            return False
        if isinstance(named, OffsetKey):
            return group.offsets.get(named.partition) is not None
        return group.metadata.generation > 0

    def _is_under_way(self, key: bytes) -> bool:
        """Tell whether a commit is on its way of which nobody knows what will become."""
        named = read_key(key)
        group = None if named is None else self._groups.get(named.group_id)
        return group is not None and isinstance(named, OffsetKey) and not group.offsets.is_stable(named.partition)
