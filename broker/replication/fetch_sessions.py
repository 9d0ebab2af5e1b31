"""Incremental fetch sessions (KIP-227): a fetcher of many partitions names only those whose request has changed, and
hears only of those whose answer has.

A fetch costs as much as it brings, not as much as the session holds: a session keeps a list of its *dirty* partitions,
at first all of them, then those that a request names and those that have moved since they were answered. `note_answer`
takes one off the list when nothing is left to say of it; from then on the session listens to its keys in the purgatory.

The cache is bounded (`max.incremental.fetch.session.cache.slots`): a session that has not been used for
`MIN_EVICTION_MS` gives way to a new one, and a consumer's gives way to a follower's even before that; when none may be
evicted, the fetcher simply goes on without a session.
Kafka: FetchSession.scala.
"""

import random
from collections.abc import Callable, Hashable, Sequence
from types import MethodType
from typing import NamedTuple

from odradek.broker.cluster.metadata_cache import TopicNames
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.replication.partition import NO_EPOCH, Partition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fetch_session import EPOCH_MAX, FINAL_EPOCH, INITIAL_EPOCH
from odradek.protocol.messages.fetch import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.primitives import ZERO_UUID

MIN_EVICTION_MS = 120_000
LOOK_AT_ALL_MS = 30_000
"""Time in which each partition of a session becomes dirty once, a few with each fetch: some changes (retention moves a
log's start) wake nobody, and to look at thousands at once would hold the loop."""
CONSUMER_LOOKS_AT_ALL_MS = 1_000
"""LOOK_AT_ALL_MS of consumers, which have few partitions: so one that is no longer allowed to read soon hears of it."""

SessionKey = tuple[str | bytes, int]


class CachedPartition:
    """A partition that is to be read, with what the fetcher was last told of it (Kafka: CachedPartition)."""

    __slots__ = (
        "fetch_offset", "high_watermark_sent", "index", "last_fetched_epoch", "leader_epoch", "listened_to",
        "listeners", "log_start_offset", "log_start_sent", "max_bytes", "stable_offset_sent", "topic", "topic_id",
    )  # fmt: skip

    def __init__(self, topic: str, topic_id: bytes, asked: FetchPartition) -> None:
        self.topic, self.topic_id, self.index = topic, topic_id, asked.partition
        self.listened_to: Partition | None = None
        """Partition at whose keys the session's `listeners` are."""
        self.listeners: tuple[Callable[[], None], ...] = ()
        self.leader_epoch = -1
        self.high_watermark_sent = self.log_start_sent = self.stable_offset_sent = -1
        self.update(asked)

    def update(self, asked: FetchPartition) -> None:
        """Take over what the fetcher asks for now.

        When it names another leader epoch, what it was told counts as not told: a follower drops the answer that was on
        its way while its leader changed.
        """
        leader_epoch = max(NO_EPOCH, asked.current_leader_epoch)  # all below 0 mean none: FetchRequest.optionalEpoch
        if leader_epoch != self.leader_epoch:
            self.high_watermark_sent = self.log_start_sent = self.stable_offset_sent = -1
        self.fetch_offset, self.max_bytes = asked.fetch_offset, asked.partition_max_bytes
        self.leader_epoch, self.last_fetched_epoch = leader_epoch, asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset

    def note_sent(self, answer: PartitionData) -> bool:
        """Note an answer that is being sent; tell whether it says anything new (Kafka: maybeUpdateResponseData)."""
        news = (
            answer.error_code != 0
            or (answer.records is not None and len(answer.records) > 0)
            or answer.high_watermark != self.high_watermark_sent
            or answer.log_start_offset != self.log_start_sent
            or answer.last_stable_offset != self.stable_offset_sent
            or answer.preferred_read_replica != -1
            or answer.diverging_epoch is not None
        )
        self.high_watermark_sent, self.log_start_sent = answer.high_watermark, answer.log_start_offset
        self.stable_offset_sent = answer.last_stable_offset
        if answer.diverging_epoch is not None:  # who has to truncate takes nothing else from the answer
            self.high_watermark_sent = self.log_start_sent = self.stable_offset_sent = -1
        return news


def _keys(partition: Partition) -> tuple[Hashable, Hashable]:
    """Return the keys that a session listens to, a consumer's to the first alone."""
    return partition.advanced, partition.appended


class FetchSession:
    """Partitions that one fetcher reads. `dirty` has the order in which they are served: one that got data goes to the
    end."""

    __slots__ = (
        "_note", "_wake", "by_topic_id", "dirty", "epoch", "id", "last_used_ms", "looks_due", "not_looked_at",
        "partitions", "purgatory", "replica_epoch", "replica_id", "woken_by_watermark",
    )  # fmt: skip

    def __init__(
        self,
        session_id: int,
        purgatory: Purgatory,
        now_ms: float,
        *,
        by_topic_id: bool,
        replica: tuple[int, int],
        woken_by_watermark: bool = False,
    ) -> None:
        """`replica` is the id and broker epoch of the follower whose session it is; for a consumer the id is below 0.

        `woken_by_watermark`: a follower hears of a moved high watermark at once, not only with the next records.
        """
        self.id, self.purgatory, self.last_used_ms = session_id, purgatory, now_ms
        self.by_topic_id = by_topic_id
        self.replica_id, self.replica_epoch = replica
        self.epoch, self.woken_by_watermark = 1, woken_by_watermark
        self.partitions: dict[SessionKey, CachedPartition] = {}
        self.dirty: dict[CachedPartition, None] = {}
        self._note: Callable[[CachedPartition], object] = self.dirty.setdefault
        self._wake: Callable[[CachedPartition], object] = self._moved
        """What the partitions' listeners are made of: bound methods, which take a third of the memory of a partial."""
        self.not_looked_at: list[CachedPartition] = []
        self.looks_due = 0.0
        """Number of partitions that are due to become dirty because time has passed."""

    def add(self, wanted: CachedPartition) -> None:
        """Add a partition that the fetcher asks for."""
        self.partitions[session_key(wanted, self.by_topic_id)] = wanted
        self.dirty[wanted] = None

    def forget(self, key: SessionKey) -> None:
        """Drop a partition that the fetcher no longer asks for."""
        wanted = self.partitions.pop(key, None)
        if wanted is not None:
            self.dirty.pop(wanted, None)
            self._stop_listening(wanted)

    def note_request(self, now_ms: float, replica_epoch: int) -> None:
        """Note that the next request has come.

        All partitions become dirty when a follower has registered anew. Otherwise a leader where nothing moves would go
        on naming the follower's old broker epoch, and the controller would refuse each ISR with that epoch in it.
        """
        if replica_epoch != self.replica_epoch:
            self.replica_epoch = replica_epoch
            for wanted in self.partitions.values():
                self.dirty.setdefault(wanted)
        period_ms = LOOK_AT_ALL_MS if self.replica_id >= 0 else CONSUMER_LOOKS_AT_ALL_MS
        self.looks_due += len(self.partitions) * min((now_ms - self.last_used_ms) / period_ms, 1.0)
        self.last_used_ms = now_ms
        while self.looks_due >= 1.0:
            self.looks_due -= 1.0
            if not self.not_looked_at:
                self.not_looked_at = list(self.partitions.values())
            wanted = self.not_looked_at.pop()
            if self.holds(wanted):
                self.dirty.setdefault(wanted)

    def holds(self, wanted: CachedPartition) -> bool:
        """Tell whether a partition is still asked for: another connection may have changed or ended the session
        since."""
        return self.partitions.get(session_key(wanted, self.by_topic_id)) is wanted

    def move_to_end(self, wanted: CachedPartition) -> None:
        """Move a partition that was served behind the others, so that a small `max_bytes` does not starve them."""
        self.dirty.pop(wanted, None)
        self.dirty[wanted] = None

    def note_answer(self, wanted: CachedPartition, answer: PartitionData, partition: Partition) -> None:
        """Take a partition off the dirty list if the answer says all there is to say, until it moves or is named.

        A follower that is not in the ISR yet leaves it dirty: its next fetch may be the one that takes it in. While the
        controller is asked to take it in, no fetch can do more: a refusal moves the partition (`members_changed`). A
        partition that has moved since it was read for the answer is dirty, too.
        """
        if answer.error_code or answer.diverging_epoch is not None or answer.records:
            return
        if answer.high_watermark != partition.high_watermark:
            return
        if self.replica_id >= 0:
            at_the_end = wanted.fetch_offset == partition.log.log_end_offset
            nothing_left = at_the_end and self.replica_id in partition.maximal_isr
        else:
            nothing_left = wanted.fetch_offset >= answer.high_watermark
        if nothing_left:
            self._becomes_clean(wanted, partition)

    def _becomes_clean(self, wanted: CachedPartition, partition: Partition) -> None:
        if wanted.listened_to is not partition:
            self._stop_listening(wanted)
            self._listen(wanted, partition)
        self.dirty.pop(wanted, None)

    def _listen(self, wanted: CachedPartition, partition: Partition) -> None:
        """Listen to the keys of what it reads: a follower reads up to the log's end, and is told of the high watermark
        with the next records, unless it serves consumers."""
        note, wake = MethodType(self._note, wanted), MethodType(self._wake, wanted)
        listeners: tuple[Callable[[], None], ...] = (wake,)
        if self.replica_id >= 0:
            listeners = (wake if self.woken_by_watermark else note, wake)
        wanted.listened_to, wanted.listeners = partition, listeners
        for key, listener in zip(_keys(partition), listeners, strict=False):
            self.purgatory.listen(key, listener)

    def _stop_listening(self, wanted: CachedPartition) -> None:
        if wanted.listened_to is not None:
            for key, listener in zip(_keys(wanted.listened_to), wanted.listeners, strict=False):
                self.purgatory.unlisten(key, listener)
        wanted.listened_to, wanted.listeners = None, ()

    def _moved(self, wanted: CachedPartition) -> None:
        """Wake the fetch, which waits under its session as the key."""
        self.dirty.setdefault(wanted)
        self.purgatory.touch(self)

    def end(self) -> None:
        """End the session, which is not in the cache any more."""
        for wanted in self.partitions.values():
            self._stop_listening(wanted)
        self.partitions, self.dirty = {}, {}
        self._note = self._wake = _ended  # a bound method of its own would keep it until the next collection


def _ended(_: CachedPartition) -> None:
    """Do nothing: nobody waits in a session that has ended."""


class OpenedFetch(NamedTuple):
    """Partitions that a request asks for, and whether the answer is to hold only what is new."""

    error: ErrorCode
    session: FetchSession | None = None
    named: Sequence[CachedPartition] = ()
    incremental: bool = False

    @property
    def partitions(self) -> Sequence[CachedPartition]:
        """Partitions to read now; while the fetch waits, or a disk fails under a read, more may become dirty."""
        return tuple(self.session.dirty) if self.session is not None and self.incremental else self.named


def session_key(wanted: CachedPartition, by_topic_id: bool) -> SessionKey:
    return (wanted.topic_id if by_topic_id else wanted.topic, wanted.index)


def wanted_partitions(request: FetchRequest, version: int, names: TopicNames) -> list[CachedPartition]:
    """List the partitions that a request names, in its order (which is the order of service, KIP-74).

    One that is named twice keeps its first place and its last parameters, as in Kafka's FetchRequest.fetchData.
    """
    wanted = {}
    for topic in request.topics:
        name, topic_id = identity_of(topic, version, names)
        for asked in topic.partitions:
            wanted[name or topic_id, asked.partition] = CachedPartition(name, topic_id, asked)
    return list(wanted.values())


def identity_of(topic: FetchTopic, version: int, names: TopicNames) -> tuple[str, bytes]:
    """Return the name and the id of a topic in a request, which carries one of the two."""
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return names.names_by_id.get(topic.topic_id, ""), topic.topic_id
    return topic.topic, names.ids_by_name.get(topic.topic, ZERO_UUID)


def replica_of(request: FetchRequest) -> tuple[int, int]:
    """Return the id and broker epoch of the follower that asks; (-1, -1) for a consumer."""
    state = request.replica_state
    return (request.replica_id, -1) if state is None else (state.replica_id, state.replica_epoch)


class FetchSessionCache:
    """Fetch sessions of this broker."""

    def __init__(
        self, slots: int, randomness: random.Random, purgatory: Purgatory, *, woken_by_watermark: bool = False
    ) -> None:
        """`woken_by_watermark`: followers serve consumers here, and hear of high watermarks at once."""
        self._slots, self._random, self._purgatory = slots, randomness, purgatory
        self._woken_by_watermark = woken_by_watermark
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self.evictions = 0
        """Sessions that had to make room."""

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions(self, session_id: int) -> list[CachedPartition]:
        """Return what the fetcher of a session reads; nothing where there is no such session."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.partitions.values())

    @property
    def cached_partitions(self) -> int:
        """Partitions in all sessions together."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(self, request: FetchRequest, version: int, names: TopicNames, now_ms: float) -> OpenedFetch:
        """Return the session of a request: none, a new one, or the next step of one that exists.

        Errors: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id in self._sessions:
                self._sessions.pop(request.session_id).end()
            wanted = wanted_partitions(request, version, names)
            session = None
            if request.session_epoch == INITIAL_EPOCH:
                session = self._create(wanted, request, version, now_ms)
            return OpenedFetch(ErrorCode.NONE, session, wanted)
        return self._continue(request, version, names, now_ms)

    def _create(
        self, wanted: list[CachedPartition], request: FetchRequest, version: int, now_ms: float
    ) -> FetchSession | None:
        if not self._make_room(now_ms, for_follower=replica_of(request)[0] >= 0):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.randrange(1, EPOCH_MAX)
        session = FetchSession(
            session_id,
            self._purgatory,
            now_ms,
            by_topic_id=version >= FIRST_VERSION_WITH_TOPIC_IDS,
            replica=replica_of(request),
            woken_by_watermark=self._woken_by_watermark,
        )
        for partition in wanted:
            session.add(partition)
        self._sessions[session_id] = session
        return session

    def _make_room(self, now_ms: float, *, for_follower: bool) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now_ms - oldest.last_used_ms < MIN_EVICTION_MS:
            consumers = (session for session in self._sessions.values() if session.replica_id < 0)
            oldest = next(consumers, None) if for_follower else None
        if oldest is None:
            return False
        self._sessions.pop(oldest.id).end()
        self.evictions += 1
        return True

    def _continue(self, request: FetchRequest, version: int, names: TopicNames, now_ms: float) -> OpenedFetch:
        session = self._sessions.get(request.session_id)
        if session is None:
            return OpenedFetch(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return OpenedFetch(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id != (version >= FIRST_VERSION_WITH_TOPIC_IDS):
            return OpenedFetch(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        self._sessions[session.id] = self._sessions.pop(session.id)
        session.note_request(now_ms, replica_of(request)[1])
        for topic in request.topics:
            name, topic_id = identity_of(topic, version, names)
            for asked in topic.partitions:
                known = session.partitions.get((topic_id if session.by_topic_id else name, asked.partition))
                if known is None:
                    session.add(CachedPartition(name, topic_id, asked))
                else:
                    known.update(asked)
                    session.dirty.setdefault(known)
        self._forget(session, request)
        if not session.partitions:
            # As in Kafka: this answer, which is given at once, no longer belongs to a session.
            self._sessions.pop(session.id).end()
            return OpenedFetch(ErrorCode.NONE)
        if session.by_topic_id:
            for wanted in session.dirty:
                if not wanted.topic:  # unknown when it was added; it may have been created since
                    wanted.topic = names.names_by_id.get(wanted.topic_id, "")
        return OpenedFetch(ErrorCode.NONE, session, incremental=True)

    @staticmethod
    def _forget(session: FetchSession, request: FetchRequest) -> None:
        for topic in request.forgotten_topics_data:
            identity = topic.topic_id if session.by_topic_id else topic.topic
            for index in topic.partitions:
                session.forget((identity, index))
