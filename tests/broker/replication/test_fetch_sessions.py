"""Incremental fetch sessions: what is asked, what is told, and every way to get out of step (KIP-227)."""

import random

import pytest

from odradek.broker.cluster.metadata_cache import TopicNames
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.replication.fetch_sessions import (
    MIN_EVICTION_MS,
    FetchSessionCache,
    session_key,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fetch_session import EPOCH_MAX
from odradek.protocol.messages.fetch import (
    EpochEndOffset,
    FetchRequest,
    PartitionData,
)
from odradek.testing.virtual_clock import ManualClock
from tests.broker.replication.fetch_requests import (
    A_ID,
    AS_FOLLOWER,
    B_ID,
    BY_ID,
    BY_NAME,
    C_ID,
    FOLLOWER,
    NAMES,
    asked,
    request,
)


@pytest.fixture
def purgatory() -> Purgatory:
    return Purgatory(TimingWheel(ManualClock()))


@pytest.fixture
def cache(purgatory: Purgatory) -> FetchSessionCache:
    return FetchSessionCache(3, random.Random(1), purgatory)


def opened_session(cache: FetchSessionCache, version: int = BY_ID) -> int:
    opened = cache.open(request((A_ID, 0, 5), (B_ID, 1, 7)), version, NAMES, 0.0)
    assert opened.session is not None
    return opened.session.id


def test_without_a_session_everything_is_named(cache: FetchSessionCache) -> None:
    opened = cache.open(request((A_ID, 0, 5), (B_ID, 1, 7), epoch=-1), BY_ID, NAMES, 0.0)
    assert opened.session is None and asked(opened) == [("a", 0, 5), ("b", 1, 7)]
    assert len(cache) == 0


def test_topics_that_nobody_knows_are_told_apart_by_their_names(cache: FetchSessionCache) -> None:
    opened = cache.open(request((A_ID, 0, 5), (B_ID, 0, 7)), BY_NAME, TopicNames({}, {}), 0.0)
    assert asked(opened) == [("a", 0, 5), ("b", 0, 7)]


def test_a_first_fetch_is_answered_in_full_though_its_session_has_ended_while_it_waited(
    cache: FetchSessionCache,
) -> None:
    first = cache.open(request((A_ID, 0, 5), (B_ID, 1, 7)), BY_ID, NAMES, 0.0)
    assert first.session is not None
    cache.open(request(session=first.session.id, epoch=-1), BY_ID, NAMES, 1.0)
    assert asked(first) == [("a", 0, 5), ("b", 1, 7)]


@pytest.mark.parametrize("version", [BY_ID, BY_NAME])
def test_a_session_remembers_what_is_not_named(cache: FetchSessionCache, version: int) -> None:
    session = opened_session(cache, version)
    opened = cache.open(request((B_ID, 1, 9), session=session, epoch=1), version, NAMES, 1.0)
    assert opened.incremental and asked(opened) == [("a", 0, 5), ("b", 1, 9)]
    opened = cache.open(request((A_ID, 3, 0), session=session, epoch=2, forgotten=((A_ID, 0),)), version, NAMES, 2.0)
    assert asked(opened) == [("b", 1, 9), ("a", 3, 0)]


def test_a_partition_that_was_served_goes_behind_the_others(cache: FetchSessionCache) -> None:
    session = opened_session(cache)
    opened = cache.open(request(session=session, epoch=1), BY_ID, NAMES, 1.0)
    assert opened.session is not None
    opened.session.move_to_end(next(iter(opened.partitions)))
    opened = cache.open(request(session=session, epoch=2), BY_ID, NAMES, 1.0)
    assert asked(opened) == [("b", 1, 7), ("a", 0, 5)]


@pytest.mark.parametrize(
    ("session_offset", "epoch", "version", "error"),
    [
        (1, 1, BY_ID, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 2, BY_ID, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 1, BY_NAME, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_out_of_step(cache: FetchSessionCache, session_offset: int, epoch: int, version: int, error: ErrorCode) -> None:
    session = opened_session(cache)
    assert cache.open(request(session=session + session_offset, epoch=epoch), version, NAMES, 1.0).error is error


def test_a_closed_session_is_gone(cache: FetchSessionCache) -> None:
    session = opened_session(cache)
    cache.open(request((A_ID, 0, 5), session=session, epoch=-1), BY_ID, NAMES, 1.0)
    opened = cache.open(request(session=session, epoch=1), BY_ID, NAMES, 1.0)
    assert opened.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_may_begin_without_partitions(cache: FetchSessionCache) -> None:
    """It got none, so that the partitions of the next request were refused."""
    session = cache.open(request(), BY_ID, NAMES, 0.0).session
    assert session is not None
    opened = cache.open(request((A_ID, 0, 5), session=session.id, epoch=1), BY_ID, NAMES, 0.0)
    assert opened.session is session and asked(opened) == [("a", 0, 5)]


def test_a_session_ends_with_its_last_partition(cache: FetchSessionCache) -> None:
    """The fetch of nothing waited, and the session took a place that others might have needed."""
    session = opened_session(cache)
    opened = cache.open(request(session=session, epoch=1, forgotten=((A_ID, 0), (B_ID, 1))), BY_ID, NAMES, 0.0)
    assert (opened.error, opened.session, opened.incremental) == (ErrorCode.NONE, None, False)
    assert not opened.partitions and len(cache) == 0


def test_the_epoch_wraps_to_one(cache: FetchSessionCache) -> None:
    opened = cache.open(request((A_ID, 0, 5)), BY_ID, NAMES, 0.0)
    assert opened.session is not None
    opened.session.epoch = EPOCH_MAX
    assert cache.open(request(session=opened.session.id, epoch=EPOCH_MAX), BY_ID, NAMES, 0.0).error is ErrorCode.NONE
    assert cache.open(request(session=opened.session.id, epoch=1), BY_ID, NAMES, 0.0).error is ErrorCode.NONE


def test_a_full_cache_evicts_only_what_is_idle(cache: FetchSessionCache) -> None:
    first = opened_session(cache)
    opened_session(cache)
    opened_session(cache)
    assert cache.open(request((A_ID, 0, 0)), BY_ID, NAMES, MIN_EVICTION_MS - 1).session is None
    cache.open(request(session=first, epoch=1), BY_ID, NAMES, MIN_EVICTION_MS - 1)
    assert cache.open(request((A_ID, 0, 0)), BY_ID, NAMES, MIN_EVICTION_MS + 1).session is not None
    assert cache.open(request((A_ID, 0, 0)), BY_ID, NAMES, MIN_EVICTION_MS + 1).session is not None
    assert cache.open(request((A_ID, 0, 0)), BY_ID, NAMES, MIN_EVICTION_MS + 1).session is None, "all were used since"
    assert cache.open(request(session=first, epoch=2), BY_ID, NAMES, MIN_EVICTION_MS + 1).error is ErrorCode.NONE
    assert len(cache) == 3


@pytest.mark.parametrize(
    ("version", "first"),
    [
        (BY_ID, request((A_ID, 0, 0), replica=AS_FOLLOWER)),
        (BY_NAME, FetchRequest(replica_id=FOLLOWER, topics=request((A_ID, 0, 0)).topics, session_epoch=0)),
    ],
    ids=["by id", "by name"],
)
def test_a_follower_takes_the_place_of_a_consumer(cache: FetchSessionCache, version: int, first: FetchRequest) -> None:
    """Where consumers had all places, each fetch of a follower named all its partitions, and looked at all of them."""
    consumers = [opened_session(cache) for _ in range(3)]
    for _ in range(3):
        assert cache.open(first, version, NAMES, 1.0).session is not None
    lost = [cache.open(request(session=one, epoch=1), BY_ID, NAMES, 2.0).error for one in consumers]
    assert lost == [ErrorCode.FETCH_SESSION_ID_NOT_FOUND] * 3 and cache.evictions == 3
    assert cache.open(first, version, NAMES, 2.0).session is None


def test_where_no_session_may_be_fetchers_go_on_without(purgatory: Purgatory) -> None:
    cache = FetchSessionCache(0, random.Random(1), purgatory)
    opened = cache.open(request((A_ID, 0, 5), replica=AS_FOLLOWER), BY_ID, NAMES, 0.0)
    assert (opened.error, opened.session, asked(opened)) == (ErrorCode.NONE, None, [("a", 0, 5)])


def test_a_topic_that_is_created_later_gets_its_name(cache: FetchSessionCache) -> None:
    names = TopicNames({}, {})
    opened = cache.open(request((C_ID, 0, 0)), BY_ID, names, 0.0)
    assert asked(opened) == [("", 0, 0)] and opened.session is not None
    names.names_by_id[C_ID] = "c"
    assert asked(cache.open(request(session=opened.session.id, epoch=1), BY_ID, names, 0.0)) == [("c", 0, 0)]


def test_only_news_are_told(cache: FetchSessionCache) -> None:
    opened = cache.open(request((A_ID, 0, 5)), BY_ID, NAMES, 0.0)
    (wanted,) = opened.partitions
    assert session_key(wanted, True) == (A_ID, 0)

    def answer(**changed: object) -> PartitionData:
        plain = {"high_watermark": 5, "last_stable_offset": 5, "log_start_offset": 0, "records": b""}
        return PartitionData(**{**plain, **changed})  # type: ignore[arg-type]

    assert wanted.note_sent(answer())
    assert not wanted.note_sent(answer())
    assert wanted.note_sent(answer(records=b"x"))
    assert wanted.note_sent(answer(high_watermark=6))
    assert not wanted.note_sent(answer(high_watermark=6))
    assert wanted.note_sent(answer(high_watermark=6, log_start_offset=1))
    assert wanted.note_sent(answer(high_watermark=6, log_start_offset=1, last_stable_offset=6))
    assert wanted.note_sent(answer(error_code=3, high_watermark=6, log_start_offset=1))


def test_who_has_to_truncate_is_told_all_again(cache: FetchSessionCache) -> None:
    """It takes nothing else from that answer."""
    (wanted,) = cache.open(request((A_ID, 0, 5)), BY_ID, NAMES, 0.0).partitions
    answer, diverging = (
        PartitionData(high_watermark=5, last_stable_offset=5, log_start_offset=0, records=b"", diverging_epoch=epoch)
        for epoch in (None, EpochEndOffset(epoch=0, end_offset=1))
    )
    news = [wanted.note_sent(one) for one in (answer, answer, diverging, answer, answer)]
    assert news == [True, False, True, True, False]


def test_a_partition_that_is_named_again_is_left_out_while_there_is_nothing_new(cache: FetchSessionCache) -> None:
    """It was answered, empty: Kafka says of it only what is new. Under another leader epoch all is told again."""
    session = opened_session(cache)

    def named_again(step: int, leader_epoch: int) -> bool:
        """Whether the answer would have it."""
        again = request((A_ID, 0, 6), session=session, epoch=step)
        again.topics[0].partitions[0].current_leader_epoch = leader_epoch
        opened = cache.open(again, BY_ID, NAMES, 1.0)
        wanted = next(one for one in opened.partitions if one.topic == "a")
        return wanted.note_sent(PartitionData(high_watermark=6, last_stable_offset=6, log_start_offset=0, records=b""))

    assert [named_again(1, -1), named_again(2, -1), named_again(3, 5), named_again(4, 5)] == [True, False, True, False]
