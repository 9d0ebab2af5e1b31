"""Brokers and controllers that know or do what they must not: each kind of damage is found, without a run."""

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.log_environments import make_batch
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.fences import Fences
from odradek.testing.simulation.history import History
from odradek.testing.simulation.inspection import Inspection
from odradek.testing.simulation.liveness import Work
from odradek.testing.simulation.operations import Operations
from odradek.testing.simulation.verdict import left_over, other_settings
from odradek.testing.virtual_clock import ManualClock
from odradek.testing.virtual_network import VirtualNetwork
from odradek.zk_schema.store import SetData
from tests.sim.stage import STATE, WHERE, Stage


def test_a_dead_task() -> None:
    stage = Stage()
    stage.brokers[1].server.tasks.deaths.append("log-cleaner")
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert stage.seen == "broker-1: task log-cleaner has died"


def test_a_waiter_that_is_left_over() -> None:
    assert left_over(Counter(DelayedFetch=4)) == {}
    assert left_over(Counter(DelayedFetch=4, DelayedProduce=1)) == {"DelayedProduce": 1}


def test_a_broker_that_has_not_heard_of_a_setting() -> None:
    heard, missed = LogConfig(retention_ms=5, min_insync_replicas=2), LogConfig(min_insync_replicas=2)
    assert other_settings([heard, heard]) == {}
    assert other_settings([heard, missed, heard]) == {"retention_ms": [5, missed.retention_ms, 5]}


@pytest.mark.parametrize(
    ("code", "rotten", "seen"),
    [
        (ErrorCode.CORRUPT_MESSAGE, {0}, False),
        (ErrorCode.CORRUPT_MESSAGE, set[int](), True),
        (ErrorCode.OFFSET_OUT_OF_RANGE, {0}, True),
    ],
)
def test_a_reader_who_is_refused_what_no_disk_has_spoilt(code: ErrorCode, rotten: set[int], seen: bool) -> None:
    history = History(ManualClock())
    history.rotten = rotten
    history.refused("consumer", KafkaError(code, "t-0 at offset 5"))
    assert (history.violation is not None) is seen


@pytest.mark.parametrize(("later_ms", "seen"), [(9_000.0, False), (11_000.0, True)])
def test_a_reader_who_is_refused_what_is_on_a_new_disk(later_ms: float, seen: bool) -> None:
    """Not one who holds still what the disk before it has had."""
    clock = ManualClock()
    history = History(clock)
    history.rotten = {0}
    history.mended(0)
    clock.advance(later_ms)
    history.refused("consumer", KafkaError(ErrorCode.CORRUPT_MESSAGE, "t-0 at offset 5"))
    assert (history.violation is not None) is seen


@pytest.mark.parametrize(
    ("expires", "begin", "rotten", "seen"),
    [
        (False, 0, set[int](), False),
        (False, 1, set[int](), True),
        (False, 1, {0}, False),
        (True, 1, set[int](), False),
        (True, 2, set[int](), True),
    ],
    ids=["at 0", "deleted", "rotten", "expired", "not committed"],
)
def test_a_log_that_has_lost_its_beginning(expires: bool, begin: int, rotten: set[int], seen: bool) -> None:
    stage = Stage()
    stage.history.expires, stage.history.rotten = expires, rotten
    stage.write(make_batch(), to=(0, 1, 2))
    stage.write(make_batch(), to=(0, 1))
    stage.leader.log.advance_log_start_offset(begin)
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert (f"begins at {begin} on broker-0, its high watermark is 1" in stage.seen) is bool(stage.seen) is seen


def test_a_watermark_above_the_end_of_its_log() -> None:
    stage = Stage("other")
    stage.write(make_batch(), to=(0, 1, 2))
    stage.replicas[2].high_watermark = 2
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert "ends at 1 on broker-2, its high watermark is 2" in stage.seen


@pytest.mark.parametrize("offline", [True, False])
def test_a_log_as_a_failed_disk_has_left_it(offline: bool) -> None:
    """Not one that is offline, perhaps without a segment: nobody is given any of it, and a start reads it anew."""
    stage = Stage()
    stage.write(make_batch(), to=(0, 1, 2))
    left = stage.replicas[2]
    left.high_watermark, left.offline = 2, offline
    if offline:
        left.log.remove_segments(left.log.segments)
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert ("ends at 1 on broker-2, its high watermark is 2" in stage.seen) is bool(stage.seen) is not offline


@pytest.mark.parametrize(("begin", "seen"), [(1, False), (2, True)])
def test_a_leader_epoch_beyond_the_end_of_its_log(begin: int, seen: bool) -> None:
    stage = Stage("other")
    stage.write(make_batch(), to=(0, 1, 2))
    stage.replicas[2].log.assign_epoch(6, begin)
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert ("ends at 1 on broker-2, its epoch 6 begins at 2" in stage.seen) is bool(stage.seen) is seen


@pytest.mark.parametrize(("begin", "seen"), [(0, False), (2, True)])
def test_a_first_leader_epoch_beyond_the_end_of_its_log(begin: int, seen: bool) -> None:
    stage = Stage("other")
    stage.replicas[2].log.assign_epoch(0, begin)
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert ("ends at 0 on broker-2, its epoch 0 begins at 2" in stage.seen) is bool(stage.seen) is seen


@pytest.mark.parametrize(("offset", "end", "seen"), [(1, 2, False), (2, 2, True), (2, 1, False)])
def test_a_checkpoint_above_the_high_watermark(offset: int, end: int, seen: bool) -> None:
    """Not one of what has been cut off."""
    stage = Stage()
    stage.write(make_batch(), to=(0, 1, 2))
    stage.write(make_batch(), to=(0, 1))
    stage.leader.log.truncate_to(end)
    checkpoints = SimpleNamespace(newest=lambda name: {WHERE: offset})
    directories = {stage.leader.log.log_directory: SimpleNamespace(checkpoints=checkpoints)}
    stage.brokers[0].server.services.logs.directories = directories
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert ("checkpoint of the high watermark 2, it is 1" in stage.seen) is bool(stage.seen) is seen


def test_two_controllers_of_one_epoch() -> None:
    stage = Stage()
    inspection = Inspection(stage.cluster, stage.history, "t", "transactions")
    stage.brokers[0].server.services.controller.controller_epoch = 3
    inspection.look()
    assert not stage.seen
    stage.brokers[2].server.services.controller.controller_epoch = 3
    inspection.look()
    assert stage.seen == "controller epoch 3: (0, 1) and 2"


def test_a_controller_epoch_that_falls() -> None:
    stage = Stage()
    stage.in_zookeeper(STATE)
    inspection = Inspection(stage.cluster, stage.history, "t", "transactions")
    inspection.look()
    stage.zookeeper.commit([SetData("/controller_epoch", b"2", -1)], 0)
    inspection.look()
    assert stage.seen == "the controller epoch goes from 3 to 2"


SERVING = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


@pytest.mark.parametrize(
    ("times", "changes", "overrides", "seen"),
    [
        (500, 0, {}, False),
        (526, 2, {}, True),
        (534, 0, SERVING, False),
        (1_001, 0, SERVING, True),
        (623, 201, {}, False),
        (2_000, 400, {}, False),
        (2_200, 900, {}, True),
    ],
)
def test_one_who_asks_without_end(times: int, changes: int, overrides: dict[str, str], seen: bool) -> None:
    """526 were proposals of one whom the controller refused, 623 the moves of forty replicas, 534 news of the high
    watermark for a follower that serves consumers (seed 39101278)."""
    stage = Stage()
    stage.cluster.overrides = overrides
    network = VirtualNetwork(stage.clock)
    stage.cluster.network = network
    stage.in_zookeeper(STATE)
    work = Work(stage.cluster, stage.history)
    network.sent["broker-1", "broker-0"] = times
    for _ in range(changes):
        stage.in_zookeeper(STATE)
    stage.clock.advance(2_000.0)
    work.look()
    assert (f"broker-1 has sent broker-0 something {times} times" in stage.seen) is bool(stage.seen) is seen
    work.look()
    assert not network.sent


@pytest.mark.parametrize(("written", "seen"), [(0, True), (54, False)])
def test_a_follower_asks_once_for_each_batch_at_most(written: int, seen: bool) -> None:
    """554 were what followers asked whose disk was lost, where a Fetch brings one batch (seed 39101998)."""
    stage = Stage()
    stage.cluster.network = network = VirtualNetwork(stage.clock)
    stage.in_zookeeper(STATE)
    work = Work(stage.cluster, stage.history)
    network.sent["broker-0", "broker-1"] = network.sent["broker-1", "broker-0"] = 554
    stage.write(*[make_batch() for _ in range(written)], to=(1,))
    stage.clock.advance(2_000.0)
    work.look()
    assert bool(stage.seen) is seen
    network.sent["broker-1", "broker-0"] = 554
    stage.clock.advance(2_000.0)
    work.look()
    assert stage.seen, "what had been written before"


def test_an_administrator_asks_as_often_as_its_script_says() -> None:
    """528 were the ends of all partitions of eight topics, each asked for in four ways (seed 26500171)."""
    stage = Stage()
    stage.cluster.network = network = VirtualNetwork(stage.clock)
    stage.in_zookeeper(STATE)
    work = Work(stage.cluster, stage.history)
    network.sent["admin", "broker-0"] = network.sent["broker-0", "admin"] = 528
    stage.clock.advance(2_000.0)
    work.look()
    assert not stage.seen


def to_epoch(stage: Stage, epochs: tuple[int, int]) -> None:
    stage.leader.leader_epoch, stage.leader.partition_epoch = epochs


def obey(stage: Stage, epoch: int) -> None:
    stage.brokers[0].server.services.controller_requests.controller_epoch = epoch


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        (lambda stage: obey(stage, 2), "broker-0 obeys controller epoch 2 after 3"),
        (lambda stage: to_epoch(stage, (4, 9)), "goes from leader and partition epoch (5, 0) back to (4, 9)"),
        (lambda stage: to_epoch(stage, (5, -1)), "goes from leader and partition epoch (5, 0) back to (5, -1)"),
    ],
)
def test_an_epoch_that_falls(damage: Callable[[Stage], None], seen: str) -> None:
    stage = Stage()
    fences = Fences(stage.cluster, stage.history)
    fences.look()
    assert not stage.seen
    damage(stage)
    fences.look()
    assert seen in stage.seen


def test_a_deletion_that_is_told_before_a_follower_has_heard_of_it() -> None:
    stage = Stage()
    stage.write(make_batch(), make_batch())
    operations = Operations.__new__(Operations)
    operations._others = cast(Faults, SimpleNamespace(cluster=stage.cluster, history=stage.history))
    for replica in stage.replicas[:2]:
        replica.log.advance_log_start_offset(1)
    operations._judge_deletion(stage.leader, 1, [1, 1, 0])
    assert not stage.seen, "broker 2 has been started again meanwhile"
    operations._judge_deletion(stage.leader, 1, [1, 1, 1])
    assert "all before 1 is deleted, broker-2 begins at 0" in stage.seen
