"""Leaders, followers and in-sync replicas that must not be: each kind of damage is found, without a run."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from odradek.broker.replication.isr import PartitionView
from odradek.testing.log_environments import make_batch
from odradek.testing.simulation.fences import Fences
from odradek.testing.simulation.inspection import Inspection
from odradek.testing.simulation.liveness import BUSY_MS, Lagging, slack_ms
from odradek.testing.simulation.safety import Safety, broken_rule
from odradek.zk_schema.store import SetData
from odradek.zk_schema.znodes.topics import LEADER_RECOVERING, PartitionReplicas, PartitionState, TopicAssignment
from tests.sim.stage import STATE, T0, WHERE, Stage

SLACK_MS = slack_ms(4_000)


def test_two_leaders_of_one_epoch() -> None:
    stage = Stage()
    inspection = Inspection(stage.cluster, stage.history, "t", "transactions")
    stage.replicas[1].lead(PartitionView(1, 5, (0, 1, 2), 0, (0, 1, 2)), 0.0)
    inspection.look()
    assert "led by 0 and 1" in stage.seen


def test_a_follower_that_counts_something_else_as_committed() -> None:
    stage = Stage()
    stage.write(make_batch([b"producer-0-0"]), to=(0, 1, 2))
    stage.replicas[2].log.truncate_to(0)
    stage.replicas[2].append_as_follower(stage.other(b"producer-0-1"), 1, 0)
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert "another batch was committed at offset 0" in stage.seen


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        (replace(STATE, isr=(1, 2)), "the leader is not in the ISR"),
        (replace(STATE, isr=(0, 3)), "not among the replicas"),
    ],
)
def test_an_isr_of_others(state: PartitionState, seen: str) -> None:
    stage = Stage()
    Safety(stage.cluster, stage.history, 2)
    stage.in_zookeeper(state)
    assert seen in stage.seen


def test_what_all_in_sync_have_had() -> None:
    stage = Stage()
    safety = stage.safety()
    assert safety.replicated(WHERE) == 0
    stage.write(make_batch([b"a"]), make_batch([b"b"]), to=(1,))
    assert safety.replicated(WHERE) == 0
    stage.in_zookeeper(replace(STATE, isr=(0, 1)))
    assert safety.replicated(WHERE) == 2
    stage.in_zookeeper(STATE)
    stage.write(to=(2,))
    safety.look()
    stage.replicas[2].log.truncate_to(1)
    assert safety.replicated(WHERE) == 2


def test_who_is_no_replica_any_more_leaves_the_isr_and_does_not_come_into_it() -> None:
    stage = Stage()
    stage.safety()
    assignment = TopicAssignment({0: PartitionReplicas((0,))}, b"i" * 16).encode()
    stage.zookeeper.commit([SetData("/brokers/topics/t", assignment, -1)], 0)
    stage.in_zookeeper(replace(STATE, isr=(0, 2), leader_epoch=6))
    assert not stage.seen, "1 has left before 2"
    stage.in_zookeeper(replace(STATE, isr=(0,), leader_epoch=7))
    assert not stage.seen
    stage.in_zookeeper(replace(STATE, isr=(0, 2), leader_epoch=8))
    assert "ISR (0, 2) is not among the replicas (0,)" in stage.seen


def test_a_watermark_that_moves_with_too_few_in_sync() -> None:
    stage = Stage()
    safety = Safety(stage.cluster, stage.history, 2)
    stage.in_zookeeper(replace(STATE, isr=(0,)))
    stage.leader.committed_isr = frozenset({0})
    stage.write(make_batch(), make_batch(), to=(0, 1))
    safety.look()
    assert not stage.seen
    stage.leader.high_watermark = 1
    safety.look()
    assert "high watermark 0 -> 1 with an ISR of 1" in stage.seen


def test_a_watermark_that_falls() -> None:
    stage = Stage()
    inspection = Inspection(stage.cluster, stage.history, "t", "transactions")
    stage.write(make_batch([b"producer-0-0", b"producer-0-1"]))
    inspection.look()
    stage.leader.high_watermark = 1
    inspection.look()
    assert "high watermark 2 -> 1" in stage.seen


def test_a_watermark_within_a_batch() -> None:
    stage = Stage()
    stage.write(make_batch([b"producer-0-0", b"producer-0-1"]))
    stage.leader.high_watermark = 1
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert "cannot be read up to 1" in stage.seen


@pytest.mark.parametrize("what", ["acknowledged", "read"])
def test_a_record_that_too_few_have(what: str) -> None:
    stage = Stage()
    safety = stage.safety()
    stage.write(make_batch(), to=(0, 1))
    stage.leader.high_watermark = 1
    getattr(safety, what)(T0, 0)
    assert not stage.seen
    stage.write(make_batch(), to=(0,))
    getattr(safety, what)(T0, 1)
    assert f"is {what}; log ends by broker: {{0: 2, 1: 1, 2: 0}}" in stage.seen


def test_a_watermark_above_a_replica_in_sync() -> None:
    stage = Stage()
    safety = stage.safety()
    stage.write(make_batch(), to=(0, 1))
    stage.leader.high_watermark = 1
    safety.look()
    assert "broker 2 in the ISR ends at 0" in stage.seen


def test_an_isr_that_its_leader_has_not_asked_for() -> None:
    stage = Stage()
    stage.safety()
    stage.in_zookeeper(replace(STATE, isr=(0, 1)))
    assert "its leader has asked for None" in stage.seen


@pytest.mark.parametrize(("controller_epoch", "seen"), [(3, True), (2, False)], ids=["the present", "a deposed"])
def test_one_who_joins_by_what_it_had_fetched_in_another_life(controller_epoch: int, seen: bool) -> None:
    """As far as the controller knows that writes it; what a deposed one knows is of no matter."""
    stage = Stage()
    stage.safety()
    stage.in_zookeeper(replace(STATE, leader_epoch=6, isr=(0, 1)))
    view = PartitionView(0, 6, (0, 1), 1, (0, 1, 2))
    assert stage.leader.lead(view, 0.0) is None
    stage.brokers[1].server.services.controller.state = SimpleNamespace(
        controller_epoch=controller_epoch, brokers={2: SimpleNamespace(epoch=40)}
    )
    _, asked = stage.leader.follower_fetched(2, 0, 0, 30, 1.0)
    assert asked is not None
    stage.in_zookeeper(replace(STATE, leader_epoch=6, isr=(0, 1, 2)))
    assert ("in its life 30" in stage.seen) == seen


def test_a_replica_in_sync_without_what_a_former_leader_has_committed() -> None:
    """The new leader does not know yet how much of its log is committed: a watermark never shows it."""
    stage = Stage()
    safety = stage.safety()
    stage.write(make_batch(), to=(0, 1, 2))
    safety.look()
    stage.replicas[2].log.truncate_to(0)
    stage.leader.high_watermark = 0
    safety.look()
    assert "high watermark 0, the highest yet 1, broker 2 in the ISR ends at 0" in stage.seen


@pytest.mark.parametrize(("isr", "seen"), [((1, 2), False), ((0, 1, 2), True)])
def test_an_election_that_leaves_the_dead_in_the_isr(isr: tuple[int, ...], seen: bool) -> None:
    stage = Stage()
    stage.safety()
    living = {broker: SimpleNamespace(epoch=broker) for broker in (1, 2)}
    stage.brokers[1].server.services.controller.state = SimpleNamespace(controller_epoch=3, brokers=living)
    stage.in_zookeeper(replace(STATE, leader=1, leader_epoch=6, isr=isr))
    assert ("with [0] in the ISR, who are gone" in stage.seen) == seen


def test_one_who_joins_below_the_start_of_the_epoch() -> None:
    stage = Stage()
    safety = stage.safety()
    stage.in_zookeeper(replace(STATE, leader_epoch=6, isr=(0, 1)))
    stage.write(make_batch(), to=(0, 1))
    stage.leader.lead(PartitionView(0, 6, (0, 1), 1, (0, 1, 2)), 0.0)
    stage.leader.high_watermark = 0
    stage.leader.pending_isr = stage.leader._propose((0, 1, 2))
    safety.look()
    assert "broker 2 joins the ISR with 0, the epoch begins at 1" in stage.seen


@pytest.mark.parametrize(
    ("after", "seen"),
    [
        (replace(STATE, isr=(0, 1)), None),
        (replace(STATE, leader=1, leader_epoch=6, isr=(1, 2)), None),
        (replace(STATE, leader=3, leader_epoch=6, isr=(3,), leader_recovery_state=LEADER_RECOVERING), "[3] in the ISR"),
        (replace(STATE, controller_epoch=2), "written in controller epoch 2"),
        (replace(STATE, leader_epoch=4), "the leader epoch falls from 5"),
        (replace(STATE, leader=1), "the leader was 0 in the same epoch"),
        (replace(STATE, leader_epoch=6, isr=(0, 3)), "elected with [3] in the ISR"),
    ],
)
def test_what_may_follow_upon_a_state(after: PartitionState, seen: str | None) -> None:
    broken = broken_rule(STATE, after, 3)
    assert broken is None if seen is None else broken is not None and seen in broken


UNCLEAN = replace(STATE, leader=3, leader_epoch=6, isr=(3,), leader_recovery_state=LEADER_RECOVERING)


@pytest.mark.parametrize(
    ("after", "right"),
    [
        (UNCLEAN, True),
        (replace(UNCLEAN, isr=(3, 0)), False),
        (replace(UNCLEAN, leader_recovery_state=0), False),
        (replace(UNCLEAN, leader=0, isr=(0,)), False),
    ],
    ids=["alone, to recover", "with another one", "as if nothing were", "of one in the ISR"],
)
def test_an_unclean_election_where_it_is_allowed(after: PartitionState, right: bool) -> None:
    assert (broken_rule(STATE, after, 3, unclean=True) is None) == right


@pytest.mark.parametrize("online", [True, False])
def test_an_unclean_election_although_one_of_the_isr_can_lead(online: bool) -> None:
    stage = Stage()
    safety = stage.safety()
    safety.allows_unclean = lambda topic: True
    led: list[bool] = []
    safety.on_leader = lambda where, unclean: led.append(unclean)
    stage.in_zookeeper(replace(STATE, leader_epoch=6, isr=(0, 1)))
    living = {2: SimpleNamespace(epoch=2)}
    state = SimpleNamespace(controller_epoch=3, brokers=living, is_online=lambda one, where: online and one == 1)
    stage.brokers[1].server.services.controller.state = state
    recovering = replace(STATE, leader=2, leader_epoch=7, isr=(2,), leader_recovery_state=LEADER_RECOVERING)
    stage.in_zookeeper(recovering)
    assert ("though [1] could lead" in stage.seen) == online and led == [True]


def test_followers_that_are_kept_over_an_epoch() -> None:
    stage = Stage()
    fences = Fences(stage.cluster, stage.history)
    stage.write(make_batch())
    stage.clock.advance(10)
    fences.elected(WHERE, 5)
    fences.look()
    assert "fetched before its epoch began" in stage.seen


@pytest.mark.parametrize("running", [True, False])
def test_a_record_that_is_acknowledged_above_every_high_watermark(running: bool) -> None:
    """Also one that all have: their leader may not know it. Who has died may have known of more."""
    stage = Stage()
    safety = stage.safety()
    stage.write(make_batch(), make_batch())
    safety.acknowledged(T0, 1)
    assert not stage.seen
    stage.write(make_batch(), to=(0, 1))
    stage.brokers[2].running = running
    safety.acknowledged(T0, 2)
    assert ("t-0 offset 2 is acknowledged, no high watermark was above 2" in stage.seen) is bool(stage.seen) is running


def test_who_gives_up_a_replica_takes_along_what_it_knew_to_be_committed() -> None:
    """It was moved between two looks, just when it had acknowledged something as the leader (seed 26003139)."""
    stage = Stage()
    safety = stage.safety()
    stage.write(make_batch(), make_batch())
    safety.look()
    stage.write(make_batch(), to=(0, 1))
    held = stage.brokers[0].server.services.replicas.partitions
    replica = held.pop(WHERE)
    safety.acknowledged(T0, 2)
    assert not stage.seen
    held[WHERE] = replica
    safety.acknowledged(T0, 2)
    assert "t-0 offset 2 is acknowledged, no high watermark was above 2" in stage.seen


def test_a_deposed_leader_that_has_given_up_its_replica_has_been_seen_with_its_high_watermark() -> None:
    """It had acknowledged something, and forgot all while the answer was still on its way (seed 39006047)."""
    stage = Stage()
    safety = stage.safety()
    safety.look()
    assignment = TopicAssignment({0: PartitionReplicas((1, 2))}, b"i" * 16).encode()
    stage.zookeeper.commit([SetData("/brokers/topics/t", assignment, -1)], 0)
    stage.in_zookeeper(replace(STATE, leader=1, leader_epoch=6, isr=(1, 2)))
    stage.write(make_batch(), make_batch())
    assert stage.leader.high_watermark == 2
    safety.look()
    stage.brokers[0].server.services.replicas.partitions.pop(WHERE)
    safety.look()
    safety.acknowledged(T0, 1)
    assert not stage.seen
    stage.write(make_batch(), to=(1, 2))
    safety.acknowledged(T0, 2)
    assert "t-0 offset 2 is acknowledged, no high watermark was above 2" in stage.seen


def test_a_leader_that_is_back_and_has_not_been_told_of_its_partition_may_know_of_more() -> None:
    """It had acknowledged something just before it was shut down, between two looks (seed 39104281)."""
    stage = Stage()
    safety = stage.safety()
    stage.write(make_batch(), make_batch())
    safety.look()
    stage.write(make_batch(), to=(0, 1))
    held = stage.brokers[0].server.services.replicas.partitions
    replica = held.pop(WHERE)
    safety.look()
    safety.acknowledged(T0, 2)
    assert not stage.seen
    held[WHERE] = replica
    safety.acknowledged(T0, 2)
    assert "t-0 offset 2 is acknowledged, no high watermark was above 2" in stage.seen


def test_a_follower_of_which_more_is_counted_than_it_has() -> None:
    stage = Stage()
    fences = Fences(stage.cluster, stage.history)
    stage.write(make_batch(), make_batch())
    stage.replicas[2].log.truncate_to(1)
    stage.brokers[2].server.services.identity.broker_epoch = 7
    fences.look()
    assert not stage.seen, "it has not fetched in its present life"
    stage.brokers[2].server.services.identity.broker_epoch = -1
    fences.look()
    assert "counts 2 of broker 2, which ends at 1" in stage.seen


@pytest.mark.parametrize(("isr", "watermark", "seen"), [((0, 1), 3, False), ((0, 1), 2, True), ((0, 1, 2), 3, True)])
def test_a_follower_may_cut_its_log_where_nothing_depends_on_it(
    isr: tuple[int, ...], watermark: int, seen: bool
) -> None:
    """Outside the ISR and below the high watermark, to copy transactions again (seed 26501074)."""
    stage = Stage()
    fences = Fences(stage.cluster, stage.history)
    stage.write(make_batch(), make_batch())
    stage.write(make_batch(), to=(0, 1))
    stage.leader.committed_isr, stage.leader.high_watermark = frozenset(isr), watermark
    stage.replicas[2].log.truncate_to(1)
    fences.look()
    assert ("counts 2 of broker 2, which ends at 1" in stage.seen) is bool(stage.seen) is seen


def test_a_follower_that_adds_what_its_leader_has_cut_off() -> None:
    stage = Stage()
    fences = Fences(stage.cluster, stage.history)
    stage.write(make_batch(), to=(0, 1))
    fences.look()
    stage.write(make_batch(), to=(0, 1))
    fences.look()
    assert not stage.seen
    stage.leader.log.truncate_to(1)
    records = stage.replicas[1].log.read(0, 1 << 20, 2, whole_first_batch=True).records
    stage.replicas[2].log.append_as_follower(records if isinstance(records, bytes) else records.read())
    fences.look()
    assert "has added records of epoch 5 up to 2, its leader has 1 of it" in stage.seen


@pytest.mark.parametrize("pending", [False, True])
def test_a_follower_that_lags_and_stays_in_sync(pending: bool) -> None:
    stage = Stage()
    lagging = Lagging(stage.cluster, stage.history, 4_000, lambda where: stage.leader)
    stage.write(make_batch())
    lagging.look()
    stage.clock.advance(60_000)
    stage.write(make_batch(), to=(0, 1))
    lagging.look()
    stage.clock.advance(4_000 + SLACK_MS)
    stage.write(make_batch(), to=(0, 1))
    lagging.look()
    assert not stage.seen
    proposed = stage.leader.propose_shrink(stage.clock.monotonic_ms()) if pending else None
    stage.clock.advance(1)
    lagging.look()
    assert ("keeps broker 2 in the ISR, which has lacked something for 8001 ms" in stage.seen) is not pending
    assert bool(stage.seen) is not pending
    if proposed is not None:
        stage.leader.isr_refused(proposed)
        stage.clock.advance(SLACK_MS)
        lagging.look()
        assert not stage.seen, "it proposes one change at a time, and has had no time to look again"
        stage.clock.advance(1)
        lagging.look()
        assert "keeps broker 2 in the ISR, which has lacked something for 12002 ms" in stage.seen


def test_a_leader_that_leads_again_in_the_same_epoch_has_its_time_once_more() -> None:
    """Its session had expired, between two looks."""
    stage = Stage()
    lagging = Lagging(stage.cluster, stage.history, 4_000, lambda where: stage.leader)
    lagging.look()
    stage.write(make_batch(), to=(0, 1))
    lagging.look()
    stage.clock.advance(4_000 + SLACK_MS)
    stage.leader.stop_leading()
    stage.leader.lead(PartitionView(0, 5, (0, 1, 2), 1, (0, 1, 2)), stage.clock.monotonic_ms())
    for passes_ms in (1, 3_999 + SLACK_MS):
        stage.clock.advance(passes_ms)
        lagging.look()
        assert not stage.seen
    stage.clock.advance(2)
    lagging.look()
    assert "keeps broker 2 in the ISR" in stage.seen


def test_a_follower_that_comes_back_into_the_isr_has_its_time_once_more() -> None:
    stage = Stage()
    lagging = Lagging(stage.cluster, stage.history, 4_000, lambda where: stage.leader)
    lagging.look()
    stage.write(make_batch(), to=(0, 1))
    lagging.look()
    for partition_epoch, isr in ((1, (0, 1)), (2, (0, 1, 2))):
        stage.clock.advance(4_000 + SLACK_MS)
        stage.leader.lead(PartitionView(0, 5, isr, partition_epoch, (0, 1, 2)), stage.clock.monotonic_ms())
        lagging.look()
    stage.clock.advance(4_000 + SLACK_MS)
    lagging.look()
    assert not stage.seen
    stage.clock.advance(1)
    lagging.look()
    assert "keeps broker 2 in the ISR, which has lacked something for 8001 ms" in stage.seen


def test_a_leader_that_looks_every_five_seconds_may_take_so_much_longer() -> None:
    """With replica.lag.time.max.ms=10000 it was to see within 14 s what it looks for twice in ten (seed 39102472)."""
    stage = Stage()
    lagging = Lagging(stage.cluster, stage.history, 10_000, lambda where: stage.leader)
    lagging.look()
    stage.write(make_batch(), to=(0, 1))
    lagging.look()
    stage.clock.advance(15_000 + BUSY_MS)
    lagging.look()
    assert not stage.seen
    stage.clock.advance(1)
    lagging.look()
    assert "keeps broker 2 in the ISR" in stage.seen


@pytest.mark.parametrize("changes", [1, 2])
def test_a_follower_that_may_have_left_the_isr_and_come_back_between_two_looks(changes: int) -> None:
    """Below min.insync.replicas the high watermark stands still, and who has all up to there comes in again, as with
    Kafka: one whose disk takes no more is in and out."""
    stage = Stage()
    lagging = Lagging(stage.cluster, stage.history, 4_000, lambda where: stage.leader)
    lagging.look()
    stage.write(make_batch(), to=(0, 1))
    lagging.look()
    stage.clock.advance(4_001 + SLACK_MS)
    stage.leader.lead(PartitionView(0, 5, (0, 1, 2), changes, (0, 1, 2)), stage.clock.monotonic_ms())
    lagging.look()
    assert ("keeps broker 2 in the ISR" in stage.seen) is (changes == 1)
    stage.clock.advance(4_001 + SLACK_MS)
    lagging.look()
    assert "keeps broker 2 in the ISR" in stage.seen


@pytest.mark.parametrize("end_at_death", [None, 0])
@pytest.mark.parametrize("is_present", [False, True])
def test_a_follower_that_had_all_and_whose_replica_is_deleted(is_present: bool, end_at_death: int | None) -> None:
    """The leader that hears of it does not count on it; one that is cut off from the controller knows nothing of it."""
    stage = Stage()
    lagging = Lagging(stage.cluster, stage.history, 4_000, lambda where: stage.leader if is_present else None)
    stage.write(make_batch())
    lagging.look()
    stage.brokers[2].server.services.replicas.partitions.clear()
    stage.brokers[2].log_end = lambda topic, index: end_at_death
    stage.clock.advance(4_001 + SLACK_MS)
    lagging.look()
    said = "keeps broker 2 in the ISR, which has lacked something for 8001 ms: it ends at 0"
    assert (said in stage.seen) is is_present
    assert bool(stage.seen) is is_present
