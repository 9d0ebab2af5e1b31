"""Incremental fetch sessions: what is asked, what is told, and every way to get out of step (KIP-227)."""

import random

import pytest

from odradek.broker.replication.sessions import (
    EPOCH_MAX,
    MIN_EVICTION_MS,
    FetchSessionCache,
    OpenedFetch,
    TopicNames,
    session_key,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData

A_ID, B_ID, C_ID = b"a" * 16, b"b" * 16, b"c" * 16
NAMES = TopicNames({"a": A_ID, "b": B_ID}, {A_ID: "a", B_ID: "b"})
BY_ID, BY_NAME = 17, 12


@pytest.fixture
def cache() -> FetchSessionCache:
    return FetchSessionCache(3, random.Random(1))


def request(
    *partitions: tuple[bytes, int, int], session: int = 0, epoch: int = 0, forgotten: tuple[tuple[bytes, int], ...] = ()
) -> FetchRequest:
    return FetchRequest(
        session_id=session,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic=NAMES.names_by_id.get(topic_id, "?"),
                topic_id=topic_id,
                partitions=[FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)],
            )
            for topic_id, index, offset in partitions
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic=NAMES.names_by_id[topic_id], topic_id=topic_id, partitions=[index])
            for topic_id, index in forgotten
        ],
    )


def asked(opened: OpenedFetch) -> list[tuple[str, int, int]]:
    return [(wanted.topic, wanted.index, wanted.fetch_offset) for wanted in opened.partitions]


def opened_session(cache: FetchSessionCache, version: int = BY_ID) -> int:
    opened = cache.open(request((A_ID, 0, 5), (B_ID, 1, 7)), version, NAMES, 0.0)
    assert opened.session is not None
    return opened.session.id


def test_without_a_session_everything_is_named(cache: FetchSessionCache) -> None:
    opened = cache.open(request((A_ID, 0, 5), (B_ID, 1, 7), epoch=-1), BY_ID, NAMES, 0.0)
    assert opened.session is None and asked(opened) == [("a", 0, 5), ("b", 1, 7)]
    assert len(cache) == 0


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
    opened.session.served(next(iter(opened.partitions)))
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
    assert cache.open(request(session=first, epoch=2), BY_ID, NAMES, MIN_EVICTION_MS + 1).error is ErrorCode.NONE
    assert len(cache) == 3


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

    assert wanted.tell(answer())
    assert not wanted.tell(answer())
    assert wanted.tell(answer(records=b"x"))
    assert wanted.tell(answer(high_watermark=6))
    assert not wanted.tell(answer(high_watermark=6))
    assert wanted.tell(answer(high_watermark=6, log_start_offset=1))
    assert wanted.tell(answer(error_code=3, high_watermark=6, log_start_offset=1))
