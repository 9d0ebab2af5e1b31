"""Containers that are killed, frozen and cut off under acks=all load from outside: nothing acknowledged is lost.

Each is back, and in sync, before the next. Nothing here knows more of the cluster than its ports and its containers.
"""

import subprocess
import sys
from collections.abc import Callable

import pytest

from odradek.testing.compose import BROKERS, ZOOKEEPERS, ComposeCluster
from odradek.testing.load import Load, Observer, check_nothing_lost
from odradek.testing.patience import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.docker


def under_load(cluster: ComposeCluster, observer: Observer) -> Load:
    return Load(cluster.bootstrap, topic=observer.topic)


@pytest.mark.parametrize("choose", [Observer.busiest, Observer.controller], ids=["leader", "controller"])
def test_a_broker_is_killed(cluster: ComposeCluster, observer: Observer, choose: Callable[[Observer], int]) -> None:
    with under_load(cluster, observer) as load:
        victim = choose(observer)
        wait_until(lambda: load.in_flight > 0, "requests in flight")
        cluster.kill(BROKERS[victim])
        wait_until(load.goes_on(), f"writes to every partition after broker {victim} was killed")
        wait_until(lambda: victim not in observer.leaders().values(), "whoever is asked knows the new leaders")
        assert cluster.container(BROKERS[victim]).status == "exited", "a killed broker stays dead"
        cluster.start(BROKERS[victim])
        wait_until(observer.in_sync, "all replicas in sync")
    check_nothing_lost(load, cluster.bootstrap)


def test_why_reads_the_journals_of_the_containers(cluster: ComposeCluster, observer: Observer) -> None:
    command = [sys.executable, "-m", "odradek", "why", observer.topic, "--bootstrap-server", cluster.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert "a new partition is led by its first live replica (NewPartition)" in done.stdout, done
    assert "it serves no journal" not in done.stdout


def test_the_leader_of_zookeeper_is_killed(cluster: ComposeCluster, observer: Observer) -> None:
    with under_load(cluster, observer) as load:
        [leader] = [name for name, mode in cluster.zookeeper_modes().items() if mode == "leader"]
        others = set(ZOOKEEPERS) - {leader}
        cluster.kill(leader)
        wait_until(lambda: sorted(cluster.zookeeper_modes().values()) == ["follower", "leader"], "another leader")
        assert set(cluster.zookeeper_modes()) == others
        wait_until(load.goes_on(), "writes to every partition")
        wait_until(observer.in_sync, "all brokers, should one have lost its session")
        later = Observer(cluster, f"{observer.topic}.later")
        later.create_topic()
        wait_until(later.in_sync, "a topic made after it")
        cluster.start(leader)
        wait_until(
            lambda: len(cluster.zookeeper_modes()) == len(ZOOKEEPERS),
            "three ZooKeeper nodes",
            lambda: "\n".join(map(cluster.last_words, ZOOKEEPERS)),
        )
        wait_until(observer.in_sync, "all replicas in sync")
    check_nothing_lost(load, cluster.bootstrap)


def test_a_leader_is_cut_off_and_returns(cluster: ComposeCluster, observer: Observer) -> None:
    """It lives on in its own world: what it still takes for its partitions must not count."""
    with under_load(cluster, observer) as load:
        victim = observer.busiest()
        wait_until(lambda: load.in_flight > 0, "requests in flight")
        cluster.disconnect(BROKERS[victim])
        wait_until(load.goes_on(), f"writes to every partition after broker {victim} was cut off")
        wait_until(lambda: victim not in observer.leaders().values(), "whoever is asked knows the new leaders")
        cluster.connect(BROKERS[victim])
        wait_until(observer.in_sync, "all replicas in sync")
    check_nothing_lost(load, cluster.bootstrap)


def test_a_leader_is_frozen_past_its_session(cluster: ComposeCluster, observer: Observer) -> None:
    """When it goes on it believes to lead for a moment: the epochs of the others know better."""
    with under_load(cluster, observer) as load:
        victim = observer.busiest()
        wait_until(lambda: load.in_flight > 0, "requests in flight")
        with cluster.frozen(BROKERS[victim]):
            # The metadata is asked of the others: the frozen one would not answer.
            wait_until(lambda: victim not in observer.leaders().values(), "other leaders")
        wait_until(load.goes_on(), "writes to every partition")
        wait_until(observer.in_sync, "all replicas in sync")
    check_nothing_lost(load, cluster.bootstrap)


def test_a_broker_is_stopped_in_order(cluster: ComposeCluster, observer: Observer) -> None:
    with under_load(cluster, observer) as load:
        victim = observer.busiest()
        assert cluster.stop(BROKERS[victim]) == 0
        assert "all leaders have moved" in cluster.container(BROKERS[victim]).logs().decode()
        cluster.start(BROKERS[victim])
        wait_until(load.goes_on(), "writes to every partition")
        wait_until(observer.in_sync, "all replicas in sync")
    check_nothing_lost(load, cluster.bootstrap)
