"""What a follower asks one leader for next, and what it does with the answer.

Pure: builds Fetch requests and takes answers; `broker/tasks/fetching.py` carries them. One `FetcherCore` holds the
partitions that one fetcher task copies from one leader, and its fetch session, so that a round trip names only the
partitions that have moved. Truncation rides on the fetch itself (KIP-595): we say the epoch of our last record, and
the leader says where our histories part.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

from odradek.broker.replication.fetch_sessions import EPOCH_MAX, INITIAL_EPOCH, NO_SESSION
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.throttling import Throttle
from odradek.broker.replication.truncation import truncation_offset
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

log = logging.getLogger(__name__)

FETCH_VERSION = 17
LOOK_AT_ALL_MS = 1000
"""How often all partitions are looked at: where our own log starts may move without a fetch."""
LEADER_NOT_READY_BACKOFF_MS = 50.0
"""The new leader may hear of its election a moment after us."""
THROTTLED_PAUSE_MS = 200.0
"""How long a partition is left out of the fetches before the limit is looked at again."""

PartitionKey = tuple[bytes, int]
"""Topic id and partition index."""
Asked = tuple[int, int, int, int]
"""Fetch offset, last fetched epoch, leader epoch, log start offset: what a session remembers of a partition."""


class FetcherLimits(NamedTuple):
    """Kafka's replica.fetch.* settings, in bytes and milliseconds."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    response_max_bytes: int
    backoff_ms: int


class PartitionFetchState:
    """A partition that is being copied."""

    __slots__ = ("caught_up", "needs_leader_offsets", "not_before_ms", "partition", "stopped")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.not_before_ms = 0.0
        self.caught_up = False
        """At its last answer our log reached the leader's high watermark."""
        self.stopped = False
        """The leader has fenced us: nothing to do until the controller tells news."""
        self.needs_leader_offsets = False
        """Our end is outside of the leader's log: where that begins and ends must be asked for."""

    def may_be_asked_for(self, now_ms: float) -> bool:
        return not self.stopped and not self.needs_leader_offsets and self.not_before_ms <= now_ms


NOTHING_ASKED: Asked = (-1, -1, -1, -1)
"""Unlike anything that is asked for: the partition is in the session and will be named, or forgotten, next time."""


class FetcherCore:
    """All that one fetcher task copies from the leader `leader_id`."""

    def __init__(self, local_id: int, leader_id: int, limits: FetcherLimits, throttle: Throttle) -> None:
        self.local_id, self.leader_id, self.limits = local_id, leader_id, limits
        self._throttle = throttle
        self.broker_epoch = -1
        self._followed: dict[PartitionKey, PartitionFetchState] = {}
        self._session_id, self._session_epoch = NO_SESSION, INITIAL_EPOCH
        self._in_session: dict[PartitionKey, Asked] = {}
        self._grown: set[PartitionKey] = set()
        """Those that an answer has brought records for. Nothing else changes what is asked for while all is well."""
        self._look_at_all_ms = 0.0

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, partition: Partition) -> None:
        self._look_at_all_ms = 0.0
        self._followed[(partition.topic_id, partition.index)] = PartitionFetchState(partition)

    def leave(self, partition: Partition) -> None:
        self._look_at_all_ms = 0.0
        followed = self._followed.get((partition.topic_id, partition.index))
        if followed is not None and followed.partition is partition:
            del self._followed[(partition.topic_id, partition.index)]

    def disconnected(self) -> None:
        """The connection broke, or an answer is lost: the session is begun anew."""
        self._session_id, self._session_epoch, self._in_session = NO_SESSION, INITIAL_EPOCH, {}
        self._look_at_all_ms = 0.0

    def out_of_range(self) -> list[PartitionFetchState]:
        """Those that wait for `leader_offsets` to be told."""
        if self._look_at_all_ms:
            return []
        return [followed for followed in self._followed.values() if followed.needs_leader_offsets]

    def next_wake_ms(self) -> float | None:
        """The earliest time at which a partition that waits may be asked for again."""
        waiting = [f.not_before_ms for f in self._followed.values() if not f.stopped and not f.needs_leader_offsets]
        return min(waiting, default=None)

    def request(self, now_ms: float) -> FetchRequest | None:
        """The next Fetch, or None when no partition can be asked for at present."""
        forgotten: list[PartitionKey] = []
        self._hold_back(now_ms)
        if now_ms < self._look_at_all_ms:
            changed = {key: self._asked(self._followed[key].partition) for key in self._grown}
            self._in_session.update(changed)
        else:
            known = self._in_session
            wanted = {k: self._asked(f.partition) for k, f in self._followed.items() if f.may_be_asked_for(now_ms)}
            if not wanted:
                return None
            changed = {key: asked for key, asked in wanted.items() if known.get(key) != asked}
            forgotten = [key for key in known if key not in wanted]
            self._in_session = wanted
            self._look_at_all_ms = now_ms + LOOK_AT_ALL_MS if len(wanted) == len(self._followed) else 0.0
        self._grown.clear()
        limits = self.limits
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self.local_id, replica_epoch=self.broker_epoch),
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=self._topics(changed.items()),
            forgotten_topics_data=[ForgottenTopic(topic_id=id_, partitions=[index]) for id_, index in forgotten],
        )

    def _hold_back(self, now_ms: float) -> None:
        """Leave out what the throttle holds back, for a while."""
        if not self._throttle.limit.exceeded:
            return
        for followed in self._followed.values():
            if not followed.caught_up and self._throttle.holds_back(followed.partition):
                followed.not_before_ms = max(followed.not_before_ms, now_ms + THROTTLED_PAUSE_MS)
                self._look_at_all_ms = 0.0

    @staticmethod
    def _asked(partition: Partition) -> Asked:
        own = partition.log
        return own.log_end_offset, own.latest_epoch, partition.leader_epoch, own.log_start_offset

    def _topics(self, changed: Iterable[tuple[PartitionKey, Asked]]) -> list[FetchTopic]:
        topics: dict[bytes, FetchTopic] = {}
        for (topic_id, index), (offset, epoch, leader_epoch, log_start) in changed:
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=leader_epoch,
                    fetch_offset=offset,
                    last_fetched_epoch=epoch,
                    log_start_offset=log_start,
                    partition_max_bytes=self.limits.max_bytes,
                )
            )
        return list(topics.values())

    def answered(self, response: FetchResponse, now_ms: float) -> None:
        """Take in an answer. A disk that fails here has told its manager, who takes the partition offline."""
        if response.error_code:
            self.disconnected()
            return
        asked_for = self._in_session
        self._advance_session(response.session_id)
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                followed, asked = self._followed.get(key), asked_for.get(key)
                # roles and logs may have changed while the request was under way: an answer to a question that we
                # would not ask any more is dropped, and the leader, who believes it told, is asked by name once more
                if followed is None or asked is None or not self._still_asking(followed.partition, asked):
                    self._in_session[key] = NOTHING_ASKED
                    self._look_at_all_ms = 0.0
                elif self._take(followed, data, now_ms):
                    self._grown.add(key)
                else:
                    self._look_at_all_ms = 0.0

    def _advance_session(self, session_id: int) -> None:
        if session_id == NO_SESSION:
            self.disconnected()
        elif session_id != self._session_id:
            self._session_id, self._session_epoch = session_id, 1
        else:
            self._session_epoch = 1 if self._session_epoch == EPOCH_MAX else self._session_epoch + 1

    @staticmethod
    def _still_asking(partition: Partition, asked: Asked) -> bool:
        return (
            not partition.is_leader
            and partition.leader_epoch == asked[2]
            and partition.log.log_end_offset == asked[0]
            and not partition.offline
        )

    def _take(self, followed: PartitionFetchState, data: PartitionData, now_ms: float) -> bool:
        """Whether all is well: nothing but the end and the start of the log may have changed."""
        partition = followed.partition
        error = data.error_code
        if error == ErrorCode.NONE:
            if data.diverging_epoch is not None:
                self._truncate(partition, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
                return False
            records = data.records or b""
            try:
                partition.append_as_follower(records, data.high_watermark, data.log_start_offset)
                followed.caught_up = data.high_watermark <= partition.log.log_end_offset
                self._throttle.copied(partition, len(records))
                return True
            except KafkaError as bad:
                log.error("%s: what the leader sent cannot be appended: %s", partition, bad)
                followed.not_before_ms = now_ms + self.limits.backoff_ms
        elif error == ErrorCode.OFFSET_OUT_OF_RANGE:
            followed.needs_leader_offsets = True
        elif error == ErrorCode.FENCED_LEADER_EPOCH:
            followed.stopped = True
        elif error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH):
            followed.not_before_ms = now_ms + LEADER_NOT_READY_BACKOFF_MS
        else:
            followed.not_before_ms = now_ms + self.limits.backoff_ms
        return False

    @staticmethod
    def _truncate(partition: Partition, leader_epoch: int, leader_end_offset: int) -> None:
        offset = truncation_offset(
            leader_epoch,
            leader_end_offset,
            own_end_offset_for=partition.log.end_offset_for_epoch,
            log_end_offset=partition.log.log_end_offset,
            high_watermark=partition.high_watermark,
        )
        log.info(
            "%s: our log leaves the leader's at epoch %d offset %d: truncating from %d to %d",
            partition, leader_epoch, leader_end_offset, partition.log.log_end_offset, offset,
        )  # fmt: skip
        partition.truncate_to(offset)

    def leader_offsets(self, followed: PartitionFetchState, log_start: int, log_end: int) -> None:
        """Our end was out of the leader's range [log_start, log_end] (Kafka: handleOffsetOutOfRange).

        Above its end: an unclean election took place, our surplus goes. Below its start: the leader has deleted what
        we miss, we begin again at its start.
        """
        followed.needs_leader_offsets = False
        self._look_at_all_ms = 0.0
        partition = followed.partition
        if partition.log.log_end_offset > log_end:
            log.warning(
                "%s: ends at %d, the leader at %d: truncating", partition, partition.log.log_end_offset, log_end
            )
            partition.truncate_to(log_end)
        elif partition.log.log_end_offset < log_start:
            log.info("%s: the leader begins at %d: starting over there", partition, log_start)
            partition.start_over_at(log_start)
