"""/brokers/topics/[topic]: which brokers hold each partition. …/partitions/[partition]/state: who leads it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.zk_schema.znodes.json_data import (
    Fields,
    JsonObject,
    dump,
    number_named,
    uuid_bytes,
    uuid_text,
)

TOPICS_PATH = "/brokers/topics"

NO_LEADER = -1
LEADER_RECOVERED = 0
LEADER_RECOVERING = 1
"""State of a leader that was elected uncleanly and has not finished its recovery."""

PartitionKey = tuple[str, int]
"""Topic and index of a partition."""


def topic_path(topic: str) -> str:
    return f"{TOPICS_PATH}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{topic_path(topic)}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{partitions_path(topic)}/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{partition_path(topic, partition)}/state"


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """The brokers of one partition, the preferred leader first.

    During a reassignment `replicas` holds old and new ones, and the other two say which are which.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """Assignment of a topic's partitions. A topic exists when this znode does.

    Version 1 (0.8): {"version":1,"partitions":{"0":[0,1],"1":[1,2]}}
    Version 2 (2.4): … "adding_replicas":{"0":[2]},"removing_replicas":{"0":[1]}
    Version 3 (2.8): … "topic_id":"Kvp0wWMvQTGnH6p8NlEmgA"

    Written in version 3, without `topic_id` when there is none (a topic older than 2.8 whose controller gave it no id).
    """

    partitions: Mapping[int, PartitionReplicas] = field(default_factory=dict)
    topic_id: bytes | None = None
    """Id of the topic, 16 bytes."""

    def encode(self) -> bytes:
        topic_id = {} if self.topic_id is None else {"topic_id": uuid_text(self.topic_id)}
        partitions = sorted(self.partitions.items())
        return dump(
            {
                "removing_replicas": {str(number): list(held.removing) for number, held in partitions if held.removing},
                "partitions": {str(number): list(held.replicas) for number, held in partitions},
                **topic_id,
                "adding_replicas": {str(number): list(held.adding) for number, held in partitions if held.adding},
                "version": 3,
            }
        )

    @classmethod
    def decode(cls, topic: str, data: bytes) -> "TopicAssignment":
        """Decode a topic's assignment. Raises BadZnode."""
        fields = Fields(topic_path(topic), data)
        adding, removing = fields.mapping("adding_replicas"), fields.mapping("removing_replicas")
        partitions: dict[int, PartitionReplicas] = {}
        for name, replicas in fields.mapping("partitions").items():
            number = number_named(name)
            if number is None:
                raise fields.bad(f"{name[:40]!r} is not a partition")
            partitions[number] = PartitionReplicas(
                fields.integers(replicas, "replicas"),
                fields.integers(adding.get(name, []), "adding_replicas"),
                fields.integers(removing.get(name, []), "removing_replicas"),
            )
        return cls(dict(sorted(partitions.items())), _decode_topic_id(fields))


def _decode_topic_id(fields: Fields) -> bytes | None:
    if "topic_id" not in fields:
        return None
    try:
        return uuid_bytes(fields.text("topic_id"))
    except ValueError as error:
        raise fields.bad("topic_id is not a UUID") from error


@dataclass(frozen=True, slots=True)
class PartitionState:
    """State of a partition: its leader and ISR. The znode's own version is the partition epoch.

    Version 1: {"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0,1,2]},
    with "leader_recovery_state":1 (3.2) while the leader recovers from an unclean election.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = LEADER_RECOVERED

    def encode(self) -> bytes:
        fields: JsonObject = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": list(self.isr),
        }
        if self.leader_recovery_state != LEADER_RECOVERED:
            fields["leader_recovery_state"] = self.leader_recovery_state
        return dump(fields)

    @classmethod
    def decode(cls, topic: str, partition: int, data: bytes) -> "PartitionState":
        """Decode a partition's state. Raises BadZnode."""
        fields = Fields(state_path(topic, partition), data)
        return cls(
            leader=fields.integer("leader"),
            leader_epoch=fields.integer("leader_epoch"),
            isr=fields.integers(fields.array("isr"), "isr"),
            controller_epoch=fields.integer("controller_epoch"),
            leader_recovery_state=fields.integer("leader_recovery_state", LEADER_RECOVERED),
        )
