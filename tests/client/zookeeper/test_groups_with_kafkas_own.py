"""One group of our connectors and of Kafka 1.1's ZookeeperConsumerConnector, on a real cluster."""

from typing import Any

import pytest

from odradek.testing.patience import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.cluster]

Group = Any
"""conftest.ReadingGroup."""


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_mixed_group(group: Group, strategy: str, kafka_1_1: None) -> None:
    """Members of both kinds join, leave and die; in peace nothing is lost and nothing repeated.

    What ZooKeeper tells of the dead is the same for each strategy: they die in one.
    """
    java, ours = group.start(strategy, java=True), group.start(strategy)
    wait_until(lambda: java.ready and ours.ready, "two members")
    group.send_and_wait(180, "by both")
    others = [group.start(strategy, java=True), group.start(strategy)]
    wait_until(lambda: all(one.ready for one in others), "four members")
    group.send_and_wait(180, "by four")
    assert group.repeated == 0
    java.end()
    group.send_and_wait(180, "Kafka's has left")
    ours.end()
    group.send_and_wait(180, "ours has left")
    assert group.repeated == 0
    group.check_order()
    if strategy != "range":
        return
    others[0].kill()
    group.send_and_wait(180, "Kafka's was killed: ours has everything")
    last = group.start(strategy, java=True)
    wait_until(lambda: last.ready, "Kafka's again")
    others[1].kill()
    group.send_and_wait(180, "ours was killed: Kafka's has everything")
    group.check_order()
