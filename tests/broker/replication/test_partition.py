"""The rules of a leader: whom the high watermark waits for, who may join, what followers are answered."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from odradek.broker.replication.isr import NO_BROKER_EPOCH, IsrCriteria, PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import AwaitedAppend
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.log_environments import make_batch, make_environment, open_test_log
from odradek.testing.virtual_clock import ManualClock

LAG_MS = 10_000
LEADER, FOLLOWER = 0, 1
ALONE = PartitionView(LEADER, 0, (LEADER,), 0, (LEADER, FOLLOWER))


class World:
    """A partition led by 0, with what its criteria ask for."""

    def __init__(self, view: PartitionView = ALONE) -> None:
        self.clock = ManualClock()
        self.clock.advance(100_000.0)
        self.alive = {LEADER, FOLLOWER}
        criteria = IsrCriteria(LAG_MS, lambda broker: broker in self.alive)
        self.partition = Partition("t", 0, LEADER, open_test_log(make_environment(clock=self.clock)), criteria=criteria)
        self.recovered = self.partition.lead(view, self.clock.monotonic_ms())

    def append(self) -> None:
        self.partition.append_as_leader(make_batch([b"x"]), 1)

    def fetch(self, offset: int, **asked: int) -> bool:
        """Whether the follower may join."""
        _, pending = self.partition.follower_fetched(FOLLOWER, offset, 0, 7, self.clock.monotonic_ms(), **asked)
        return pending is not None


def test_the_high_watermark_waits_for_a_follower_that_is_about_to_join() -> None:
    """One append per round trip of the follower: it never met the end of the log, and stayed outside for ever."""
    world = World()
    world.append()
    assert not world.fetch(0) and world.partition.high_watermark == 1, "nobody waits for one who is only beginning"
    for behind in range(1, 100):
        world.clock.advance(1.0)
        world.append()
        if world.fetch(behind):
            break
    else:
        raise AssertionError("it never joined")
    assert behind <= 2
    world.append()
    assert world.partition.high_watermark == behind, "the pending ISR counts"
    world.clock.advance(LAG_MS + 1.0)
    assert not world.partition.advance_high_watermark(), "the controller may have taken it in long ago"


def test_a_follower_that_waited_long_at_the_end_does_not_lag_as_soon_as_something_is_written() -> None:
    world = World(replace(ALONE, isr=(LEADER, FOLLOWER)))
    world.fetch(0)
    session = SimpleNamespace(last_used_ms=world.clock.monotonic_ms())
    world.partition.followers[FOLLOWER].session = session
    world.clock.advance(10.0 * LAG_MS)
    session.last_used_ms = world.clock.monotonic_ms()  # its fetches have no news of this partition
    world.append()
    assert world.partition.propose_shrink(world.clock.monotonic_ms()) is None
    world.clock.advance(LAG_MS + 1.0)
    assert world.partition.propose_shrink(world.clock.monotonic_ms()) is not None


@pytest.mark.parametrize("reason", ["too late", "gone"])
def test_it_does_not_wait_for_one_that_does_not_come(reason: str) -> None:
    world = World()
    world.append()
    world.fetch(1)
    pending = world.partition.pending_isr
    assert pending is not None
    world.partition.isr_refused(pending)
    world.append()
    assert world.partition.high_watermark == 1
    if reason == "gone":
        world.alive.remove(FOLLOWER)
    else:
        world.clock.advance(LAG_MS + 1.0)
    assert world.partition.advance_high_watermark() and world.partition.high_watermark == 2


def test_a_follower_whom_the_controller_has_refused_is_proposed_again_after_a_pause() -> None:
    """Each of its fetches proposed it: a broker whose registration was not answered cost a processor."""
    world = World()
    proposed = 0
    for _ in range(1_200):
        world.clock.advance(1.0)
        if world.fetch(0):
            proposed += 1
            assert world.partition.pending_isr is not None
            world.partition.isr_refused(world.partition.pending_isr)
    assert proposed == 3, "at once, after 500 ms and after 1000 ms"
    world.clock.advance(500.0)
    assert world.fetch(0) and world.partition.pending_isr is not None
    world.partition.isr_accepted(world.partition.pending_isr, [LEADER, FOLLOWER], 1)
    assert world.partition.committed_isr == {LEADER, FOLLOWER}


def test_a_follower_that_has_lost_its_end_does_not_join_by_what_it_had() -> None:
    world = World()
    for _ in range(3):
        world.append()
    world.alive.remove(FOLLOWER)
    world.fetch(3)
    world.alive.add(FOLLOWER)
    assert world.partition.high_watermark == 3 and not world.fetch(1)
    assert world.fetch(3)


def test_a_fetch_from_before_the_follower_registered_anew_changes_nothing() -> None:
    """It came late, by the connection of a life in which the follower had more than after its crash."""
    world = World(replace(ALONE, isr=(LEADER, FOLLOWER)))
    for _ in range(3):
        world.append()
    world.fetch(1)
    now_ms = world.clock.monotonic_ms()
    with pytest.raises(KafkaError) as refused:
        world.partition.follower_fetched(FOLLOWER, 3, 0, 6, now_ms)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (world.partition.high_watermark, world.partition.followers[FOLLOWER].log_end) == (1, 1)
    world.partition.follower_fetched(FOLLOWER, 2, 0, NO_BROKER_EPOCH, now_ms)
    assert world.partition.high_watermark == 2, "brokers before 3.5 name no epoch"


@pytest.mark.parametrize("why", ["it does not lead any more", "another one is open", "the answer is older"])
def test_an_answer_to_a_proposal_that_is_void_changes_nothing(why: str) -> None:
    """Taken by one who does not lead, it made all of its log committed: nobody is left to wait for."""
    world = World(replace(ALONE, partition_epoch=4))
    world.fetch(0)
    pending = world.partition.pending_isr
    assert pending is not None
    world.append()
    if why == "it does not lead any more":
        world.partition.stop_leading()
    elif why == "another one is open":
        world.partition.lead(replace(ALONE, partition_epoch=5), world.clock.monotonic_ms())
        assert world.fetch(0) and world.partition.pending_isr is not pending
    before = (world.partition.committed_isr, world.partition.partition_epoch, world.partition.pending_isr)
    accepted = world.partition.isr_accepted(pending, [LEADER, FOLLOWER], 3 if why == "the answer is older" else 6)
    assert not accepted and world.partition.high_watermark == 0
    assert (world.partition.committed_isr, world.partition.partition_epoch, world.partition.pending_isr) == before


@pytest.mark.parametrize(("isr", "answer"), [((LEADER, FOLLOWER), 0), ((LEADER,), 20), ((), 6)])
def test_what_is_replicated_when_too_few_are_left_is_not_answered_well(isr: tuple[int, ...], answer: int) -> None:
    """NOT_ENOUGH_REPLICAS_AFTER_APPEND; NOT_LEADER_OR_FOLLOWER when nobody leads here any more."""
    log = open_test_log(make_environment(), LogConfig(min_insync_replicas=2))
    partition, view = Partition("t", 0, LEADER, log), replace(ALONE, isr=(LEADER, FOLLOWER))
    partition.lead(view, 0.0)
    partition.append_as_leader(make_batch([b"x"]), -1)
    waiting = AwaitedAppend(partition, 1)
    assert not waiting.settle() and waiting.error is None
    partition.follower_fetched(FOLLOWER, 1, 0, 7, 1.0)
    if isr:
        partition.lead(replace(view, isr=isr, partition_epoch=1), 2.0)
    else:
        partition.stop_leading()
    assert waiting.settle() and waiting.error == answer


def test_nothing_is_committed_while_too_few_are_in_sync_though_one_more_is_about_to_join() -> None:
    """Otherwise consumers would read what is on one disk alone (Kafka: isUnderMinIsr in maybeIncrementLeaderHW)."""
    log = open_test_log(make_environment(), LogConfig(min_insync_replicas=2))
    partition = Partition("t", 0, LEADER, log)
    partition.lead(ALONE, 0.0)
    partition.append_as_leader(make_batch([b"x"]), 1)
    moved, pending = partition.follower_fetched(FOLLOWER, 1, 0, 7, 1.0)
    assert pending is not None and not moved and partition.high_watermark == 0
    assert partition.isr_accepted(pending, [LEADER, FOLLOWER], 1) and partition.high_watermark == 1


def test_records_are_deleted_without_those_who_are_gone() -> None:
    world = World()
    for _ in range(3):
        world.append()
    world.fetch(3)
    world.partition.log.advance_log_start_offset(2)
    assert world.partition.low_watermark() == 0
    world.alive.remove(FOLLOWER)
    assert world.partition.low_watermark() == 2


@pytest.mark.parametrize("why", ["it leads", "it follows", "a change is open", "it is alone"])
def test_only_a_leader_without_an_open_change_proposes_to_shrink_the_isr(why: str) -> None:
    world = World(replace(ALONE, isr=(LEADER, FOLLOWER)))
    world.fetch(0)
    world.append()
    world.clock.advance(LAG_MS + 1.0)
    now_ms = world.clock.monotonic_ms()
    if why == "it follows":
        world.partition.follow(replace(ALONE, leader=FOLLOWER, leader_epoch=1, isr=(LEADER, FOLLOWER)))
    elif why == "a change is open":
        assert world.partition.propose_shrink(now_ms) is not None
    elif why == "it is alone":
        world.partition.lead(replace(ALONE, partition_epoch=1), now_ms)
    proposed = world.partition.propose_shrink(now_ms)
    assert (proposed is not None) == (why == "it leads")


def test_who_starts_over_where_the_leaders_log_begins_has_its_high_watermark_there() -> None:
    world = World()
    world.append()
    world.partition.follow(replace(ALONE, leader=FOLLOWER, leader_epoch=1))
    world.partition.start_over_at(50)
    log = world.partition.log
    assert (log.log_start_offset, world.partition.high_watermark, log.log_end_offset) == (50, 50, 50)


def test_the_high_watermark_of_a_follower_does_not_fall() -> None:
    """A new leader may know of less for a while."""
    partition = Partition("t", 0, FOLLOWER, open_test_log(make_environment()))
    partition.follow(ALONE)
    assert partition.append_as_follower(make_batch([b"x", b"y"], epoch=0), 2, 0) and partition.high_watermark == 2
    assert not partition.append_as_follower(b"", 1, 0) and partition.high_watermark == 2


def test_a_follower_that_the_metadata_does_not_know_may_not_join() -> None:
    world = World()
    world.alive.remove(FOLLOWER)
    assert not world.fetch(0)
    world.alive.add(FOLLOWER)
    assert world.fetch(0)


@pytest.mark.parametrize("leaves", ["as the controller writes", "as the leader proposes"])
@pytest.mark.parametrize("stays", [(LEADER, FOLLOWER), (LEADER,)])
def test_nothing_is_committed_while_the_isr_has_one_that_is_no_replica_any_more(
    leaves: str, stays: tuple[int, ...]
) -> None:
    """A reassignment ends: who is removed cannot fetch from the new leader, and may be elected when it is cancelled."""
    going = 2
    view = PartitionView(LEADER, 1, (*stays, going), 4, stays)
    world = World(view)
    partition = world.partition
    world.append()
    if FOLLOWER in stays:
        world.fetch(1)
    assert partition.high_watermark == 0
    if leaves == "as the controller writes":
        partition.lead(replace(view, isr=stays, leader_epoch=2, partition_epoch=5), world.clock.monotonic_ms())
        if FOLLOWER in stays:
            world.fetch(1)
    else:
        pending = partition.propose_shrink(world.clock.monotonic_ms())
        assert pending is not None and pending.broker_ids == set(stays)
        assert partition.advance_high_watermark() is False
        assert partition.isr_accepted(pending, list(stays), 5)
    assert partition.high_watermark == 1


def test_a_new_leader_counts_only_the_isr_as_caught_up() -> None:
    in_sync = World(PartitionView(LEADER, 0, (LEADER, FOLLOWER), 0, (LEADER, FOLLOWER)))
    assert in_sync.partition.followers[FOLLOWER].last_caught_up_ms == in_sync.clock.monotonic_ms()
    assert World().partition.followers[FOLLOWER].last_caught_up_ms == -math.inf


def test_the_leader_of_an_unclean_election_reports_that_it_has_recovered() -> None:
    """The state znode said RECOVERING until the ISR changed for another reason."""
    view = PartitionView(LEADER, 3, (LEADER,), 5, (LEADER, FOLLOWER), recovering=True)
    world = World(view)
    assert world.recovered is not None and world.recovered is world.partition.pending_isr
    assert (world.recovered.broker_ids, world.recovered.partition_epoch) == ({LEADER}, 5)
    assert world.partition.lead(view, 0.0) is None, "told again: the report is on its way"
    assert world.partition.isr_accepted(world.recovered, [LEADER], 6) is False
    assert world.partition.pending_isr is None and world.partition.partition_epoch == 6


def test_below_the_log_start_histories_are_not_compared() -> None:
    """Kafka's order: the follower begins again at our start, instead of truncating step by step before it does."""
    world = World()
    for _ in range(3):
        world.append()
    partition = world.partition
    partition.lead(PartitionView(LEADER, 4, (LEADER,), 1, (LEADER, FOLLOWER)), 0.0)
    world.append()
    assert partition.diverging_epoch(2, 4) == (0, 3)
    partition.log.advance_log_start_offset(3)
    with pytest.raises(KafkaError) as refused:
        partition.diverging_epoch(2, 2)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("named", "error"),
    [({}, ErrorCode.NOT_LEADER_OR_FOLLOWER), ({"current_leader_epoch": 0}, ErrorCode.UNKNOWN_LEADER_EPOCH)],
    ids=["no epoch", "epoch"],
)
def test_a_follower_that_the_leader_does_not_know_yet_asks_again(named: dict[str, int], error: ErrorCode) -> None:
    world = World(PartitionView(LEADER, 0, (LEADER,), 0, (LEADER,)))
    with pytest.raises(KafkaError) as refused:
        world.fetch(0, **named)
    assert refused.value.code is error


def test_a_follower_serves_only_while_it_knows_whom_to_follow() -> None:
    partition = World().partition
    partition.follow(PartitionView(FOLLOWER, 1, (FOLLOWER,), 1, (LEADER, FOLLOWER)))
    assert partition.check_leadership() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.check_leadership(or_follower=True) is ErrorCode.NONE
    assert partition.check_leadership(0, or_follower=True) is ErrorCode.FENCED_LEADER_EPOCH
    partition.stop_leading()
    assert partition.check_leadership(or_follower=True) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_a_deposed_leader_sends_from_a_file_that_it_has_cut_meanwhile_is_not_taken() -> None:
    """An answer names a range of the file, which is read when the socket has room for it. Where batches are of one size
    the next leader's stand in the place of its own, and the follower would keep the one before them, which nobody has.
    """
    deposed = World().partition
    follower = World().partition
    for number in range(4):
        batch = make_batch([b"x"], base_offset=number, epoch=5)
        deposed.log.append_as_follower(batch)
        if number < 2:
            follower.log.append_as_follower(batch)
    follower.follow(PartitionView(LEADER, 5, (LEADER,), 0, (LEADER, FOLLOWER)))
    answer = deposed.log.read(2, 10_000, 4, whole_first_batch=True).records
    assert not isinstance(answer, bytes)
    deposed.truncate_to(1)
    for number in range(1, 4):
        deposed.log.append_as_follower(make_batch([b"y"], base_offset=number, epoch=6))
    follower.append_as_follower(answer.read(), 2, 0)
    assert follower.log.log_end_offset == 2 and follower.log.epochs.latest == 5


def test_who_lacks_what_the_log_had_when_the_epoch_began_may_not_join() -> None:
    """The high watermark of a new leader may be older than what was acknowledged under the one before (KAFKA-7128)."""
    other = 2
    view = PartitionView(LEADER, 0, (LEADER, other), 0, (LEADER, FOLLOWER, other))
    world = World(view)
    for _ in range(3):
        world.append()
    world.partition.lead(replace(view, leader_epoch=1, partition_epoch=1), 0.0)
    world.append()
    assert not world.fetch(2) and world.partition.high_watermark == 0
    world.partition.lead(replace(view, leader_epoch=1, partition_epoch=2), 0.0)
    assert world.fetch(3), "the epoch has not begun anew"


def test_the_end_of_a_pending_change_is_that_of_this_one_alone_and_moves_the_high_watermark() -> None:
    world = World()
    world.append()
    world.fetch(1)
    old = world.partition.pending_isr
    world.partition.lead(replace(ALONE, leader_epoch=1, partition_epoch=1), world.clock.monotonic_ms())
    world.fetch(1)
    pending = world.partition.pending_isr
    assert old is not None and pending is not None
    world.append()
    world.alive.remove(FOLLOWER)
    world.partition.isr_refused(old)
    assert world.partition.pending_isr is pending and world.partition.high_watermark == 1
    world.partition.isr_refused(pending)
    assert world.partition.pending_isr is None and world.partition.high_watermark == 2


@pytest.mark.parametrize(("checkpointed", "high_watermark"), [(0, 1), (1, 1), (2, 2), (3, 3), (9, 3)])
def test_a_checkpointed_high_watermark_is_moved_into_the_log(checkpointed: int, high_watermark: int) -> None:
    """The log may have lost its end, and its beginning."""
    world = World()
    for _ in range(3):
        world.append()
    log = world.partition.log
    log.log_start_offset = 1
    assert Partition("t", 0, LEADER, log, high_watermark=checkpointed).high_watermark == high_watermark
