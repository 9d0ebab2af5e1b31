"""SIGTERM: leaders move first, so that nobody waits for a session to expire, and the next start needs no recovery."""

import re
from datetime import datetime

import pytest

from odradek.testing.load import Load, Observer, check_nothing_lost
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster

pytestmark = pytest.mark.cluster

STOPPED = re.compile(r"^(\S+ \S+) INFO .* has stopped", re.MULTILINE)


def elections_of(cluster: UpCluster, topic: str) -> list[tuple[int, int, int]]:
    """(when ZooKeeper took it in ms since 1970, partition, leader given up) of each move of a leader."""
    entry = re.compile(
        rf"^\S+ \S+ INFO state.change.logger: (\d+) controller {re.escape(topic)}-(\d+) leader (\d+) → \d"
    )
    logs = [cluster.log_file(broker).read_text().splitlines() for broker in range(3)]
    found = (entry.match(line) for log in logs for line in log)
    return sorted((int(one[1]), int(one[2]), int(one[3])) for one in found if one)


def ends(cluster: UpCluster, broker: int) -> list[datetime]:
    return [datetime.fromisoformat(at) for at in STOPPED.findall(cluster.log_file(broker).read_text())]


def test_leaders_move_first_and_the_restart_is_clean(cluster: UpCluster, observer: Observer) -> None:
    leader = observer.busiest()
    led = [partition for partition, broker in observer.leaders().items() if broker == leader]
    with Load(cluster.bootstrap, topic=observer.topic) as load:
        elected_before, ended_before = len(elections_of(cluster, observer.topic)), len(ends(cluster, leader))
        cluster.terminate(leader)
        wait_until(lambda: leader not in observer.leaders().values(), "new leaders")
        wait_until(lambda: len(ends(cluster, leader)) > ended_before, "the end of the broker")
        elected, ended = elections_of(cluster, observer.topic)[elected_before:], ends(cluster, leader)[-1]
        cluster.start(leader)
        wait_until(observer.in_sync, "all replicas in sync")
    check_nothing_lost(load, cluster.bootstrap)
    # Others may hear of it later: the broker ends when the controller has answered, not when they have.
    given_up = {partition: at for at, partition, before in reversed(elected) if before == leader}
    assert given_up.keys() == set(led), elected
    assert max(given_up.values()) <= ended.timestamp() * 1000, f"moved when the broker had ended: {elected}"
    after = cluster.log_file(leader).read_text().rpartition("has stopped")[2]
    assert "after a clean shutdown" in after, after[:2000]
