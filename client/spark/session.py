"""Requests of Spark's driver and executors to a cluster from which they read. Coroutines for the process's loop."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from odradek.client.aio.world import World
from odradek.client.calls import Deadline, ask_coordinator
from odradek.client.config import load
from odradek.client.errors import BrokerUnreachable
from odradek.client.metadata import ClusterView
from odradek.client.offsets import commit_errors, commit_request, offsets_at
from odradek.client.records import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from odradek.client.spark.offsets import Offsets
from odradek.client.spark.options import ReadSettings, SourceOptions
from odradek.client.spark.process import here
from odradek.protocol.errors import RETRIABLE, ErrorCode, KafkaError
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.messages.offset_commit import OffsetCommitResponse
from odradek.world.tasks import Tasks

Result = TypeVar("Result")
PATIENCE = "default.api.timeout.ms"
COMMIT_PATIENCE_MS = 5_000
"""Time limit of a commit. It only shows the lag to others, so the query does not wait long for it."""


def session_for(client: Mapping[str, str]) -> "Session":
    """Return this process's session with these settings. Raises ConfigError."""
    settings = load(ReadSettings, client, {})
    return here().session(("source", *sorted(client.items())), lambda world: Session(settings, world))


class Session:
    """Session with a cluster for reading. All requests raise ClientTimeout, NoBrokerReachable, KafkaError."""

    def __init__(self, settings: ReadSettings, world: World) -> None:
        self.settings = settings
        self.cluster = world.cluster(settings)
        self._tasks = Tasks(self.cluster.clock, lambda said: None)

    def begin(self, name: str, work: Callable[[], Coroutine[Any, Any, Result]]) -> "asyncio.Task[Result]":
        """Start a coroutine as a task, which is awaited for its result or error."""
        return self._tasks.result_of(f"spark: {name}", work)

    def give_up(self, begun: "asyncio.Task[Any]") -> None:
        """Cancel a task whose result is no longer wanted, or drop its error."""
        if not begun.cancel() and not begun.cancelled():
            begun.exception()

    async def close(self) -> None:
        """Close all connections."""
        self._tasks.close()
        self.cluster.close()

    def deadline(self, what: str, patience_ms: int | None = None) -> Deadline:
        """Return the deadline `patience_ms` from now (kafkaConsumer.pollTimeoutMs), or else default.api.timeout.ms."""
        if patience_ms is not None:
            return Deadline(self.cluster, patience_ms, what, "kafkaConsumer.pollTimeoutMs")
        return Deadline(self.cluster, self.settings.default_api_timeout_ms, what, PATIENCE)

    # -- what there is -------------------------------------------------------------------------------------------------

    async def partitions(self, options: SourceOptions) -> list[TopicPartition]:
        """Return all partitions that the options select, in order. Raises KafkaError, which names those that do not
        exist."""
        if options.pattern is not None:
            view = await self._described(None)
            names = [name for name, info in view.topics.items() if not info.internal]
            wanted = [name for name in names if re.fullmatch(options.pattern, name)]
        else:
            wanted = list(options.topics or {one.topic for one in options.assigned or ()})
            view = await self._described(wanted)
        found = sorted(TopicPartition(name, n) for name in wanted for n in range(view.partition_count(name)))
        if options.assigned is None:
            return found
        missing = [one for one in options.assigned if one not in found]
        if missing:
            counts = ", ".join(
                f"{name} has {view.partition_count(name)}" for name in sorted({m.topic for m in missing})
            )
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"assign names {', '.join(map(str, missing))}, which the cluster does not have (partitions: {counts})",
            )
        return list(options.assigned)

    async def _described(self, topics: Iterable[str] | None) -> ClusterView:
        """Return metadata, asking again while leaders of a topic are being elected, or no broker answers."""
        deadline = self.deadline("metadata of topics")
        reached = False
        while True:
            failure: Exception
            try:
                view, errors = await self.cluster.describe(topics)
            except BrokerUnreachable as error:
                if not reached and not self.cluster.view.nodes:
                    raise
                failure = error
            else:
                reached = True
                if not errors:
                    return view
                failure = self._refusal(errors)
            await deadline.pause_after(failure)

    def _refusal(self, errors: Mapping[str, ErrorCode]) -> KafkaError:
        """Return the error of topics after which to ask again. Raises KafkaError if asking again does not help."""
        name, code = next(iter(errors.items()))
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            servers = ",".join(self.settings.bootstrap_servers)
            unknown = ", ".join(topic for topic, error in errors.items() if error is code)
            raise KafkaError(code, f"the cluster at {servers} has no topic {unknown}: create it, or correct the option")
        if code not in RETRIABLE:
            raise KafkaError(code, f"topic {name}")
        return KafkaError(code, f"topic {name}")

    async def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where the logs start."""
        return await self._at_bound(partitions, EARLIEST_TIMESTAMP)

    async def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where the logs end: the high watermarks, or with read_committed the last stable offsets."""
        return await self._at_bound(partitions, LATEST_TIMESTAMP)

    async def _at_bound(self, partitions: Iterable[TopicPartition], bound: int) -> Offsets:
        found = await self.at_times(dict.fromkeys(partitions, bound))
        return {one: at.offset for one, at in found.items() if at is not None}

    async def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offsets at or after times, in ms since 1970; None where all records are older."""
        if not times:
            return {}
        deadline = self.deadline("offsets of partitions")
        return await offsets_at(self.cluster, times, self.settings.isolation, deadline, to_read=True)

    async def commit(self, group_id: str, offsets: Offsets) -> None:
        """Commit offsets to a group without members, so that its lag can be seen. Takes at most COMMIT_PATIENCE_MS."""
        request = commit_request(group_id, {one: OffsetAndMetadata(offset) for one, offset in offsets.items()})
        deadline = Deadline(self.cluster, COMMIT_PATIENCE_MS, f"committing the offsets of group {group_id}", "its time")
        answer = await ask_coordinator(self.cluster, group_id, request, OffsetCommitResponse, commit_errors, deadline)
        errors = commit_errors(answer)
        if errors:
            raise KafkaError(errors[0], f"group {group_id}")
