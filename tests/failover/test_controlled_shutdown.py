"""SIGTERM: leaders move first, so that nobody waits for a session to expire, and the next start needs no recovery."""

import re
from datetime import datetime

import pytest

from odradek.testing.load import Load, Observer, check_nothing_lost
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster

pytestmark = pytest.mark.cluster

STOPPED = re.compile(r"^(\S+ \S+) INFO .* has stopped", re.MULTILINE)


def moves_of(cluster: UpCluster, topic: str) -> list[tuple[datetime, int, str, int]]:
    """(time, broker, what, partition) of all state-change logs, in the order of time."""
    of_the_topic = rf"broker (\d+) (leads|follows|stops).* {re.escape(topic)}-(\d+)\b"
    entry = re.compile(rf"^(\S+ \S+) INFO state.change.logger: {of_the_topic}")
    found = []
    for broker in range(3):
        for line in cluster.log_file(broker).read_text().splitlines():
            match = entry.match(line)
            if match:
                found.append((datetime.fromisoformat(match[1]), int(match[2]), match[3], int(match[4])))
    return sorted(found)


def ends(cluster: UpCluster, broker: int) -> list[datetime]:
    return [datetime.fromisoformat(at) for at in STOPPED.findall(cluster.log_file(broker).read_text())]


def test_leaders_move_first_and_the_restart_is_clean(cluster: UpCluster, observer: Observer) -> None:
    leader = observer.busiest()
    led = [partition for partition, broker in observer.leaders().items() if broker == leader]
    with Load(cluster.bootstrap, topic=observer.topic) as load:
        moved_before, ended_before = len(moves_of(cluster, observer.topic)), len(ends(cluster, leader))
        cluster.terminate(leader)
        wait_until(lambda: leader not in observer.leaders().values(), "new leaders")
        wait_until(lambda: len(ends(cluster, leader)) > ended_before, "the end of the broker")
        moves, ended = moves_of(cluster, observer.topic)[moved_before:], ends(cluster, leader)[-1]
        cluster.start(leader)
        wait_until(observer.in_sync, "all replicas in sync")
    check_nothing_lost(load, cluster.bootstrap)
    for partition in led:
        gave_up = [at for at, broker, what, of in moves if of == partition and broker == leader and what != "leads"]
        took_over = [at for at, broker, what, of in moves if of == partition and broker != leader and what == "leads"]
        assert gave_up and took_over, f"partition {partition}: {moves}"
        assert max(gave_up[0], took_over[0]) <= ended, f"partition {partition} moved when the broker had ended: {moves}"
    after = cluster.log_file(leader).read_text().rpartition("has stopped")[2]
    assert "after a clean shutdown" in after, after[:2000]
