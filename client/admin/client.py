"""KafkaAdminClient: the blocking form of the administrative requests."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from odradek.client.admin import configs, groups, leaders, log_directories, topics
from odradek.client.admin.config import AdminConfig
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
from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.config import load
from odradek.client.errors import in_words
from odradek.client.metadata import TopicInfo
from odradek.client.offsets import committed_offsets, offsets_at
from odradek.client.records import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from odradek.client.runtime import Runtime, named
from odradek.protocol.errors import KafkaError

Result = TypeVar("Result")


class KafkaAdminClient:
    """Topics, configurations, groups, leaders. Every method blocks, for at most default.api.timeout.ms.

    Methods raise KafkaError for what the cluster refuses and ClientError for what cannot be asked. A method that is
    given several things tries all of them, then raises the first one's error with the reasons of all.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self.config = named(load(AdminConfig, config, settings), "adminclient")
        self._runtime = Runtime(self.config)

    def __enter__(self) -> "KafkaAdminClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Harmless twice."""
        self._runtime.stop()

    def _run(self, what: str, work: Callable[[Cluster, Deadline], Coroutine[Any, Any, Result]]) -> Result:
        return self._runtime.run(lambda: work(self._runtime.cluster, self._deadline(what)))

    def _deadline(self, what: str) -> Deadline:
        return Deadline(self._runtime.cluster, self.config.default_api_timeout_ms, what, "default.api.timeout.ms")

    # -- cluster and topics --------------------------------------------------------------------------------------------

    def describe_cluster(self) -> ClusterDescription:
        """Brokers, controller, cluster id."""
        view, _ = self._run("describing the cluster", lambda cluster, _: cluster.describe([]))
        nodes = [view.nodes[node_id] for node_id in sorted(view.nodes)]
        return ClusterDescription(view.cluster_id, view.controller_id, nodes)

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """Names, sorted; with those of Kafka itself when `internal`."""
        view, _ = self._run("listing topics", lambda cluster, _: cluster.describe(None))
        return sorted(name for name, info in view.topics.items() if internal or not info.internal)

    def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicInfo]:
        """Some or all topics, sorted. Raises KafkaError (UNKNOWN_TOPIC_OR_PARTITION) naming the first missing one."""
        asked = None if names is None else list(names)
        view, errors = self._run("describing topics", lambda cluster, _: cluster.describe(asked))
        for name in asked or []:
            if name in errors and not view.partition_count(name):
                raise KafkaError(errors[name], f"topic {name}: {in_words(errors[name])}")
        return [view.topics[name] for name in sorted(view.topics)]

    def create_topics(self, new_topics: Iterable[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """Create topics."""
        wanted = list(new_topics)
        return self._run(
            f"creating {', '.join(topic.name for topic in wanted)}",
            lambda cluster, deadline: topics.create_topics(cluster, wanted, deadline, validate_only=validate_only),
        )

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with everything in them."""
        wanted = list(names)
        self._run(
            f"deleting {', '.join(wanted)}",
            lambda cluster, deadline: topics.delete_topics(cluster, wanted, deadline),
        )

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise the partition counts of topics."""
        self._run(
            f"adding partitions to {', '.join(counts)}",
            lambda cluster, deadline: topics.create_partitions(
                cluster, counts, assignments or {}, deadline, validate_only=validate_only
            ),
        )

    # -- configurations ------------------------------------------------------------------------------------------------

    def describe_configs(self, resources: Iterable[ConfigResource]) -> dict[ConfigResource, list[ConfigEntry]]:
        """Settings of topics and brokers."""
        asked = list(resources)
        return self._run("describing configurations", lambda cluster, _: configs.describe_configs(cluster, asked))

    def alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[configs.Change]], *, validate_only: bool = False
    ) -> None:
        """Change single settings; all others stay."""
        self._run(
            "altering configurations",
            lambda cluster, _: configs.alter_configs(cluster, changes, validate_only=validate_only),
        )

    # -- groups and offsets --------------------------------------------------------------------------------------------

    def list_groups(self, states: Sequence[str] = ()) -> list[GroupListing]:
        """All groups, or those in some states."""
        return self._run("listing groups", lambda cluster, _: groups.list_groups(cluster, states))

    def describe_groups(self, group_ids: Iterable[str]) -> list[GroupDescription]:
        """Groups with their members."""
        return [self._describe_group(group_id) for group_id in group_ids]

    def _describe_group(self, group_id: str) -> GroupDescription:
        return self._run(
            f"describing group {group_id}",
            lambda cluster, deadline: groups.describe_group(cluster, group_id, deadline),
        )

    def group_lag(self, group_id: str) -> list[PartitionLag]:
        """How far behind a group is, by partition."""
        what = f"reading the lag of group {group_id}"
        return self._run(what, lambda cluster, _: groups.group_lag(cluster, group_id, lambda: self._deadline(what)))

    def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets of a group."""
        asked = None if partitions is None else list(partitions)
        return self._run(
            f"reading the offsets of group {group_id}",
            lambda cluster, deadline: committed_offsets(cluster, group_id, asked, deadline),
        )

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Set the committed offsets of a group that has no members."""
        self._run(
            f"setting offsets of group {group_id}",
            lambda cluster, deadline: groups.alter_offsets(cluster, group_id, offsets, deadline),
        )

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members."""
        asked = list(group_ids)
        what = f"deleting group {', '.join(asked)}"
        self._run(what, lambda cluster, _: groups.delete_groups(cluster, asked, lambda: self._deadline(what)))

    def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation_level: int = 0
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after a time; -1 latest, -2 earliest."""
        return self._run(
            "listing offsets", lambda cluster, deadline: offsets_at(cluster, times, isolation_level, deadline)
        )

    # -- leaders -------------------------------------------------------------------------------------------------------

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> list[TopicPartition]:
        """Give partitions (None: all) their preferred leader, or, with `unclean`, any live replica; who changed."""
        kind = leaders.UNCLEAN if unclean else leaders.PREFERRED
        asked = None if partitions is None else list(partitions)
        return self._run(
            "electing leaders", lambda cluster, deadline: leaders.elect_leaders(cluster, kind, asked, deadline)
        )

    def alter_partition_reassignments(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Start moving partitions to other replicas, or (None) cancel that."""
        self._run(
            "reassigning partitions", lambda cluster, deadline: leaders.alter_reassignments(cluster, targets, deadline)
        )

    def describe_log_directories(self, broker: int) -> list[LogDirectory]:
        """The log directories of a broker, with the replicas in them."""
        return self._run("describing log directories", lambda cluster, _: log_directories.describe(cluster, broker))

    def alter_replica_log_directories(self, broker: int, targets: Mapping[TopicPartition, str]) -> None:
        """Start moving replicas to these directories of the broker that has them."""
        self._run("moving replicas", lambda cluster, _: log_directories.alter(cluster, broker, targets))

    def list_partition_reassignments(self) -> list[Reassignment]:
        """What is being moved."""
        return self._run("listing reassignments", leaders.list_reassignments)
