"""Our consumer in one group with those of others, under each assignor that they have in common."""

from collections.abc import Callable, Sequence

import pytest

from odradek import KafkaConsumer, KafkaProducer
from odradek.testing import Cluster
from odradek.testing.foreign.interface import Client, Member, MemberOnThread
from odradek.testing.patience import wait_until

pytestmark = pytest.mark.cluster

PARTITIONS = set(range(6))
STICKY = {"sticky", "cooperative-sticky"}
COUNT = 60


class OwnMember(MemberOnThread):
    """Our blocking consumer, on a thread."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str) -> None:
        super().__init__()
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            partition_assignment_strategy=[strategy],
        )
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for records in self._consumer.poll(100).values():
                self._received += [(record.partition, record.offset) for record in records]
        self._consumer.close()

    def assignment(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}


def balanced(members: Sequence[Member]) -> list[set[int]]:
    """What each member has, once they have all partitions, each its share."""
    found: list[set[int]] = []

    def shared() -> bool:
        found[:] = [member.assignment() for member in members]
        share = len(PARTITIONS) // len(members)
        return all(len(held) == share for held in found) and set().union(*found) == PARTITIONS

    wait_until(shared, f"a share for each of {len(members)}", lambda: str(found))
    return list(found)


@pytest.mark.parametrize(
    ("strategy", "other"),
    [
        ("range", "confluent"),
        ("roundrobin", "kafka-python"),
        ("sticky", "java"),
        ("cooperative-sticky", "confluent"),
        ("cooperative-sticky", "java"),
    ],
)
def test_members_share_and_keep_what_they_can(
    cluster: Cluster,
    get_client: Callable[[str], Client],
    new_topic: Callable[..., str],
    strategy: str,
    other: str,
) -> None:
    """The other's member leads first, and when it has left, ours, which came before the third."""
    topic = new_topic(partitions=len(PARTITIONS))
    client, group = get_client(other), f"{topic}-group"
    members: list[Member] = [client.join(group, topic, strategy)]
    try:
        wait_until(lambda: members[0].assignment() == PARTITIONS, "everything with the first")
        members.append(OwnMember(cluster.bootstrap, group, topic, strategy))
        two = balanced(members)
        members.append(client.join(group, topic, strategy))
        three = balanced(members)
        if strategy in STICKY:
            assert three[0] < two[0] and three[1] < two[1], "what moved went to the new member alone"
        members[0].close()
        left = balanced(members[1:])
        if strategy in STICKY:
            assert three[1] < left[0] and three[2] < left[1], "who stays keeps all, whoever leads"
        with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            for number in range(COUNT):
                producer.send(topic, b"%d" % number, partition=number % len(PARTITIONS))
        wait_until(lambda: sum(len(one.received()) for one in members[1:]) >= COUNT, "all records")
    finally:
        for member in members:
            member.close()
    assert sorted(pair for one in members[1:] for pair in one.received()) == [
        (partition, offset) for partition in sorted(PARTITIONS) for offset in range(COUNT // len(PARTITIONS))
    ]
