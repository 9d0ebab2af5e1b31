"""KafkaAdminClient: the blocking form of the administrative client."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from odradek.client.admin import configs
from odradek.client.admin.values import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    LogDirectory,
    NewTopic,
    PartitionLag,
    Reassignment,
)
from odradek.client.aio.admin import Admin
from odradek.client.blocking import Blocking
from odradek.client.metadata import TopicInfo
from odradek.client.records import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition


class KafkaAdminClient(Blocking[Admin]):
    """Asks for and changes topics, configurations, groups and leaders. Thread-safe.

    Every method blocks for at most default.api.timeout.ms, then raises ClientTimeout; it raises KafkaError for what the
    cluster refuses or cannot be asked. A method that is given several things tries all of them, then raises the first
    one's error with the reasons of all.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        """Take settings (Kafka's admin client configs). Raises ConfigError."""
        core = Admin(config, **settings)
        self.config = core.config
        self._begin(core, self.config.client_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close connections. Harmless twice."""
        if not self._closed:
            self._closed = True
            if self._thread.running:
                self._run(self._core.close())
            self._end()

    def describe_cluster(self) -> ClusterDescription:
        """Return brokers, controller and cluster id."""
        return self._run(self._core.describe_cluster())

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """Names, sorted; with those of Kafka itself when `internal`."""
        return self._run(self._core.list_topics(internal=internal))

    def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicInfo]:
        """Some or all topics, sorted. Raises KafkaError (UNKNOWN_TOPIC_OR_PARTITION) naming the first missing one."""
        return self._run(self._core.describe_topics(names))

    def create_topics(self, new_topics: Iterable[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """Create topics."""
        return self._run(self._core.create_topics(new_topics, validate_only=validate_only))

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with everything in them."""
        self._run(self._core.delete_topics(names))

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise the partition counts of topics."""
        self._run(self._core.create_partitions(counts, assignments=assignments, validate_only=validate_only))

    def describe_configs(self, resources: Iterable[ConfigResource]) -> dict[ConfigResource, list[ConfigEntry]]:
        """Settings of topics and brokers."""
        return self._run(self._core.describe_configs(resources))

    def alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[configs.Change]], *, validate_only: bool = False
    ) -> None:
        """Change single settings; all others stay."""
        self._run(self._core.alter_configs(changes, validate_only=validate_only))

    def list_groups(self, states: Sequence[str] = ()) -> list[GroupListing]:
        """All groups, or those in some states."""
        return self._run(self._core.list_groups(states))

    def describe_groups(self, group_ids: Iterable[str]) -> list[GroupDescription]:
        """Groups with their members."""
        return self._run(self._core.describe_groups(group_ids))

    def group_lag(self, group_id: str) -> list[PartitionLag]:
        """Return how far behind a group is, by partition."""
        return self._run(self._core.group_lag(group_id))

    def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets of a group."""
        return self._run(self._core.list_group_offsets(group_id, partitions))

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Set the committed offsets of a group that has no members."""
        self._run(self._core.alter_group_offsets(group_id, offsets))

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members."""
        self._run(self._core.delete_groups(group_ids))

    def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation_level: int = 0
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after a time; -1 latest, -2 earliest."""
        return self._run(self._core.list_offsets(times, isolation_level))

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> list[TopicPartition]:
        """Give partitions (None: all) their preferred leader, or, with `unclean`, any live replica; who changed."""
        return self._run(self._core.elect_leaders(partitions, unclean=unclean))

    def alter_partition_reassignments(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Start moving partitions to other replicas, or (None) cancel that."""
        self._run(self._core.alter_partition_reassignments(targets))

    def describe_log_directories(self, broker: int) -> list[LogDirectory]:
        """The log directories of a broker, with the replicas in them."""
        return self._run(self._core.describe_log_directories(broker))

    def alter_replica_log_directories(self, broker: int, targets: Mapping[TopicPartition, str]) -> None:
        """Start moving replicas to these directories of the broker that has them."""
        self._run(self._core.alter_replica_log_directories(broker, targets))

    def list_partition_reassignments(self) -> list[Reassignment]:
        """Return what is being moved."""
        return self._run(self._core.list_partition_reassignments())
