"""A broker of Kafka and two of ours in one cluster: each make leads, follows, and is once the controller."""

from collections.abc import Callable

import pytest

from odradek.testing.foreign.mixed_admin import check_reassignment, check_topics
from odradek.testing.foreign.mixed_cluster import MixedCluster
from odradek.testing.foreign.mixed_load import MixedLoad
from odradek.testing.foreign.stage import Stage

pytestmark = pytest.mark.cluster

KAFKA, OURS, OURS_TOO = 0, 1, 2
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "replica.lag.time.max.ms": "1000",
    "replica.fetch.wait.max.ms": "100",
    "zookeeper.session.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
}


ATTEMPTS = 3
"""On a busy machine a session may expire where the ISR was to shrink before that."""


@pytest.mark.parametrize(("first", "second"), [(KAFKA, OURS), (OURS, KAFKA)], ids=["kafka-first", "odradek-first"])
def test_one_cluster_of_both(new_stage: Callable[..., Stage], first: int, second: int) -> None:
    stages = {broker: new_stage(broker, **SETTINGS) for broker in (KAFKA, OURS, OURS_TOO)}
    cluster = MixedCluster(stages, frozenset({KAFKA}))
    cluster.start(first, second, OURS_TOO)
    cluster.wait_controller(first)
    cluster.create_topics()
    cluster.wait_in_sync()
    load = MixedLoad(cluster)
    load.write()
    load.check()
    check_topics(cluster, "passing")
    check_reassignment(cluster, "moving", first, second)

    # The leader that is not the controller has the ISR shrunk, and grown again, by the other make.
    assert any(shrinks_under_lag(cluster, load, second, OURS_TOO) for _ in range(ATTEMPTS))
    load.write()

    # A controlled shutdown, then the controller dies with records of its own: one broker is left, of the other make.
    cluster.stop(OURS_TOO)
    cluster.wait(lambda told: told[f"by-{OURS_TOO}"].leader in {first, second}, "a new leader")
    load.write()
    load.diverge(first, second)
    load.write()
    load.check()

    # Both come back, cut off what is not theirs, get what they have missed, and lead again.
    cluster.start(first, OURS_TOO)
    cluster.wait_in_sync()
    cluster.elect_preferred()
    load.write()
    load.check()
    check_topics(cluster, "passing-again")
    check_reassignment(cluster, "moving-again", first, second)

    cluster.stop(first)
    cluster.wait(lambda told: told[f"by-{first}"].leader in {second, OURS_TOO}, "a new leader")
    load.write()
    load.check()
    cluster.start(first)
    cluster.wait_in_sync()
    for broker in (first, OURS_TOO, second):
        cluster.stop(broker)
    load.check_files()
    cluster.check_logs()


def shrinks_under_lag(cluster: MixedCluster, load: MixedLoad, leader: int, follower: int) -> bool:
    """A follower is paused, the leader has it taken out of the ISR: whether that was so before its session expired."""
    others = frozenset(cluster.lives) - {follower}
    cluster.pause(follower)
    load.write(f"by-{leader}")
    cluster.wait(lambda told: told[f"by-{leader}"].isr == others, "a smaller ISR", of=sorted(others))
    lasted = cluster.seen_by(leader)[f"by-{follower}"].leader == follower
    cluster.resume(follower)
    cluster.wait_in_sync()
    cluster.elect_preferred()
    return lasted
