"""Which partitions of a fetch session are due: those that have moved, or that nobody has looked at for long."""

import random

import pytest

from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.replication.fetch_sessions import (
    CONSUMER_LOOKS_AT_ALL_MS,
    LOOK_AT_ALL_MS,
    MIN_EVICTION_MS,
    FetchSession,
    FetchSessionCache,
)
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.messages.fetch import (
    EpochEndOffset,
    PartitionData,
    ReplicaState,
)
from odradek.testing.log_environments import make_batch, make_environment, manager_of, open_test_log
from odradek.testing.virtual_clock import ManualClock
from tests.broker.replication.fetch_requests import (
    A_ID,
    AS_FOLLOWER,
    B_ID,
    BY_ID,
    CONSUMER,
    FOLLOWER,
    LEADER,
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


def partition_with(records: int) -> Partition:
    """a-0 as its leader holds it, in sync with the follower."""
    log = open_test_log(make_environment(), LogConfig())
    partition = Partition("a", 0, LEADER, log)
    partition.topic_id = A_ID
    partition.lead(PartitionView(LEADER, 0, (LEADER, FOLLOWER), 0, (LEADER, FOLLOWER)), 0.0)
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


class Waiting:
    """An operation that counts how often it is tried."""

    def __init__(self) -> None:
        self.tried = 0

    def try_complete(self) -> bool:
        self.tried += 1
        return False

    def expire(self) -> None:
        raise AssertionError("it waits for ever")


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


@pytest.mark.parametrize("serves_consumers", [False, True])
def test_a_follower_is_woken_by_the_high_watermark_only_if_it_serves_consumers(
    purgatory: Purgatory, serves_consumers: bool
) -> None:
    cache = FetchSessionCache(3, random.Random(1), purgatory, woken_by_watermark=serves_consumers)
    partition = partition_with(3)
    session = session_at_the_end(cache, partition)
    waiting = Waiting()
    purgatory.watch(waiting, [session], 1e6)
    purgatory.touch(partition.advanced)
    assert waiting.tried == 1 + serves_consumers and session.partitions[(A_ID, 0)] in session.dirty


@pytest.mark.parametrize("why", ["records", "error", "diverging", "behind", "not in sync"])
def test_a_partition_with_more_to_say_stays_due(cache: FetchSessionCache, why: str) -> None:
    partition = partition_with(3)
    if why == "not in sync":
        partition.lead(PartitionView(LEADER, 0, (LEADER,), 1, (LEADER, FOLLOWER)), 0.0)
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
    partition.lead(PartitionView(LEADER, 0, (LEADER,), 1, (LEADER, FOLLOWER)), 0.0)
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
    assert pending is not None and pending.broker_ids == {LEADER}
    partition.follower_fetched(FOLLOWER, 3, 0, 9, 1e6)
    session = session_at_the_end(FetchSessionCache(3, random.Random(1), replicas.purgatory), partition)
    wanted = session.partitions[(A_ID, 0)]
    assert wanted not in session.dirty
    replicas.isr_accepted(pending, [LEADER], 1)
    assert wanted in session.dirty, "its next fetch proposes it"


def test_all_are_due_from_time_to_time(cache: FetchSessionCache) -> None:
    session = session_at_the_end(cache, partition_with(3))
    second, third = (request(session=session.id, epoch=epoch, replica=AS_FOLLOWER) for epoch in (1, 2))
    assert asked(cache.open(second, BY_ID, NAMES, LOOK_AT_ALL_MS - 1)) == [("b", 1, 7)]
    assert len(asked(cache.open(third, BY_ID, NAMES, LOOK_AT_ALL_MS))) == 2


def test_what_was_forgotten_is_never_due_again(cache: FetchSessionCache) -> None:
    session = cache.open(request((A_ID, 0, 3), (B_ID, 1, 7), (B_ID, 2, 0)), BY_ID, NAMES, 0.0).session
    assert session is not None
    half = request(session=session.id, epoch=1)
    cache.open(half, BY_ID, NAMES, CONSUMER_LOOKS_AT_ALL_MS / 2)  # the others are looked at next
    cache.open(request(session=session.id, epoch=2, forgotten=((A_ID, 0),)), BY_ID, NAMES, CONSUMER_LOOKS_AT_ALL_MS / 2)
    late = request(session=session.id, epoch=3)
    assert asked(cache.open(late, BY_ID, NAMES, 9 * CONSUMER_LOOKS_AT_ALL_MS)) == [("b", 1, 7), ("b", 2, 0)]


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


def test_a_partition_that_was_created_anew_is_listened_to_in_place_of_the_old_one(
    cache: FetchSessionCache, purgatory: Purgatory
) -> None:
    session = session_at_the_end(cache, partition_with(3))
    wanted, anew = session.partitions[(A_ID, 0)], partition_with(3)
    anew.high_watermark = 3
    answer = PartitionData(high_watermark=3, last_stable_offset=3, log_start_offset=0, records=b"")
    session.note_answer(wanted, answer, anew)
    assert purgatory.listened_keys == 2
    purgatory.touch(anew.appended)
    assert wanted in session.dirty


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
