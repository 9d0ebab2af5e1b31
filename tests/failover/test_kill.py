"""SIGKILL of brokers under acks=all load: nothing acknowledged is lost, moved, repeated or out of order."""

import pytest

from odradek.testing.load import Load, Observer, check_nothing_lost
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster

pytestmark = pytest.mark.cluster


def test_one_after_another(cluster: UpCluster, observer: Observer) -> None:
    """The busiest broker, the controller, and each once more; the last is one that `up` did not start."""
    with Load(cluster.bootstrap, topic=observer.topic) as load:
        for choose in (observer.busiest, observer.controller, observer.busiest, observer.controller):
            wait_until(observer.in_sync, "all replicas in sync")
            victim = choose()
            wait_until(lambda: load.in_flight > 0, "requests in flight")
            cluster.kill(victim)
            wait_until(load.goes_on(), f"writes to every partition after broker {victim} was killed")
            cluster.start(victim)
        wait_until(observer.in_sync, "all replicas in sync")
    check_nothing_lost(load, cluster.bootstrap)


def test_all_at_once(cluster: UpCluster, observer: Observer) -> None:
    """What was acknowledged is in the page cache of every broker: it survives that all processes are killed."""
    with Load(cluster.bootstrap, topic=observer.topic) as load:
        wait_until(lambda: len(load.acknowledged) > 500, "some load")
        for broker in range(3):
            cluster.kill(broker)
        for broker in range(3):
            cluster.start(broker)
        wait_until(load.goes_on(), "writes after all brokers were killed")
        wait_until(observer.in_sync, "all replicas in sync")
    check_nothing_lost(load, cluster.bootstrap)
