"""Values that the administrative client takes and returns."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from odradek.client.errors import ConfigError
from odradek.client.metadata import Node
from odradek.client.records import TopicPartition


class ResourceType(IntEnum):
    """Kind of thing that a configuration belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class ConfigResource:
    """Topic, broker or broker's loggers to which a configuration belongs. The name of a broker is its id; an empty one
    stands for the defaults of all brokers.

    `configs` are settings for `alter_configs` and `reset_configs`. Two resources are equal when type and name are.
    """

    __slots__ = ("configs", "name", "type")

    def __init__(
        self,
        type: "ResourceType | str | int",
        name: str,
        configs: Mapping[str, str | None] | Iterable[str] | None = None,
    ) -> None:
        """Take a ResourceType, or its name or number. Raises ConfigError, TypeError."""
        try:
            self.type = ResourceType[type.upper()] if isinstance(type, str) else ResourceType(int(type))
        except (KeyError, ValueError):
            raise ConfigError(f"a configuration is of a TOPIC, BROKER or BROKER_LOGGER, not of {type!r}") from None
        if not isinstance(name, str):
            raise TypeError(f"the name of a resource must be a string, not {name!r}")
        self.name, self.configs = name, configs

    @property
    def resource_type(self) -> ResourceType:
        """Type of the resource (kafka-python's name)."""
        return self.type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigResource) and (self.type, self.name) == (other.type, other.name)

    def __hash__(self) -> int:
        return hash((self.type, self.name))

    def __repr__(self) -> str:
        return f"ConfigResource({self.type.name}, {self.name!r})"


class ConfigSource(IntEnum):
    """Source of a setting's value."""

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
    """A setting; `value` is None when the setting is sensitive."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...] = ()
    """Other places the value could come from, by precedence: names, values, sources; empty when not asked for."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 stands for the brokers' default.

    `replica_assignments` replaces both numbers: partition → broker ids, the preferred leader first. `configs`: topic
    settings by Kafka's names.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic, as the broker that has created it describes it; numbers that the broker does not say are -1."""

    name: str
    topic_id: bytes
    num_partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """Brokers, controller and id of a cluster; `controller_id` is -1 when there is no controller."""

    cluster_id: str | None
    controller_id: int
    nodes: list[Node]


class FeatureMetadata(NamedTuple):
    """Features: lowest and highest version that brokers support, and lowest and highest level that is finalized."""

    supported_features: dict[str, tuple[int, int]]
    finalized_features: dict[str, tuple[int, int]]
    finalized_features_epoch: int | None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group. `state` is empty when the broker is too old to say."""

    group_id: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members. State "Dead" means that there is no group of that name."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: list[GroupMember]
    coordinator: int
    authorized_operations: frozenset[int] | None = None
    """Operations that the caller may perform on the group, as numbers of ACLOperation; None when not asked for."""


class PartitionLag(NamedTuple):
    """Progress of a group in a partition. `committed` is None when the group has no offset there, `log_end_offset` when
    the partition has no leader now, and `lag` when either is None."""

    topic_partition: TopicPartition
    committed: int | None
    log_end_offset: int | None
    lag: int | None


class Reassignment(NamedTuple):
    """A reassignment under way."""

    topic_partition: TopicPartition
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class LogDirectoryReplica(NamedTuple):
    """A replica in a log directory. `is_future`: it is being moved there, and still lacks `offset_lag` offsets."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """An entry of a broker's `log.dirs`. The sizes of its volume are -1 when the broker does not say them."""

    path: str
    online: bool
    total_bytes: int
    usable_bytes: int
    replicas: list[LogDirectoryReplica]

    def only(self, partitions: Collection[TopicPartition] | None) -> "LogDirectory":
        """Return the directory with its replicas of these partitions only (None: all)."""
        kept = [one for one in self.replicas if partitions is None or one.topic_partition in partitions]
        return replace(self, replicas=kept)


class TopicPartitionReplica(NamedTuple):
    """A replica: a partition on a broker."""

    topic: str
    partition: int
    broker_id: int


class NewPartitions(NamedTuple):
    """Total number of partitions that a topic is to have, and the replicas of the new ones (None: the controller
    chooses)."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


# -- offsets and groups ------------------------------------------------------------------------------------------------


class OffsetSpec(IntEnum):
    """An offset by its meaning, for `list_partition_offsets` and `reset_group_offsets`."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


class OffsetTimestamp(int):
    """A time in milliseconds since 1970, which stands for the first offset at or after it."""


class MemberToRemove(NamedTuple):
    """A member of a group, by its id, or a static one by its group.instance.id."""

    member_id: str | None = None
    group_instance_id: str | None = None
    reason: str | None = None


# -- transactions ------------------------------------------------------------------------------------------------------


class TransactionListing(NamedTuple):
    """A transactional id. `state` is Kafka's: Empty, Ongoing, PrepareCommit, …"""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """The state of a transactional id; `transaction_start_time_ms` is -1 when no transaction is open."""

    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int
    topic_partitions: frozenset[TopicPartition]


class ProducerState(NamedTuple):
    """An active producer of a partition. A field is -1 where it has no value, as without an open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class AbortTransactionSpec(NamedTuple):
    """A transaction to abort in one partition. Coordinator epoch -1 says that an administrator asks, no coordinator."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = -1


class HangingTransaction(NamedTuple):
    """A transaction that is open for longer than is allowed, or known to no coordinator.

    In the second case `age_ms` is that of the last record, and `transactional_id` and `state` are empty and
    `coordinator_id` is -1, or they are those of the producer's next transaction.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    age_ms: int
    coordinator_id: int
    topic_partitions: tuple[TopicPartition, ...]
