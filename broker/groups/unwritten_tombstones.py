"""Tombstones that a full disk did not take: they are written when it has room, unless something newer has the key.

What they delete is forgotten here already, but without them the next coordinator would know it again: groups that were
deleted, and offsets of a deleted topic, at which readers of a new topic of that name would begin. Kafka gives them up.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from odradek.broker.groups.group import CoordinatedGroup
from odradek.broker.groups.group_records import OffsetKey, Record, batches_of_tombstones, read_key
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_names import CONSUMER_OFFSETS
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
        """Write these tombstones later, or give up those beyond TOMBSTONES_MAX."""
        room = TOMBSTONES_MAX - sum(map(len, self._waiting.values()))
        self._waiting.setdefault(partition, {}).update(dict.fromkeys(key for key, _ in tombstones[:room]))
        if room < len(tombstones):
            log.warning(
                "the disk has no room for %d tombstones, which are given up: groups and offsets that they delete are "
                "back when the next coordinator reads %s-%d", len(tombstones) - room, CONSUMER_OFFSETS, partition,
            )  # fmt: skip
        self._plan()

    def forget(self, partition: int) -> None:
        """Give up the tombstones of this partition: another broker leads it."""
        self._waiting.pop(partition, None)
        self._plan()

    def stop(self) -> None:
        """Give up all tombstones."""
        self._waiting.clear()
        self._plan()

    def _plan(self) -> None:
        """Have a timer if something waits, and none if not."""
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
        """Tell whether a commit for that key is on its way, so that nobody knows yet whether it will count."""
        named = read_key(key)
        group = None if named is None else self._groups.get(named.group_id)
        return group is not None and isinstance(named, OffsetKey) and not group.offsets.is_stable(named.partition)
