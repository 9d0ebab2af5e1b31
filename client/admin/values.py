"""What the administrative client takes and gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from odradek.client.metadata import Node
from odradek.client.records import TopicPartition


class ResourceType(IntEnum):
    """What a configuration belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class ConfigResource(NamedTuple):
    """One owner of a configuration. A broker's name is its id; empty for the default of all brokers."""

    type: ResourceType
    name: str


class ConfigSource(IntEnum):
    """Where a value comes from."""

    UNKNOWN = -1
    OTHER = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting; `value` is None when it is sensitive."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 leaves the number to the broker; `replica_assignments` replaces both numbers."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What a broker says of a topic it has created; the numbers are -1 when it does not say."""

    name: str
    topic_id: bytes
    num_partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster; `controller_id` is -1 when there is none."""

    cluster_id: str | None
    controller_id: int
    nodes: list[Node]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group. `state` is empty when the broker is too old to say."""

    group_id: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group and its members. State "Dead" means that there is none of that name."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: list[GroupMember]
    coordinator: int


class PartitionLag(NamedTuple):
    """How far a group is in a partition. `committed` and `lag` are None when it has no offset there."""

    topic_partition: TopicPartition
    committed: int | None
    log_end_offset: int
    lag: int | None


class Reassignment(NamedTuple):
    """A reassignment under way."""

    topic_partition: TopicPartition
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class LogDirectoryReplica(NamedTuple):
    """A replica in a log directory. `is_future`: it is on its way into it, and `offset_lag` is what is missing."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """One entry of a broker's `log.dirs`. Sizes of the volume are -1 when the broker does not say them."""

    path: str
    online: bool
    total_bytes: int
    usable_bytes: int
    replicas: list[LogDirectoryReplica]
