"""What the map is told of a look at the cluster."""

import time

from odradek.client.metadata import Node, PartitionInfo, TopicInfo
from odradek.console.snapshot import BrokerProcess, Snapshot, cluster_model
from odradek.protocol.errors import ErrorCode

ID, OTHER = b"1" * 16, b"2" * 16


def partition(number: int, leader: int, isr: tuple[int, ...], epoch: int = 3, topic: str = "flights") -> PartitionInfo:
    return PartitionInfo(topic, number, leader, epoch, (0, 1, 2), isr, (), ErrorCode.NONE)


def snapshot(*partitions: PartitionInfo, brokers: tuple[int, ...] = (0, 1, 2), topic_id: bytes = ID) -> Snapshot:
    nodes = {number: Node(number, "host", 9092 + number, "rack-a" if number else None) for number in brokers}
    topics = {"flights": TopicInfo("flights", topic_id, False, partitions)} if partitions else {}
    return Snapshot(1_000, "cluster", 0, nodes, topics)


def test_a_whole_cluster() -> None:
    model = cluster_model(snapshot(partition(0, 0, (0, 1, 2)), partition(1, 1, (0, 1, 2))))
    assert model["topics"] == [
        {
            "name": "flights",
            "internal": False,
            "partitions": [[0, 3, (0, 1, 2), (0, 1, 2)], [1, 3, (0, 1, 2), (0, 1, 2)]],
        }
    ]
    assert model["figures"] == {"partitions": 2, "under_replicated": 0, "leaderless": 0, "not_preferred": 1}
    assert [(one["id"], one["leads"], one["replicas"], one["lagging"], one["rack"]) for one in model["brokers"]] == [
        (0, 1, 2, 0, None),
        (1, 1, 2, 0, "rack-a"),
        (2, 0, 2, 0, "rack-a"),
    ]


def test_a_broker_that_is_away_is_known_by_its_replicas() -> None:
    model = cluster_model(snapshot(partition(0, 1, (1,)), brokers=(0, 1)))
    away = model["brokers"][2]
    assert (away["registered"], away["address"], away["replicas"], away["lagging"]) == (False, None, 1, 1)
    assert model["figures"]["under_replicated"] == 1 and model["figures"]["leaderless"] == 0


def test_a_broker_that_an_isr_names_twice_is_one_replica_in_sync() -> None:
    model = cluster_model(snapshot(partition(0, 1, (1, 1, 2))))
    assert model["figures"]["under_replicated"] == 1


def test_a_leader_that_is_not_registered_leads_nothing() -> None:
    model = cluster_model(snapshot(partition(0, 2, (2,)), partition(1, -1, (2,)), brokers=(0, 1)))
    assert model["figures"]["leaderless"] == 2


def test_processes_of_this_machine_are_beside_what_the_cluster_says() -> None:
    model = cluster_model(snapshot(), [BrokerProcess(7, 4711, "was killed by SIGKILL", ["start"])])
    assert model["brokers"][-1]["process"] == {"pid": 4711, "state": "was killed by SIGKILL", "actions": ["start"]}
    assert model["brokers"][0]["process"] is None


def test_an_older_leader_epoch_does_not_send_the_page_back() -> None:
    newer = snapshot(partition(0, 1, (1, 2), epoch=4), partition(1, 1, (1,), epoch=2))
    told_by_one_cut_off = snapshot(partition(0, 0, (0, 1, 2), epoch=3), partition(1, 2, (2,), epoch=5))
    merged = told_by_one_cut_off.taken_with(newer).topics["flights"].partitions
    assert [(one.leader, one.leader_epoch) for one in merged] == [(1, 4), (2, 5)]


def test_a_topic_made_anew_begins_anew() -> None:
    before = snapshot(partition(0, 1, (1, 2), epoch=40))
    after = snapshot(partition(0, 0, (0, 1), epoch=0), topic_id=OTHER)
    assert after.taken_with(before).topics == after.topics


def test_ten_thousand_partitions_take_a_moment() -> None:
    topics = {
        f"topic-{number}": TopicInfo(
            f"topic-{number}",
            ID,
            False,
            tuple(partition(one, one % 3, (0, 1, 2), topic=f"topic-{number}") for one in range(100)),
        )
        for number in range(100)
    }
    seen = Snapshot(0, "cluster", 0, {number: Node(number, "host", 9092) for number in range(3)}, topics)
    began = time.thread_time()
    assert cluster_model(seen)["figures"]["partitions"] == 10_000
    assert time.thread_time() - began < 5.0, "a fiftieth of that on an idle machine"
