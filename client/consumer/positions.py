"""Positions of a consumer in its partitions. No I/O.

A partition is assigned first and located afterwards: at a committed offset, or by auto.offset.reset, or by `seek`. Two
offsets advance from there: `position`, the next record for the application, and `fetch_offset`, the next to ask for.
`version` changes with every jump, and no version is used twice, even when the partition goes to another member and
comes back. So the answer to a request from before a jump is recognised, and dropped.
"""

import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from odradek.client.consumer.chunks import Ahead
from odradek.client.errors import NoOffsetForPartition
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.client.waiting import NEVER
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.primitives import ZERO_UUID

RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


def reset_timestamp(policy: str, topic_partition: TopicPartition) -> int:
    """Return the ListOffsets timestamp of an auto.offset.reset. Raises NoOffsetForPartition for "none"."""
    if policy not in RESET_TIMESTAMPS:
        raise NoOffsetForPartition(
            f"{topic_partition}: no committed offset to start from, or it is out of range, and "
            "auto.offset.reset=none: seek, or choose earliest or latest",
            topic_partition=topic_partition,
        )
    return RESET_TIMESTAMPS[policy]


@dataclass(slots=True)
class PartitionPosition:
    """Position in an assigned partition."""

    _place: tuple[int, int] = (-1, -1)
    _ahead: Ahead | None = None
    """Decoded records that are handed out one by one. While there are any, the place is theirs: it need not be noted
    here after each record."""
    fetch_offset: int = -1
    fetch_epoch: int = -1
    """Leader epoch of the record before `fetch_offset`; -1 if it is not known."""
    valid_in: int = -1
    """Epoch of the leader whose log has been confirmed to have the records before `fetch_offset`."""
    topic_id: bytes = ZERO_UUID
    """Id of the topic in the last Fetch."""
    reset_to: int | None = None
    """ListOffsets timestamp at which to start, whatever is committed; None to start at the committed offset. It counts
    until the partition is located."""
    paused: bool = False
    version: int = 0
    asked_of: int = -1
    """Broker of the last Fetch from this `fetch_offset`; -1 for none."""
    retry_at_ms: float = 0.0
    failures: int = 0
    """Fetches in a row without the leader's answer."""
    failed_in: int | None = None
    """Leader epoch of the last of them, while `retry_at_ms` is because of it: under another leader it does not hold."""
    replica: int = -1
    """Replica that the leader has named to read from (KIP-392); -1 for the leader."""
    replica_until_ms: float = 0.0
    """Time when the leader is asked again, in ms of the monotonic clock."""
    high_watermark: int = -1
    """High watermark in the last answer; -1 before there was one."""

    @property
    def place(self) -> tuple[int, int]:
        """Position (-1 until it is located), and the leader epoch of the last record handed out. Both are committed."""
        ahead = self._ahead
        return self._place if ahead is None else ahead.place

    @property
    def position(self) -> int:
        """Offset of the next record for the application; -1 until the partition is located."""
        return self.place[0]

    def move_to(self, position: int, leader_epoch: int = -1) -> None:
        """Set the place; records that are decoded ahead are dropped."""
        self.forget_ahead()
        self._place = (position, leader_epoch)

    def hand_out(self, ahead: Ahead) -> None:
        """Let the place follow these records, which begin at it."""
        self._ahead = ahead

    @property
    def has_ahead(self) -> bool:
        """Tell whether decoded records are left to hand out."""
        return bool(self._ahead)

    def forget_ahead(self) -> None:
        """Drop the records that are decoded ahead; the place stays behind the last one that was handed out."""
        ahead = self._ahead
        if ahead is not None:
            ahead.drop()
            self._place, self._ahead = ahead.place, None

    def reader(self, leader: int, now_ms: float, online: Collection[int]) -> int:
        """Return the broker to ask for records: the replica that the leader has named, or else the leader."""
        if self.replica < 0:
            return leader
        if now_ms < self.replica_until_ms and self.replica in online:
            return self.replica
        self.replica = -1
        return leader

    def look_at(self, topic_id: bytes) -> None:
        """Note the topic that is asked for next. If it is a new one of the same name, drop the old leader epochs.

        They would make the broker find that the new topic's log diverges, and its first records would be skipped.
        Without them it compares the offset alone, as it does for Java's consumer.
        """
        if self.topic_id != topic_id:
            if ZERO_UUID not in (self.topic_id, topic_id):
                self.fetch_epoch = self.valid_in = -1
                if not self.has_ahead:  # else the next record, still of the old topic, would set its epoch anyway
                    self.move_to(self.position)
            self.topic_id = topic_id

    @property
    def located(self) -> bool:
        """Tell whether records can be asked for."""
        return self._place[0] >= 0


@dataclass(frozen=True, slots=True)
class Sought:
    """How to locate a partition: by a timestamp, or (None) at the committed offset; and its position's version."""

    version: int
    timestamp: int | None


class Positions:
    """All assigned partitions."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, PartitionPosition] = {}
        self._versions = itertools.count()

    def assign(self, wanted: Collection[TopicPartition]) -> None:
        """Hold these partitions and no others. Those that stay keep their position, and stay paused if they were."""
        for given_up in self.partitions.keys() - set(wanted):
            self.partitions[given_up].forget_ahead()
        self.partitions = {
            tp: self.partitions.get(tp) or PartitionPosition(version=next(self._versions)) for tp in wanted
        }

    def jump(self, topic_partition: TopicPartition, offset: int) -> None:
        """Move the position to `offset`."""
        state = self.partitions[topic_partition]
        state.move_to(offset)
        state.fetch_offset, state.fetch_epoch = offset, -1
        self._invalidate(state)

    def truncate(self, topic_partition: TopicPartition, offset: int, leader_epoch: int) -> None:
        """Go on at `offset`, from which on the leader's log differs from what was read; `leader_epoch` is its epoch
        before that.

        A position before `offset` stays: only records that were not handed out yet are fetched again.
        """
        state = self.partitions[topic_partition]
        if offset < state.position:
            state.move_to(offset, leader_epoch)
        self.go_back(topic_partition)

    def go_back(self, topic_partition: TopicPartition) -> None:
        """Drop everything that was fetched ahead, to ask for it again from the position, which stays."""
        state = self.partitions[topic_partition]
        state.forget_ahead()
        state.fetch_offset, state.fetch_epoch = state.place
        self._invalidate(state)

    def reset(self, topic_partition: TopicPartition, timestamp: int | None) -> None:
        """Have a partition located again: at EARLIEST, LATEST or a time; with None at the committed offset, or else by
        auto.offset.reset."""
        state = self.partitions[topic_partition]
        state.move_to(-1)
        state.fetch_offset = state.fetch_epoch = -1
        state.reset_to = timestamp
        self._invalidate(state)

    def _invalidate(self, state: PartitionPosition) -> None:
        state.version = next(self._versions)
        state.valid_in = -1
        state.asked_of = -1
        state.retry_at_ms = 0.0

    def pause(
        self, topic_partition: TopicPartition, version: int, until_ms: float, failed_in: int | None = None
    ) -> None:
        """Do not ask again before `until_ms` of the monotonic clock, unless the position's version has changed, or the
        leader epoch is another one than `failed_in`."""
        state = self.partitions.get(topic_partition)
        if state is not None and state.version == version:
            state.asked_of = -1
            state.retry_at_ms = until_ms
            state.failed_in = failed_in

    def next_retry_ms(self, now_ms: float) -> float:
        """Return when the next pause ends, in ms of the monotonic clock."""
        return min([one.retry_at_ms for one in self.partitions.values() if one.retry_at_ms > now_ms], default=NEVER)

    # -- locating ------------------------------------------------------------------------------------------------------

    def unlocated(self, now_ms: float) -> list[TopicPartition]:
        """Return the partitions to locate now."""
        return [tp for tp, state in self.partitions.items() if not state.located and state.retry_at_ms <= now_ms]

    def sought(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, Sought]:
        """Return how to locate those of these partitions that have not been located yet."""
        states = {tp: self.partitions.get(tp) for tp in wanted}
        return {
            tp: Sought(state.version, state.reset_to)
            for tp, state in states.items()
            if state is not None and not state.located
        }

    def locate(self, topic_partition: TopicPartition, sought: Sought, offset: int, leader_epoch: int = -1) -> None:
        """Start reading at `offset`, unless the application has sought elsewhere, or the partition was given up."""
        state = self.partitions.get(topic_partition)
        if state is None or state.located or state.version != sought.version:
            return
        state.move_to(offset, leader_epoch)
        state.fetch_offset, state.fetch_epoch = offset, leader_epoch

    def retry_at(self, partitions: Iterable[TopicPartition], at_ms: float) -> None:
        """Postpone the look-up of partitions that still have no position until `at_ms` of the monotonic clock."""
        for topic_partition in partitions:
            state = self.partitions.get(topic_partition)
            if state is not None and not state.located:
                state.retry_at_ms = at_ms

    # -- what is read --------------------------------------------------------------------------------------------------

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit for everything that was handed out."""
        places = {tp: state.place for tp, state in self.partitions.items()}
        return {tp: OffsetAndMetadata(offset, "", epoch) for tp, (offset, epoch) in places.items() if offset >= 0}
