"""Admin: topics, configurations, groups, leaders, on asyncio."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from odradek.client import arguments
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
from odradek.client.aio.world import World, named, running_loop, warn_dropped
from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.config import addresses, load
from odradek.client.errors import ClientClosed, ClientError, ClientTimeout, in_words
from odradek.client.metadata import TopicInfo
from odradek.client.offsets import committed_offsets, offsets_at
from odradek.client.records import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from odradek.protocol.errors import KafkaError
from odradek.world.clock import Clock
from odradek.world.network import Network

Result = TypeVar("Result")
GRACE_MS = 100.0
"""What a method has beyond its time, to say itself what it was waiting for."""


class Admin:
    """Asks for and changes topics, configurations, groups and leaders.

    Every method waits for at most default.api.timeout.ms, then raises ClientTimeout; it raises KafkaError for what the
    cluster refuses or cannot be asked. A method that is given several things tries all of them, then raises the first
    one's error with the reasons of all. Use it as `async with Admin(...) as admin`, or `await start()` and `close()`.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Any = None,
        **settings: Any,
    ) -> None:
        """Take settings (Kafka's admin client configs), and the world they are for. Raises ConfigError."""
        self.config = named(load(AdminConfig, config, settings), "adminclient")
        addresses(self.config.bootstrap_servers)
        self._world = World(network, clock, random)
        self._opened: Cluster | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    # -- beginning and end ---------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Begin. Harmless twice."""
        self.open(running_loop("Admin"))
        return self

    def open(self, loop: asyncio.AbstractEventLoop, *, from_other_threads: bool = False) -> None:
        """Begin on the running loop."""
        if self._opened is None:
            self._loop = loop
            self._opened = self._world.cluster(self.config)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections. Harmless twice."""
        self._closed = True
        if self._opened is not None:
            self._opened.close()

    async def abandon(self) -> None:
        """Close connections."""
        await self.close()

    @property
    def undelivered(self) -> int:
        """Nothing is sent."""
        return 0

    def __del__(self) -> None:
        cluster, loop = self.__dict__.get("_opened"), self.__dict__.get("_loop")
        if cluster is not None and loop is not None and not self._closed:
            warn_dropped(self, f"admin client {self.config.client_id}", loop, cluster.close)

    async def _run(self, what: str, work: Callable[[Cluster, Deadline], Coroutine[Any, Any, Result]]) -> Result:
        if self._closed:
            raise ClientClosed("the admin client is closed")
        if self._opened is None:
            raise ClientError("the admin client is not started: use `async with`, or `await admin.start()`")
        return await self._within_time(what, work(self._opened, self._deadline(what)))

    async def _within_time(self, what: str, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for what keeps no deadline itself. Raises ClientTimeout."""
        assert self._opened is not None
        task = asyncio.ensure_future(work)
        limit_ms, expired = self.config.default_api_timeout_ms, False

        def expire() -> None:
            nonlocal expired
            expired = True
            task.cancel()

        timer = self._opened.clock.call_later(limit_ms + GRACE_MS, expire)
        try:
            return await task
        except asyncio.CancelledError:
            if not expired:
                task.cancel()
                raise
            said = f"{what}: not done within default.api.timeout.ms={limit_ms}"
            raise ClientTimeout(said, setting="default.api.timeout.ms") from None
        finally:
            timer.cancel()

    def _deadline(self, what: str) -> Deadline:
        assert self._opened is not None
        return Deadline(self._opened, self.config.default_api_timeout_ms, what, "default.api.timeout.ms")

    # -- cluster and topics --------------------------------------------------------------------------------------------

    async def describe_cluster(self) -> ClusterDescription:
        """Return brokers, controller and cluster id."""
        view, _ = await self._run("describing the cluster", lambda cluster, _: cluster.describe([]))
        nodes = [view.nodes[node_id] for node_id in sorted(view.nodes)]
        return ClusterDescription(view.cluster_id, view.controller_id, nodes)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """Names, sorted; with those of Kafka itself when `internal`."""
        view, _ = await self._run("listing topics", lambda cluster, _: cluster.describe(None))
        return sorted(name for name, info in view.topics.items() if internal or not info.internal)

    async def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicInfo]:
        """Some or all topics, sorted. Raises KafkaError (UNKNOWN_TOPIC_OR_PARTITION) naming the first missing one."""
        asked = None if names is None else [arguments.topic_name(name) for name in names]
        view, errors = await self._run("describing topics", lambda cluster, _: cluster.describe(asked))
        for name in asked or []:
            if name in errors and not view.partition_count(name):
                raise KafkaError(errors[name], f"topic {name}: {in_words(errors[name])}")
        return [view.topics[name] for name in sorted(view.topics)]

    async def create_topics(self, new_topics: Iterable[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """Create topics."""
        wanted = list(new_topics)
        return await self._run(
            f"creating {', '.join(topic.name for topic in wanted)}",
            lambda cluster, deadline: topics.create_topics(cluster, wanted, deadline, validate_only=validate_only),
        )

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with everything in them."""
        wanted = [arguments.topic_name(name) for name in names]
        await self._run(
            f"deleting {', '.join(wanted)}",
            lambda cluster, deadline: topics.delete_topics(cluster, wanted, deadline),
        )

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise the partition counts of topics."""
        await self._run(
            f"adding partitions to {', '.join(counts)}",
            lambda cluster, deadline: topics.create_partitions(
                cluster, counts, assignments or {}, deadline, validate_only=validate_only
            ),
        )

    # -- configurations ------------------------------------------------------------------------------------------------

    async def describe_configs(self, resources: Iterable[ConfigResource]) -> dict[ConfigResource, list[ConfigEntry]]:
        """Settings of topics and brokers."""
        asked = list(resources)
        return await self._run("describing configurations", lambda cluster, _: configs.describe_configs(cluster, asked))

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[configs.Change]], *, validate_only: bool = False
    ) -> None:
        """Change single settings; all others stay."""
        await self._run(
            "altering configurations",
            lambda cluster, _: configs.alter_configs(cluster, changes, validate_only=validate_only),
        )

    # -- groups and offsets --------------------------------------------------------------------------------------------

    async def list_groups(self, states: Sequence[str] = ()) -> list[GroupListing]:
        """All groups, or those in some states."""
        return await self._run("listing groups", lambda cluster, _: groups.list_groups(cluster, states))

    async def describe_groups(self, group_ids: Iterable[str]) -> list[GroupDescription]:
        """Groups with their members."""
        return [await self._describe_group(group_id) for group_id in group_ids]

    async def _describe_group(self, group_id: str) -> GroupDescription:
        return await self._run(
            f"describing group {group_id}",
            lambda cluster, deadline: groups.describe_group(cluster, group_id, deadline),
        )

    async def group_lag(self, group_id: str) -> list[PartitionLag]:
        """Return how far behind a group is, by partition."""
        what = f"reading the lag of group {group_id}"
        return await self._run(
            what, lambda cluster, _: groups.group_lag(cluster, group_id, lambda: self._deadline(what))
        )

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets of a group."""
        asked = None if partitions is None else list(partitions)
        return await self._run(
            f"reading the offsets of group {group_id}",
            lambda cluster, deadline: committed_offsets(cluster, group_id, asked, deadline),
        )

    async def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Set the committed offsets of a group that has no members."""
        await self._run(
            f"setting offsets of group {group_id}",
            lambda cluster, deadline: groups.alter_offsets(cluster, group_id, offsets, deadline),
        )

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members."""
        asked = list(group_ids)
        what = f"deleting group {', '.join(asked)}"
        await self._run(what, lambda cluster, _: groups.delete_groups(cluster, asked, lambda: self._deadline(what)))

    async def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation_level: int = 0
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after a time; -1 latest, -2 earliest."""
        return await self._run(
            "listing offsets", lambda cluster, deadline: offsets_at(cluster, times, isolation_level, deadline)
        )

    # -- leaders -------------------------------------------------------------------------------------------------------

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> list[TopicPartition]:
        """Give partitions (None: all) their preferred leader, or, with `unclean`, any live replica; who changed."""
        kind = leaders.UNCLEAN if unclean else leaders.PREFERRED
        asked = None if partitions is None else list(partitions)
        return await self._run(
            "electing leaders", lambda cluster, deadline: leaders.elect_leaders(cluster, kind, asked, deadline)
        )

    async def alter_partition_reassignments(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Start moving partitions to other replicas, or (None) cancel that."""
        await self._run(
            "reassigning partitions", lambda cluster, deadline: leaders.alter_reassignments(cluster, targets, deadline)
        )

    async def describe_log_directories(self, broker: int) -> list[LogDirectory]:
        """The log directories of a broker, with the replicas in them."""
        return await self._run(
            "describing log directories", lambda cluster, _: log_directories.describe(cluster, broker)
        )

    async def alter_replica_log_directories(self, broker: int, targets: Mapping[TopicPartition, str]) -> None:
        """Start moving replicas to these directories of the broker that has them."""
        await self._run("moving replicas", lambda cluster, _: log_directories.alter(cluster, broker, targets))

    async def list_partition_reassignments(self) -> list[Reassignment]:
        """Return what is being moved."""
        return await self._run("listing reassignments", leaders.list_reassignments)
