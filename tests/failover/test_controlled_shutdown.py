"""SIGTERM: leaders move first, so that nobody waits for a session to expire, and the next start needs no recovery."""

import re
from datetime import datetime

import pytest

from odradek.testing.load import TOPIC, Load, Observer, check_nothing_lost
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster

pytestmark = pytest.mark.cluster

ENTRY = re.compile(rf"^(\S+ \S+) INFO state.change: broker (\d+) (leads|follows|stops).* {TOPIC}-(\d+)\b")


def entries(cluster: UpCluster) -> list[tuple[datetime, int, str, int]]:
    """(time, broker, what, partition) of all state-change logs, in the order of time."""
    found = []
    for broker in range(3):
        for line in cluster.log_file(broker).read_text().splitlines():
            match = ENTRY.match(line)
            if match:
                found.append((datetime.fromisoformat(match[1]), int(match[2]), match[3], int(match[4])))
    return sorted(found)


def test_leaders_move_first_and_the_restart_is_clean(cluster: UpCluster, observer: Observer) -> None:
    leader = observer.busiest()
    led = [partition for partition, broker in observer.leaders().items() if broker == leader]
    with Load(cluster.bootstrap) as load:
        before = len(entries(cluster))
        cluster.terminate(leader)
        wait_until(lambda: leader not in observer.leaders().values(), "new leaders")
        wait_until(lambda: "has stopped" in cluster.log_file(leader).read_text(), "the end of the broker")
        moves = entries(cluster)[before:]
        cluster.start(leader)
        wait_until(observer.in_sync, "all replicas in sync")
    check_nothing_lost(load, cluster.bootstrap)
    for partition in led:
        gave_up = [at for at, broker, what, of in moves if of == partition and broker == leader and what != "leads"]
        took_over = [at for at, broker, what, of in moves if of == partition and broker != leader and what == "leads"]
        assert gave_up and took_over, f"partition {partition}: {moves}"
        apart = abs((took_over[0] - gave_up[0]).total_seconds())
        assert apart <= 0.1, f"partition {partition} had no leader for {apart * 1000:.0f} ms"
    after = cluster.log_file(leader).read_text().rpartition("has stopped")[2]
    assert "after a clean shutdown" in after, after[:2000]
