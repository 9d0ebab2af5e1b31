"""A cluster for code that blocks and has no thread to spare: the loop turns only while somebody waits.

Spark's Python workers run one task at a time and are used again for the next; a session, with its connections, is
therefore kept for the process. While records are decoded the loop stands still and the kernel's socket buffers fill.
"""

import asyncio
import os
import random
import re
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.config import load
from odradek.client.errors import BrokerUnreachable
from odradek.client.metadata import ClusterView
from odradek.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, offsets_at
from odradek.client.records import OffsetAndTimestamp, TopicPartition
from odradek.client.spark.offsets import Offsets
from odradek.client.spark.options import ReadSettings, SourceOptions
from odradek.protocol.errors import RETRIABLE, ErrorCode, KafkaError
from odradek.world.clock import LoopClock
from odradek.world.tcp import TcpNetwork

Result = TypeVar("Result")
SESSIONS_LIMIT = 8
"""Clusters that one process keeps connections to; the oldest is closed for a further one."""
PATIENCE = "default.api.timeout.ms"
_sessions: dict[tuple[object, ...], "Session"] = {}


def session_for(client: Mapping[str, str]) -> "Session":
    """The process's session with these settings. Raises ConfigError."""
    key = (os.getpid(), *sorted(client.items()))
    found = _sessions.get(key)
    if found is None:
        if len(_sessions) >= SESSIONS_LIMIT:
            _sessions.pop(next(iter(_sessions))).close()
        found = _sessions[key] = Session(load(ReadSettings, client, {}))
    return found


class Session:
    """Not for several threads. Every method that asks something raises ClientTimeout, NoBrokerReachable, KafkaError."""

    def __init__(self, settings: ReadSettings) -> None:
        self.settings = settings
        self._loop = asyncio.new_event_loop()
        network = TcpNetwork(
            self._loop,
            send_buffer_bytes=settings.send_buffer_bytes,
            receive_buffer_bytes=settings.receive_buffer_bytes,
        )
        self.cluster = Cluster(network, LoopClock(self._loop), random.Random(), settings)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Turn the loop until it is done."""
        return self._loop.run_until_complete(work)

    def begin(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Let it go as far as it gets without waiting, which is until its request is sent."""
        task = self._loop.create_task(work)
        self._loop.run_until_complete(asyncio.sleep(0))
        return task

    def finish(self, task: "asyncio.Task[Result]") -> Result:
        """The result of what was begun."""
        return self._loop.run_until_complete(task)

    def give_up(self, task: "asyncio.Task[Any]") -> None:
        """Nobody wants the result any more."""
        task.cancel()
        self._loop.run_until_complete(asyncio.gather(task, return_exceptions=True))

    def close(self) -> None:
        """Close all connections."""
        self.cluster.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def deadline(self, what: str) -> Deadline:
        """As long as default.api.timeout.ms allows."""
        return Deadline(self.cluster, self.settings.default_api_timeout_ms, what, PATIENCE)

    # -- what there is -------------------------------------------------------------------------------------------------

    def partitions(self, options: SourceOptions) -> list[TopicPartition]:
        """All that the options select, in order. Raises KafkaError naming what the cluster does not have."""
        return self.run(self._partitions(options))

    async def _partitions(self, options: SourceOptions) -> list[TopicPartition]:
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
        """Metadata, asked for again while a topic's leaders are being elected or no broker answers."""
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
        """Return what to say of topics that have errors; raised at once when asking again does not help."""
        name, code = next(iter(errors.items()))
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            servers = ",".join(self.settings.bootstrap_servers)
            unknown = ", ".join(topic for topic, error in errors.items() if error is code)
            raise KafkaError(code, f"the cluster at {servers} has no topic {unknown}: create it, or correct the option")
        if code not in RETRIABLE:
            raise KafkaError(code, f"topic {name}")
        return KafkaError(code, f"topic {name}")

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where the logs start."""
        return self._at_bound(partitions, EARLIEST_TIMESTAMP)

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where the logs end: the high watermarks, or with read_committed the last stable offsets."""
        return self._at_bound(partitions, LATEST_TIMESTAMP)

    def _at_bound(self, partitions: Iterable[TopicPartition], bound: int) -> Offsets:
        found = self.at_times(dict.fromkeys(partitions, bound))
        return {one: at.offset for one, at in found.items() if at is not None}

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offsets at or after times, in milliseconds; None where all records are older."""
        if not times:
            return {}
        work = offsets_at(self.cluster, times, self.settings.isolation, self.deadline("offsets of partitions"))
        return self.run(work)
