"""Incremental fetch sessions (KIP-227): a fetcher of many partitions names only those whose request has changed, and
hears only of those whose answer has.

The cache is bounded (`max.incremental.fetch.session.cache.slots`): a session that is not used for
`MIN_EVICTION_MS` gives way to a new one; when none may be evicted, the fetcher simply goes on without a session.
Kafka: FetchSession.scala.
"""

import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from odradek.protocol.primitives import ZERO_UUID

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0
EPOCH_MAX = 0x7FFFFFFF
MIN_EVICTION_MS = 120_000
FIRST_VERSION_WITH_TOPIC_IDS = 13

SessionKey = tuple[str | bytes, int]


class WantedPartition:
    """A partition that is to be read, with what the fetcher was last told of it."""

    __slots__ = (
        "fetch_offset", "high_watermark_sent", "index", "last_fetched_epoch", "leader_epoch", "log_start_offset",
        "log_start_sent", "max_bytes", "stable_offset_sent", "topic", "topic_id",
    )  # fmt: skip

    def __init__(self, topic: str, topic_id: bytes, asked: FetchPartition) -> None:
        self.topic, self.topic_id, self.index = topic, topic_id, asked.partition
        self.update(asked)

    def update(self, asked: FetchPartition) -> None:
        """The fetcher asks for something else, and may have thrown away what it was told in between: all is news."""
        self.high_watermark_sent = self.log_start_sent = self.stable_offset_sent = -1
        self.fetch_offset, self.max_bytes = asked.fetch_offset, asked.partition_max_bytes
        self.leader_epoch, self.last_fetched_epoch = asked.current_leader_epoch, asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset

    def tell(self, answer: PartitionData) -> bool:
        """Note what is being answered; whether it says anything new."""
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
        return news


class FetchSession:
    """What one fetcher reads. The order of partitions is the order of service; who got data goes to the end."""

    __slots__ = ("by_topic_id", "epoch", "id", "last_used_ms", "partitions")

    def __init__(self, session_id: int, by_topic_id: bool, now_ms: float) -> None:
        self.id, self.by_topic_id, self.last_used_ms = session_id, by_topic_id, now_ms
        self.epoch = 1
        self.partitions: dict[SessionKey, WantedPartition] = {}

    def served(self, wanted: WantedPartition) -> None:
        """Move it behind the others, so that a small `max_bytes` does not starve them."""
        key = session_key(wanted, self.by_topic_id)
        self.partitions[key] = self.partitions.pop(key)


class OpenedFetch(NamedTuple):
    """What a request asks for: the partitions to read, and whether only news are to be answered."""

    error: ErrorCode
    session: FetchSession | None = None
    partitions: Iterable[WantedPartition] = ()
    incremental: bool = False


class TopicNames(NamedTuple):
    """How to translate between the names and the ids of topics; unknown ones give "" and ZERO_UUID."""

    ids_by_name: dict[str, bytes]
    names_by_id: dict[bytes, str]


def session_key(wanted: WantedPartition, by_topic_id: bool) -> SessionKey:
    return (wanted.topic_id if by_topic_id else wanted.topic, wanted.index)


def wanted_partitions(request: FetchRequest, version: int, names: TopicNames) -> Iterator[WantedPartition]:
    """The partitions that a request names, in its order (which is the order of service, KIP-74)."""
    for topic in request.topics:
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            topic_id, name = topic.topic_id, names.names_by_id.get(topic.topic_id, "")
        else:
            name, topic_id = topic.topic, names.ids_by_name.get(topic.topic, ZERO_UUID)
        for asked in topic.partitions:
            yield WantedPartition(name, topic_id, asked)


class FetchSessionCache:
    """All sessions of this broker."""

    def __init__(self, slots: int, randomness: random.Random) -> None:
        self._slots, self._random = slots, randomness
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, version: int, names: TopicNames, now_ms: float) -> OpenedFetch:
        """The session of a request: none, a new one, or the next step of one that exists.

        Errors: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._sessions.pop(request.session_id, None)
            wanted = list(wanted_partitions(request, version, names))
            session = None
            if request.session_epoch == INITIAL_EPOCH:
                session = self._create(wanted, version >= FIRST_VERSION_WITH_TOPIC_IDS, now_ms)
            return OpenedFetch(ErrorCode.NONE, session, wanted)
        return self._continue(request, version, names, now_ms)

    def _create(self, wanted: list[WantedPartition], by_topic_id: bool, now_ms: float) -> FetchSession | None:
        if not wanted or not self._make_room(now_ms):
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.randrange(1, EPOCH_MAX)
        session = FetchSession(session_id, by_topic_id, now_ms)
        session.partitions = {session_key(partition, by_topic_id): partition for partition in wanted}
        self._sessions[session_id] = session
        return session

    def _make_room(self, now_ms: float) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms < MIN_EVICTION_MS:
            return False
        del self._sessions[oldest.id]
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
        session.last_used_ms = now_ms
        self._sessions[session.id] = self._sessions.pop(session.id)
        self._forget(session, request)
        for topic in request.topics:
            identity = topic.topic_id if session.by_topic_id else topic.topic
            for asked in topic.partitions:
                known = session.partitions.get((identity, asked.partition))
                if known is not None:
                    known.update(asked)
        self._add_new(session, request, version, names)
        if session.by_topic_id:
            for wanted in session.partitions.values():
                if not wanted.topic:  # unknown when it was added; it may have been created since
                    wanted.topic = names.names_by_id.get(wanted.topic_id, "")
        return OpenedFetch(ErrorCode.NONE, session, list(session.partitions.values()), incremental=True)

    @staticmethod
    def _forget(session: FetchSession, request: FetchRequest) -> None:
        for topic in request.forgotten_topics_data:
            identity = topic.topic_id if session.by_topic_id else topic.topic
            for index in topic.partitions:
                session.partitions.pop((identity, index), None)

    @staticmethod
    def _add_new(session: FetchSession, request: FetchRequest, version: int, names: TopicNames) -> None:
        for wanted in wanted_partitions(request, version, names):
            session.partitions.setdefault(session_key(wanted, session.by_topic_id), wanted)
