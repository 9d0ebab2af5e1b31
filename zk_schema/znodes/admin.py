"""/admin: orders to the controller. It carries out each, and then deletes its znode."""

from collections.abc import Iterable, Mapping

from odradek.zk_schema.znodes.json_data import Fields, dump
from odradek.zk_schema.znodes.topics import PartitionKey

DELETE_TOPICS_PATH = "/admin/delete_topics"
REASSIGN_PARTITIONS_PATH = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION_PATH = "/admin/preferred_replica_election"


def delete_topic_path(topic: str) -> str:
    """Return the path of the empty znode that says that the topic is to be deleted."""
    return f"{DELETE_TOPICS_PATH}/{topic}"


def encode_reassignment(replicas: Mapping[PartitionKey, Iterable[int]]) -> bytes:
    """Encode as version 1: {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}."""
    partitions = [
        {"topic": topic, "partition": partition, "replicas": list(target)}
        for (topic, partition), target in replicas.items()
    ]
    return dump({"version": 1, "partitions": partitions})


def decode_reassignment(data: bytes) -> dict[PartitionKey, tuple[int, ...]]:
    """Decode the replicas wanted, by partition. Raises BadZnode."""
    fields = Fields(REASSIGN_PARTITIONS_PATH, data)
    return {
        (item.text("topic"), item.integer("partition")): item.integers(item.array("replicas"), "replicas")
        for item in fields.objects("partitions")
    }


def decode_preferred_replica_election(data: bytes) -> set[PartitionKey]:
    """Decode version 1: {"version":1,"partitions":[{"topic":"t","partition":0}]}. Raises BadZnode."""
    fields = Fields(PREFERRED_REPLICA_ELECTION_PATH, data)
    return {(item.text("topic"), item.integer("partition")) for item in fields.objects("partitions")}
