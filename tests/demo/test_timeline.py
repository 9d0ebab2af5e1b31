"""What the logs tell, and the timeline that comes of it."""

from dataclasses import replace
from datetime import datetime

import pytest

from odradek.demo.entries import (
    BrokersChanged,
    ControllerElected,
    Entry,
    LeadershipChanged,
    Registered,
    TookOver,
    Truncated,
    entries,
)
from odradek.demo.timeline import Incomplete, Kill, election_times, named, timeline

AT = datetime.fromisoformat("2025-03-01 13:44:17.383").timestamp() * 1000


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "INFO odradek.controller.broker_changes: brokers: new [], dead [1], bounced [], updated []",
            BrokersChanged(AT, dead=(1,), new=()),
        ),
        ("INFO odradek.controller.controller: broker 0 is the controller, epoch 2", ControllerElected(AT, 0, 2)),
        (
            "INFO state.change.logger: 1795182257383 controller flights-2 leader 1 → 2, ISR {0,1,2} → {0,2}, "
            "leader epoch 0 → 1, partition epoch 1, controller epoch 1: so it is (OfflinePartition)",
            LeadershipChanged(1795182257383.0, 2, 1, 2, (0, 2)),
        ),
        (
            "INFO state.change.logger: 1795182257383 controller flights-2 leader none → 1, ISR {0,1,2}, "
            "leader epoch 0, partition epoch 0, controller epoch 1: so it is (NewPartition)",
            LeadershipChanged(1795182257383.0, 2, -1, 1, (0, 1, 2)),
        ),
        (
            "INFO state.change.logger: broker 2 leads flights-0 from offset 2850 on, leader epoch 1, ISR {2,0}",
            TookOver(AT, 2, 0),
        ),
        ("INFO odradek.broker.cluster.session: broker 1 is registered, epoch 42", Registered(AT, 1)),
        (
            "INFO odradek.broker.replication.fetcher: <flights-3 follower of 0 epoch 1 isr [0, 2]>: our log leaves "
            "the leader's at epoch 0 offset 7482: truncating from 7500 to 7482",
            Truncated(AT, 3, 7500, 7482),
        ),
    ],
)
def test_lines_that_matter(said: str, expected: Entry) -> None:
    assert list(entries(f"2025-03-01 13:44:17.383 {said}\n")) == [expected]


@pytest.mark.parametrize(
    "line",
    [
        "2025-03-01 13:44:17.383 INFO state.change.logger: broker 2 leads other-0 from offset 0 on, leader epoch 1",
        "2025-03-01 13:44:17.383 INFO state.change.logger: broker 0 follows 2 for flights-0 from offset 2850 on",
        "Traceback (most recent call last):",
        "",
    ],
)
def test_lines_that_do_not_matter(line: str) -> None:
    assert list(entries(line)) == []


KILL = Kill(at_ms=1000.0, broker=1, led=(2, 5), requests=3, was_controller=False, started_ms=6000.0)
AROUND = {2: (995.0, 4050.0), 5: (1002.0, 4060.0)}
LOGGED: list[Entry] = [
    LeadershipChanged(10.0, 2, -1, 1, (0, 1, 2)),
    TookOver(12.0, 1, 2),
    Registered(5.0, 1),
    BrokersChanged(4000.0, dead=(1,), new=()),
    LeadershipChanged(4010.0, 2, 1, 0, (0, 2)),
    LeadershipChanged(4012.0, 5, 1, 2, (0, 2)),
    LeadershipChanged(4013.0, 0, 0, 0, (0, 2)),
    TookOver(4020.0, 0, 2),
    TookOver(4025.0, 2, 5),
    Registered(6500.0, 1),
    Truncated(6510.0, 2, 110, 100),
    LeadershipChanged(6600.0, 2, 0, 0, (0, 1, 2)),
    LeadershipChanged(6700.0, 5, 2, 2, (0, 1, 2)),
]


def test_expiry_election_and_first_write_are_told_apart() -> None:
    moments = [(m.at_ms, m.took_ms, m.what) for m in timeline(KILL, LOGGED, AROUND, under_way=7)]
    assert moments == [
        (0.0, None, "SIGKILL broker 1"),
        (2.0, None, "its last acknowledgement"),
        (3000.0, 3000.0, "ZooKeeper expires its session"),
        (3012.0, 12.0, "the controller elects leaders"),
        (3025.0, 13.0, "the new leaders serve"),
        (3050.0, 25.0, "first write acknowledged"),
        (5000.0, None, "broker 1 is started again"),
        (5500.0, 500.0, "it is registered"),
        (5510.0, 10.0, "it drops what only it had"),
        (5700.0, 200.0, "it is in sync again"),
    ]


def test_details_say_who_leads_what() -> None:
    details = {moment.what: moment.detail for moment in timeline(KILL, LOGGED, AROUND, under_way=7)}
    assert details["SIGKILL broker 1"] == "it led partitions 2, 5"
    assert details["its last acknowledgement"] == "3 requests open, 7 records under way"
    assert details["the controller elects leaders"] == "2 → broker 0, 5 → broker 2"
    assert details["first write acknowledged"] == "partition 2: 3.050 s, 5: 3.060 s"


def test_a_dead_controller_is_replaced_before_leaders_are_elected() -> None:
    logged = [entry for entry in LOGGED if not isinstance(entry, BrokersChanged)]
    moments = timeline(replace(KILL, was_controller=True), [*logged, ControllerElected(4005.0, 2, 2)], AROUND, 0)
    elected = [(m.at_ms, m.what) for m in moments if 2500 < m.at_ms < 3020]
    assert elected == [
        (3005.0, "ZooKeeper expires its session"),
        (3005.0, "broker 2 becomes controller"),
        (3012.0, "the controller elects leaders"),
    ]


@pytest.mark.parametrize(
    "missing",
    [
        BrokersChanged(4000.0, dead=(1,), new=()),
        LeadershipChanged(4012.0, 5, 1, 2, (0, 2)),
        Registered(6500.0, 1),
    ],
)
def test_logs_that_do_not_tell_everything_are_no_timeline(missing: Entry) -> None:
    with pytest.raises(Incomplete):
        timeline(KILL, [entry for entry in LOGGED if entry != missing], AROUND, 0)


def test_election_times_are_of_the_first_election_after_the_kill() -> None:
    assert election_times(KILL, [*LOGGED, LeadershipChanged(9000.0, 2, 1, 0, (0,))]) == {2: 4010.0, 5: 4012.0}


def test_names() -> None:
    assert [named([]), named([3]), named([5, 2])] == ["nothing", "partition 3", "partitions 2, 5"]
