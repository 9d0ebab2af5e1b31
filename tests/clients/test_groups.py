"""Two members share a group; when one leaves, the other takes over where it stopped."""

from collections.abc import Callable

import pytest

from odradek.testing.foreign.interface import Client
from odradek.testing.patience import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.cluster

PARTITIONS = {0, 1, 2, 3}
FIRST, SECOND = 40, 20


@pytest.fixture
def write(confluent: Client) -> Callable[[str, int], None]:
    """Writes a number of records, spread over all partitions."""
    from confluent_kafka import Producer

    def write_records(topic: str, count: int) -> None:
        producer = Producer(confluent._settings)  # type: ignore[attr-defined]
        for number in range(count):
            producer.produce(topic, str(number), partition=number % len(PARTITIONS))
        assert producer.flush(PATIENCE_SECONDS) == 0

    return write_records


def test_share_and_hand_over(client: Client, new_topic: Callable[..., str], write: Callable[[str, int], None]) -> None:
    """Every record goes to one member, once: the one that leaves commits what it has got."""
    topic = new_topic(partitions=len(PARTITIONS))
    one, other = client.join(f"{topic}-group", topic), client.join(f"{topic}-group", topic)

    def shared() -> bool:
        mine, theirs = one.assignment(), other.assignment()
        return len(mine) == len(theirs) == 2 and mine | theirs == PARTITIONS

    try:
        wait_until(shared, "two partitions each")
        write(topic, FIRST)
        wait_until(lambda: len(one.received()) + len(other.received()) >= FIRST, "all records")
        assert one.received() and other.received(), "both take part"
        other.close()
        wait_until(lambda: one.assignment() == PARTITIONS, "all partitions with the one that stays")
        write(topic, SECOND)
        wait_until(lambda: len(one.received()) + len(other.received()) >= FIRST + SECOND, "the records after that")
    finally:
        other.close()
        one.close()
    received = one.received() + other.received()
    per_partition = (FIRST + SECOND) // len(PARTITIONS)
    assert sorted(received) == [(p, offset) for p in sorted(PARTITIONS) for offset in range(per_partition)]


@pytest.mark.parametrize("leaver", ["confluent", "kcat", "java"])
def test_members_of_different_clients(
    leaver: str,
    get_client: Callable[[str], Client],
    new_topic: Callable[..., str],
    write: Callable[[str, int], None],
    admin_groups: Callable[[str], str],
) -> None:
    """What a group of one client has committed is where a member of another client goes on."""
    topic = new_topic(partitions=len(PARTITIONS))
    group = f"{topic}-group"
    write(topic, FIRST)
    before = get_client(leaver).join(group, topic)
    wait_until(lambda: len(before.received()) == FIRST, f"all records with {leaver}")
    before.close()
    wait_until(lambda: admin_groups(group) == "EMPTY", "an empty group")
    write(topic, SECOND)
    after = get_client("kafka-python").join(group, topic)
    wait_until(lambda: len(after.received()) >= SECOND, "the rest with another client")
    after.close()
    assert {offset for _, offset in after.received()} == set(range(10, 15)), "it began where the first had stopped"
