"""Which replica a consumer is sent to, beside Kafka's RackAwareReplicaSelector."""

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.cluster.metadata_cache import Node
from odradek.broker.config import ConfigError, Given, build_config
from odradek.broker.replication.replica_selection import LEADER, RACK_AWARE, RackAwareReplicaSelector

RACKS = {0: "a", 1: "b", 2: "b", 3: "c"}


def chosen(rack: str, offset: int = 50, isr: tuple[int, ...] = (0, 1, 2, 3), dead: int = -1, **changes: Any) -> int:
    """Of a partition that broker 0 leads; followers have offsets 10 to 100 and were caught up at time 5."""
    followers = {n: SimpleNamespace(log_end=100, log_start=10, last_caught_up_ms=5.0) for n in (1, 2, 3)}
    for name, value in changes.items():
        number, _, attribute = name.removeprefix("of_").partition("_")
        setattr(followers[int(number)], attribute, value)

    def node(broker_id: int, listener: str) -> Node | None:
        there = listener == "PLAINTEXT" and broker_id != dead
        return Node(broker_id, "h", 9092, RACKS[broker_id]) if there else None

    partition: Any = SimpleNamespace(local_id=0, followers=followers, committed_isr=frozenset(isr))
    return RackAwareReplicaSelector(node).select(partition, rack, "PLAINTEXT", offset)


def test_the_leader_is_taken_where_it_stands_and_where_nobody_does() -> None:
    assert (chosen("a"), chosen("nowhere")) == (LEADER, LEADER)


def test_the_most_caught_up_in_the_rack_is_taken() -> None:
    assert (chosen("b"), chosen("c")) == (2, 3)
    assert chosen("b", of_1_log_end=101) == 1
    assert chosen("b", of_1_last_caught_up_ms=6.0) == 1


@pytest.mark.parametrize(
    "why", [{"isr": (0, 1, 2)}, {"dead": 3}, {"of_3_log_end": 49}, {"of_3_log_start": 51}], ids=lambda why: str(why)
)
def test_one_that_lags_or_is_gone_or_lacks_the_offset_is_not(why: dict[str, Any]) -> None:
    assert chosen("c", **why) == LEADER


def test_no_other_class_is_taken() -> None:
    given = {"zookeeper.connect": "z:2181", "broker.id": "0", "replica.selector.class": RACK_AWARE}

    def config(**changes: str) -> Any:
        return build_config([Given(n, v, "here") for n, v in {**given, **changes}.items()]).replica_selector_class

    assert config() == RACK_AWARE
    with pytest.raises(ConfigError, match="RackAwareReplicaSelector"):
        config(**{"replica.selector.class": "com.example.Nearest"})
