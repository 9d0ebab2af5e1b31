"""The follower's side of replication: what to ask one leader for next, and what to do with its answer.

This module does no I/O: it builds Fetch requests and takes in answers, which fetcher_manager carries. One `FetcherCore`
holds the partitions that one fetcher task copies from one leader, and its fetch session, so that a round trip names
only the partitions that have moved. Truncation is part of fetching (KIP-595): the follower states the epoch of its last
record, and the leader answers where their histories diverge. Kafka: AbstractFetcherThread.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from odradek.broker.replication.partition import Partition
from odradek.broker.replication.throttling import Throttle
from odradek.broker.replication.truncation import FollowerTruncation, truncate_doubtful
from odradek.broker.settings.network_settings import FetcherSettings
from odradek.journal.journal import Journal
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.fetch_session import FetchSessionHandler
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import PartitionKey

log = logging.getLogger(__name__)

FETCH_VERSION = 17
FETCH_VERSION_BY_NAME = 12
"""The last version that names topics; used while a topic has no id, as in a cluster that is older than topic ids."""
ADDED_AT_ONCE_MAX = 500
"""Partitions that one request may add to the session. Each costs some 30 µs here and at the leader, in one piece."""
KNOWN_AT_ONCE_MAX = 1000
"""Partitions of the session that are looked at for one request, and that it may name, besides those whose logs have
changed. All of the latter are named: until they are, the leader sends the same records with each answer."""
LOOK_AT_ALL_MS = 30_000
"""Time after which all partitions are looked at: the start of our own log may move without a fetch."""
LEADER_NOT_READY_BACKOFF_MS = 50.0
"""Pause for a new leader, which may hear of its election, or of the topic and its id, a moment after us."""
LEADER_NOT_READY = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID}
)
THROTTLED_PAUSE_MS = 200.0
"""Time for which a partition is left out of the fetches before the limit is looked at again."""
LASTING = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OFFSET_OUT_OF_RANGE})
"""Trouble that is not logged at each retry: the disk has no room, or the leader does not have our last leader epoch."""
LOGGED_AGAIN_MS = 60_000.0
"""Time without trouble after which LASTING trouble is logged again. A full disk itself is logged every minute."""


class Asked(NamedTuple):
    """A partition as a fetch session remembers it: what was asked for last."""

    fetch_offset: int
    last_fetched_epoch: int
    leader_epoch: int
    log_start_offset: int
    topic_id: bytes


class PartitionFetchState:
    """State of a partition that is being copied."""

    __slots__ = ("caught_up", "doubtful_until", "doubts", "lag", "needs_leader_offsets", "not_before_ms",
                 "partition", "reached_ms", "stopped")  # fmt: skip

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.not_before_ms = 0.0
        self.caught_up = False
        """True if at the last answer our log reached the leader's high watermark."""
        self.doubtful_until = partition.log.log_end_offset
        """Offset before which transactions may lack their markers: our log ended there when copying began, or when it
        had been behind for long."""
        self.doubts = 0
        """How often we have truncated because of that since our log last reached the leader's high watermark."""
        self.reached_ms = float("inf")
        """Time of the monotonic clock at which it last did, or at which copying began."""
        self.lag = 0
        """Records that our log lacked up to the leader's high watermark at its last answer."""
        self.stopped = False
        """True when the leader has fenced us: there is nothing to do until the controller tells us of a later epoch."""
        self.needs_leader_offsets = False
        """True when our end is outside the leader's log: we must ask where that begins and ends."""

    def may_be_asked_for(self, now_ms: float) -> bool:
        return not self.stopped and not self.needs_leader_offsets and self.not_before_ms <= now_ms


def nothing_asked(topic_id: bytes) -> Asked:
    """Make an Asked unlike any other: the session has the partition, and next time it is named or forgotten."""
    return Asked(-1, -1, -1, -1, topic_id)


class FetcherCore:
    """Partitions that one fetcher task copies from the leader `leader_id`."""

    def __init__(
        self,
        local_id: int,
        leader_id: int,
        settings: FetcherSettings,
        throttle: Throttle,
        journal: Journal | None = None,
    ) -> None:
        """Take this broker's id, its settings, and its limit on what it copies."""
        self.local_id, self.leader_id, self.settings = local_id, leader_id, settings
        self._throttle, self._truncation = throttle, FollowerTruncation(leader_id, journal)
        self.broker_epoch = -1
        self.requests = self.bytes_in = self.reassignment_bytes_in = 0
        """Fetches answered, and bytes copied by them, since this fetcher began; how many of these were for replicas
        that a reassignment adds."""
        self._states: dict[PartitionKey, PartitionFetchState] = {}
        self._session: FetchSessionHandler[PartitionKey, Asked] = FetchSessionHandler()
        self._to_look_at: dict[PartitionKey, None] = {}
        """Partitions of which something else may be asked for now than last time, or that wait until they may be asked
        for. While thousands are taken up one after the other, the others are not looked at again and again."""
        self._look_at_all_ms = 0.0

    @property
    def states(self) -> Iterable[PartitionFetchState]:
        """States of the partitions that are being copied, for others to look at."""
        return self._states.values()

    def __len__(self) -> int:
        return len(self._states)

    @property
    def version(self) -> int:
        """Version of Fetch in which the last `request` is to be sent."""
        return FETCH_VERSION if self._session.by_topic_id else FETCH_VERSION_BY_NAME

    def follow(self, partition: Partition) -> None:
        """Copy a partition from now on."""
        key = (partition.topic, partition.index)
        self._to_look_at[key] = None
        self._states[key] = PartitionFetchState(partition)

    def leave(self, partition: Partition) -> None:
        """Stop copying a partition. Harmless when it is not being copied."""
        key = (partition.topic, partition.index)
        state = self._states.get(key)
        if state is not None and state.partition is partition:
            self._to_look_at[key] = None
            del self._states[key]

    def follows(self, state: PartitionFetchState) -> bool:
        """Tell whether the partition is still copied in this state, and was not left, or left and followed again."""
        return self._states.get((state.partition.topic, state.partition.index)) is state

    def disconnected(self) -> None:
        """Begin a new session: the connection broke, or an answer was lost."""
        self._session.begin_anew()
        self._look_at_all_ms = 0.0

    def out_of_range(self) -> list[PartitionFetchState]:
        """List the partitions that wait for `leader_offsets`."""
        states = self._states
        return [states[key] for key in self._to_look_at if key in states and states[key].needs_leader_offsets]

    def next_wake_ms(self) -> float | None:
        """Return the earliest time at which a partition that waits may be asked for again."""
        waiting = [f.not_before_ms for f in self._states.values() if not f.stopped and not f.needs_leader_offsets]
        return min(waiting, default=None)

    def request(self, now_ms: float) -> FetchRequest | None:
        """Return the next Fetch, or None when no partition can be asked for at present.

        When not all partitions were looked at, the leader is asked to answer at once: the next Fetch names more.
        """
        self._hold_back(now_ms)
        self._choose_version()
        session, settings = self._session, self.settings
        wanted, waiting, complete = self._choose_partitions(now_ms)
        changes = session.changes(wanted.items())
        if not changes.named and len(changes.forgotten) == len(session.known):
            return None
        session.tell(changes)
        self._to_look_at = waiting
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self.local_id, replica_epoch=self.broker_epoch),
            max_wait_ms=settings.replica_fetch_wait_max_ms if complete else 0,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=self._topics(changes.named.items()),
            forgotten_topics_data=changes.forgotten_topics(),
        )

    def _choose_partitions(
        self, now_ms: float
    ) -> tuple[dict[PartitionKey, Asked | None], dict[PartitionKey, None], bool]:
        """Return what to ask for (None: a partition that is not asked for), what to look at again for the Fetch after
        that, and whether all that may be asked for now is in this one."""
        states, known = self._states, self._session.known
        if now_ms >= self._look_at_all_ms:
            self._to_look_at = dict.fromkeys((*states, *known))
            self._look_at_all_ms = now_ms + LOOK_AT_ALL_MS
        wanted: dict[PartitionKey, Asked | None] = {}
        waiting: dict[PartitionKey, None] = {}
        added, old, complete = 0, 0, True
        for key in self._to_look_at:
            state, former = states.get(key), known.get(key)
            if state is None or not state.may_be_asked_for(now_ms):
                wanted[key] = None
                if state is not None:
                    waiting[key] = None
            elif former is None and added < ADDED_AT_ONCE_MAX:
                added += 1
                wanted[key] = self._asked(state.partition)
            elif former and (old < KNOWN_AT_ONCE_MAX or former.fetch_offset != state.partition.log.log_end_offset):
                old += 1
                wanted[key] = self._asked(state.partition)
            else:
                waiting[key] = None
                complete = False
        return wanted, waiting, complete

    def _choose_version(self) -> None:
        states = self._states
        looked_at = self._to_look_at if self._session.by_topic_id else states
        by_id = all(states[key].partition.topic_id != ZERO_UUID for key in looked_at if key in states)
        if by_id != self._session.by_topic_id:
            self._session.identify(by_topic_id=by_id)
            self._look_at_all_ms = 0.0

    def _hold_back(self, now_ms: float) -> None:
        """Leave the partitions that the throttle holds back out of the fetches for a while."""
        if self._throttle.limit.bytes_per_second is None or not self._throttle.limit.exceeded:
            return
        for key, state in self._states.items():
            if not state.caught_up and self._throttle.holds_back(state.partition):
                state.not_before_ms = max(state.not_before_ms, now_ms + THROTTLED_PAUSE_MS)
                self._to_look_at[key] = None

    @staticmethod
    def _asked(partition: Partition) -> Asked:
        own = partition.log
        return Asked(
            own.log_end_offset, own.epochs.latest, partition.leader_epoch, own.log_start_offset, partition.topic_id
        )

    def _topics(self, changed: Iterable[tuple[PartitionKey, Asked]]) -> list[FetchTopic]:
        topics: dict[str, FetchTopic] = {}
        for (name, index), (offset, epoch, leader_epoch, log_start, topic_id) in changed:
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchTopic(topic=name, topic_id=topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=leader_epoch,
                    fetch_offset=offset,
                    last_fetched_epoch=epoch,
                    log_start_offset=log_start,
                    partition_max_bytes=self.settings.replica_fetch_max_bytes,
                )
            )
        return list(topics.values())

    def answered(self, response: FetchResponse, now_ms: float) -> Sequence[Partition]:
        """Take in an answer; return the partitions whose high watermark has moved.

        What goes wrong with one partition (a disk fails, which the log manager then knows; records cannot be appended;
        the log cannot be truncated) concerns that partition alone: it is fetched again after a pause.
        """
        self.requests += 1
        session = self._session
        asked_for, names = session.known, session.names
        if response.error_code:
            session.refused(response.error_code)
        else:
            session.answered(response.session_id)
        if session.begins:
            self._look_at_all_ms = 0.0
        if response.error_code:
            return ()
        advanced: list[Partition] = []
        for topic in response.responses:
            name = names.get(topic.topic_id, "") if session.by_topic_id else topic.topic
            for data in topic.partitions:
                key = (name, data.partition_index)
                state, asked = self._states.get(key), asked_for.get(key)
                # roles and logs may have changed while the request was under way: an answer to a question that we
                # no longer ask is dropped, and the leader, who thinks that we have it, is asked by name once more
                if state is None or asked is None or not self._still_asking(state.partition, asked):
                    session.known[key] = nothing_asked(topic.topic_id if asked is None else asked.topic_id)
                else:
                    self._take(state, data, now_ms, advanced)
                self._to_look_at[key] = None
        return advanced

    @staticmethod
    def _still_asking(partition: Partition, asked: Asked) -> bool:
        return (
            not partition.is_leader
            and partition.leader_epoch == asked.leader_epoch
            and partition.topic_id == asked.topic_id
            and partition.log.log_end_offset == asked.fetch_offset
            and not partition.offline
        )

    def _take(self, state: PartitionFetchState, data: PartitionData, now_ms: float, advanced: list[Partition]) -> None:
        partition = state.partition
        error = data.error_code
        if error == ErrorCode.NONE:
            try:
                if data.diverging_epoch is not None:
                    self._truncation.to_common_history(partition, data.diverging_epoch)
                    return
                records = data.records or b""
                if now_ms - state.reached_ms > self._trusted_ms(state):
                    state.doubtful_until = partition.log.log_end_offset
                if truncate_doubtful(partition, state.doubtful_until, records, data.high_watermark):
                    state.reached_ms, state.doubtful_until = now_ms, 0
                    state.doubts += 1
                    return
                if partition.append_as_follower(records, data.high_watermark, data.log_start_offset):
                    advanced.append(partition)
                state.lag = max(0, data.high_watermark - partition.log.log_end_offset)
                state.caught_up = not state.lag
                if state.caught_up:
                    state.reached_ms, state.doubts = now_ms, 0
                state.reached_ms = min(state.reached_ms, now_ms)
                self.bytes_in += len(records)
                if self.local_id in partition.adding:
                    self.reassignment_bytes_in += len(records)
                self._throttle.copied(partition, len(records))
            except KafkaError as bad:
                self._failed(state, bad, now_ms)
        elif error == ErrorCode.OFFSET_OUT_OF_RANGE:
            state.needs_leader_offsets = True
        elif error == ErrorCode.FENCED_LEADER_EPOCH:
            state.stopped = True
        elif error in LEADER_NOT_READY:
            state.not_before_ms = now_ms + LEADER_NOT_READY_BACKOFF_MS
        else:
            state.not_before_ms = now_ms + self.settings.replica_fetch_backoff_ms

    @staticmethod
    def _trusted_ms(state: PartitionFetchState) -> int:
        """Return how long our log may be behind until the leader can have compacted away a marker that it lacks.

        Twice as long with every truncation but the first: a follower that is throttled would truncate for ever.
        """
        return max(1, state.partition.log.config.delete_retention_ms) << max(0, state.doubts - 1)

    def _failed(self, state: PartitionFetchState, error: KafkaError, now_ms: float) -> None:
        again = state.not_before_ms and now_ms < state.not_before_ms + LOGGED_AGAIN_MS
        if not again or error.code not in LASTING:
            log.error("%s cannot follow its leader for now: %s", state.partition, error)
        state.not_before_ms = now_ms + self.settings.replica_fetch_backoff_ms

    def leader_offsets(self, state: PartitionFetchState, log_start: int, log_end: int, now_ms: float) -> None:
        """Take in the leader's range [log_start, log_end], outside of which our end was.

        If it is not, the leader does not know the epoch of our last record, which will hardly change: ZooKeeper's data
        is older than our log (docs/operations.md: The znodes are lost, the disks are not).
        """
        state.needs_leader_offsets = False
        own = state.partition.log
        try:
            if not self._truncation.into_range(state.partition, log_start, log_end):
                end, epoch = own.log_end_offset, own.epochs.latest
                said = f"the leader's log has offset {end}, where ours ends, but not our last leader epoch {epoch}"
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, said)
        except KafkaError as bad:
            self._failed(state, bad, now_ms)
