"""Where a consumer is in each of its partitions. Pure.

A partition is assigned first and located afterwards: at a committed offset, or by auto.offset.reset, or by `seek`. Two
offsets go on from there: `position`, the next record for the application, and `fetch_offset`, the next to ask for.
`version` changes with every jump and is never used again, not even when the partition goes to another member and comes
back: so an answer to a question from before is thrown away.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from odradek.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.client.records import OffsetAndMetadata, TopicPartition

RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


@dataclass(slots=True)
class PartitionPosition:
    """One assigned partition."""

    position: int = -1
    """-1 until it is located."""
    fetch_offset: int = -1
    leader_epoch: int = -1
    """Of the last record handed out; goes into commits."""
    reset_to: int | None = None
    """A ListOffsets timestamp: the position is wanted from there, whatever is committed."""
    paused: bool = False
    version: int = 0
    fetching: bool = False
    retry_at_ms: float = 0.0
    high_watermark: int = -1

    @property
    def located(self) -> bool:
        """Whether records can be asked for."""
        return self.position >= 0


class Positions:
    """All assigned partitions."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, PartitionPosition] = {}
        self._versions = itertools.count()

    def assign(self, wanted: Iterable[TopicPartition]) -> None:
        """These and no others; those that stay keep their position and their pause."""
        self.partitions = {
            tp: self.partitions.get(tp) or PartitionPosition(version=next(self._versions)) for tp in wanted
        }

    def jump(self, topic_partition: TopicPartition, offset: int) -> None:
        """The next record is the one at `offset`."""
        state = self.partitions[topic_partition]
        state.position = state.fetch_offset = offset
        state.leader_epoch = -1
        state.reset_to = None
        self._invalidate(state)

    def reset(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Locate it anew, at EARLIEST or LATEST or a time."""
        state = self.partitions[topic_partition]
        state.position = state.fetch_offset = -1
        state.reset_to = timestamp
        self._invalidate(state)

    def _invalidate(self, state: PartitionPosition) -> None:
        state.version = next(self._versions)
        state.fetching = False
        state.retry_at_ms = 0.0

    def unlocated(self, now_ms: float) -> list[TopicPartition]:
        """Those to locate now."""
        return [tp for tp, state in self.partitions.items() if not state.located and state.retry_at_ms <= now_ms]

    def located_from_commits(
        self, asked: Collection[TopicPartition], committed: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> list[TopicPartition]:
        """Start where commits say; those without one, which must be reset, are returned."""
        without = []
        for topic_partition in asked:
            state = self.partitions.get(topic_partition)
            if state is None or state.located or state.reset_to is not None:
                continue
            if topic_partition in committed:
                state.position = state.fetch_offset = committed[topic_partition].offset
                state.leader_epoch = committed[topic_partition].leader_epoch
            else:
                without.append(topic_partition)
        return without

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit of everything handed out says."""
        return {
            tp: OffsetAndMetadata(state.position, "", state.leader_epoch)
            for tp, state in self.partitions.items()
            if state.located
        }
