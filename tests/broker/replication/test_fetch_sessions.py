"""Incremental fetch sessions: what is asked, what is told, and every way to get out of step (KIP-227)."""

import random

import pytest

from odradek.broker.cluster.metadata_cache import TopicNames
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.replication.fetch_sessions import (
    LOOK_AT_ALL_MS,
    MIN_EVICTION_MS,
    FetchSession,
    FetchSessionCache,
    OpenedFetch,
    session_key,
)
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fetch_session import EPOCH_MAX
from odradek.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from odradek.testing.log_environments import make_batch, make_environment, manager_of, open_test_log
from odradek.testing.virtual_clock import ManualClock

A_ID, B_ID, C_ID = b"a" * 16, b"b" * 16, b"c" * 16
NAMES = TopicNames({"a": A_ID, "b": B_ID}, {A_ID: "a", B_ID: "b"})
BY_ID, BY_NAME = 17, 12


@pytest.fixture
def purgatory() -> Purgatory:
    return Purgatory(TimingWheel(ManualClock()))


@pytest.fixture
def cache(purgatory: Purgatory) -> FetchSessionCache:
    return FetchSessionCache(3, random.Random(1), purgatory)


FOLLOWER = 1
CONSUMER = ReplicaState(replica_id=-1, replica_epoch=-1)
AS_FOLLOWER = ReplicaState(replica_id=FOLLOWER, replica_epoch=9)


def request(
    *partitions: tuple[bytes, int, int],
    session: int = 0,
    epoch: int = 0,
    forgotten: tuple[tuple[bytes, int], ...] = (),
    replica: ReplicaState = CONSUMER,
) -> FetchRequest:
    return FetchRequest(
        replica_state=replica,
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
    assert cache.open(request(session=first, epoch=2), BY_ID, NAMES, MIN_EVICTION_MS + 1).error is ErrorCode.NONE
    assert len(cache) == 3


def test_a_follower_takes_the_place_of_a_consumer(cache: FetchSessionCache) -> None:
    """Where consumers had all places, each fetch of a follower named all its partitions, and looked at all of them."""
    consumers = [opened_session(cache) for _ in range(3)]
    as_follower = ReplicaState(replica_id=FOLLOWER, replica_epoch=1)
    for _ in range(3):
        assert cache.open(request((A_ID, 0, 0), replica=as_follower), BY_ID, NAMES, 1.0).session is not None
    lost = [cache.open(request(session=one, epoch=1), BY_ID, NAMES, 2.0).error for one in consumers]
    assert lost == [ErrorCode.FETCH_SESSION_ID_NOT_FOUND] * 3 and cache.evictions == 3
    assert cache.open(request((A_ID, 0, 0), replica=as_follower), BY_ID, NAMES, 2.0).session is None


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
    assert wanted.note_sent(answer(error_code=3, high_watermark=6, log_start_offset=1))


def partition_with(records: int) -> Partition:
    """a-0 as its leader holds it, in sync with the follower."""
    log = open_test_log(make_environment(), LogConfig())
    partition = Partition("a", 0, 0, log)
    partition.topic_id = A_ID
    partition.lead(PartitionView(0, 0, (0, FOLLOWER), 0, (0, FOLLOWER)), 0.0)
    for _ in range(records):
        partition.append_as_leader(make_batch([b"x"]), 1)
    return partition


def session_at_the_end(
    cache: FetchSessionCache, partition: Partition, replica: ReplicaState = AS_FOLLOWER
) -> FetchSession:
    """Of a fetcher that has been told all of a-0, and b-1 which nobody has told of."""
    end = partition.log.log_end_offset
    partition.high_watermark = end
    opened = cache.open(request((A_ID, 0, end), (B_ID, 1, 7), replica=replica), BY_ID, NAMES, 0.0)
    assert opened.session is not None
    wanted = opened.session.partitions[(A_ID, 0)]
    answer = PartitionData(high_watermark=end, last_stable_offset=end, log_start_offset=0, records=b"")
    opened.session.note_answer(wanted, answer, partition)
    return opened.session


@pytest.mark.parametrize(("replica", "wakes"), [(AS_FOLLOWER, "appended"), (CONSUMER, "advanced")])
def test_a_partition_is_due_again_when_it_moves(
    cache: FetchSessionCache, purgatory: Purgatory, replica: ReplicaState, wakes: str
) -> None:
    """A follower's fetch is woken by records, a consumer's by what is replicated."""
    partition = partition_with(3)
    session = session_at_the_end(cache, partition, replica)
    opened = cache.open(request(session=session.id, epoch=1, replica=replica), BY_ID, NAMES, 1.0)
    assert asked(opened) == [("b", 1, 7)]
    waiting = Waiting()
    purgatory.watch(waiting, [session], 1e6)
    purgatory.touch(partition.low_watermark_moved)
    assert asked(opened) == [("b", 1, 7)] and waiting.tried == 1
    purgatory.touch(getattr(partition, wakes))
    assert asked(opened) == [("b", 1, 7), ("a", 0, 3)] and waiting.tried == 2


def test_a_follower_hears_of_the_high_watermark_without_being_woken(
    cache: FetchSessionCache, purgatory: Purgatory
) -> None:
    partition = partition_with(3)
    session = session_at_the_end(cache, partition)
    waiting = Waiting()
    purgatory.watch(waiting, [session], 1e6)
    purgatory.touch(partition.advanced)
    assert waiting.tried == 1 and session.partitions[(A_ID, 0)] in session.dirty


@pytest.mark.parametrize("why", ["records", "error", "diverging", "behind", "not in sync"])
def test_a_partition_with_more_to_say_stays_due(cache: FetchSessionCache, why: str) -> None:
    partition = partition_with(3)
    if why == "not in sync":
        partition.lead(PartitionView(0, 0, (0,), 1, (0, FOLLOWER)), 0.0)
    first = request((A_ID, 0, 2 if why == "behind" else 3), replica=AS_FOLLOWER)
    session = cache.open(first, BY_ID, NAMES, 0.0).session
    assert session is not None
    answer = PartitionData(high_watermark=3, last_stable_offset=3, log_start_offset=0, records=b"")
    answer.records = b"x" if why == "records" else b""
    answer.error_code = 3 if why == "error" else 0
    answer.diverging_epoch = EpochEndOffset(epoch=0, end_offset=1) if why == "diverging" else None
    (wanted,) = session.dirty
    session.note_answer(wanted, answer, partition)
    assert wanted in session.dirty


def test_a_follower_that_is_about_to_join_is_not_looked_at_until_that_is_decided() -> None:
    """Thousands of partitions of a broker that has come back were read with each of its fetches."""
    partition = partition_with(3)
    partition.lead(PartitionView(0, 0, (0,), 1, (0, FOLLOWER)), 0.0)
    replicas = manager_of(partition, clock=ManualClock())
    session = session_at_the_end(FetchSessionCache(3, random.Random(1), replicas.purgatory), partition)
    wanted = session.partitions[(A_ID, 0)]
    assert wanted in session.dirty
    _, pending = partition.follower_fetched(FOLLOWER, 3, 0, 9, 0.0)
    assert pending is not None
    answer = PartitionData(high_watermark=3, last_stable_offset=3, log_start_offset=0, records=b"")
    session.note_answer(wanted, answer, partition)
    assert wanted not in session.dirty
    replicas.isr_refused(pending)
    assert wanted in session.dirty, "its next fetch proposes it again"


def test_a_follower_that_came_to_the_end_while_it_was_taken_out_is_looked_at_again() -> None:
    """Where nothing was written it was out of the ISR for up to LOOK_AT_ALL_MS; with too few replicas left in sync,
    nothing could be written."""
    partition = partition_with(3)
    replicas = manager_of(partition, clock=ManualClock())
    pending = partition.propose_shrink(1e6)
    assert pending is not None and pending.broker_ids == {0}
    partition.follower_fetched(FOLLOWER, 3, 0, 9, 1e6)
    session = session_at_the_end(FetchSessionCache(3, random.Random(1), replicas.purgatory), partition)
    wanted = session.partitions[(A_ID, 0)]
    assert wanted not in session.dirty
    replicas.isr_accepted(pending, [0], 1)
    assert wanted in session.dirty, "its next fetch proposes it"


def test_all_are_due_from_time_to_time(cache: FetchSessionCache) -> None:
    session = session_at_the_end(cache, partition_with(3))
    second, third = (request(session=session.id, epoch=epoch, replica=AS_FOLLOWER) for epoch in (1, 2))
    assert asked(cache.open(second, BY_ID, NAMES, LOOK_AT_ALL_MS - 1)) == [("b", 1, 7)]
    assert len(asked(cache.open(third, BY_ID, NAMES, LOOK_AT_ALL_MS))) == 2


def test_all_are_due_when_the_follower_has_registered_anew(cache: FetchSessionCache) -> None:
    """The leader of a-0, where nothing moves, named its former epoch in each AlterPartition, and was refused."""
    session = session_at_the_end(cache, partition_with(3))
    anew = ReplicaState(replica_id=FOLLOWER, replica_epoch=12)
    first, second = (request(session=session.id, epoch=epoch, replica=anew) for epoch in (1, 2))
    assert asked(cache.open(first, BY_ID, NAMES, 1.0)) == [("b", 1, 7), ("a", 0, 3)]
    session.dirty.clear()
    assert not asked(cache.open(second, BY_ID, NAMES, 1.0))


@pytest.mark.parametrize("end", ["forgotten", "closed", "evicted"])
def test_nobody_listens_for_a_session_that_is_gone(cache: FetchSessionCache, purgatory: Purgatory, end: str) -> None:
    partition = partition_with(3)
    session = session_at_the_end(cache, partition)
    assert purgatory.listened_keys == 2
    if end == "forgotten":
        cache.open(request(session=session.id, epoch=1, forgotten=((A_ID, 0),)), BY_ID, NAMES, 1.0)
    elif end == "closed":
        cache.open(request(session=session.id, epoch=-1), BY_ID, NAMES, 1.0)
    else:
        for _ in range(3):
            assert cache.open(request((B_ID, 1, 7)), BY_ID, NAMES, MIN_EVICTION_MS + 1.0).session is not None
    assert purgatory.listened_keys == 0


def test_what_becomes_due_while_it_is_read_waits_for_the_next_read(
    cache: FetchSessionCache, purgatory: Purgatory
) -> None:
    """A disk that fails under a read touches all partitions that were on it."""
    partition = partition_with(3)
    session = session_at_the_end(cache, partition)
    opened = cache.open(request(session=session.id, epoch=1, replica=AS_FOLLOWER), BY_ID, NAMES, 1.0)
    read = []
    for wanted in opened.partitions:
        purgatory.touch(partition.appended)
        read.append(wanted.topic)
    assert read == ["b"] and asked(opened) == [("b", 1, 7), ("a", 0, 3)]


def test_a_session_that_was_ended_while_its_fetch_waited_holds_nothing(cache: FetchSessionCache) -> None:
    session = session_at_the_end(cache, partition_with(3))
    waiting = [*session.partitions.values()]
    assert all(session.holds(wanted) for wanted in waiting)
    cache.open(request(session=session.id, epoch=1, forgotten=((A_ID, 0),)), BY_ID, NAMES, 1.0)
    assert [session.holds(wanted) for wanted in waiting] == [False, True]
    cache.open(request(session=session.id, epoch=-1), BY_ID, NAMES, 1.0)
    assert not any(session.holds(wanted) for wanted in waiting) and not session.dirty


class Waiting:
    """An operation that counts how often it is tried."""

    def __init__(self) -> None:
        self.tried = 0

    def try_complete(self) -> bool:
        self.tried += 1
        return False

    def expire(self) -> None:
        raise AssertionError("it waits for ever")


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
