"""Follower fetching: carries what fetcher cores ask to their leaders, and brings back the answers.

One task for each leader and fetcher id (below `num.replica.fetchers`), with a connection of its own.
Kafka: ReplicaFetcherManager, ReplicaFetcherThread.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING
from zlib import crc32

from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.replication.fetcher import FetcherCore, PartitionFetchState
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.throttling import Throttle
from odradek.broker.settings.network_settings import FetcherSettings
from odradek.journal.journal import Journal
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.world.clock import Clock
from odradek.world.tasks import OnDeath, Tasks

if TYPE_CHECKING:
    from odradek.broker.cluster.broker_client import BrokerClients

log = logging.getLogger(__name__)

LIST_OFFSETS_VERSION = 7


class FetcherTask:
    """Connection to a leader, and the partitions copied over it."""

    def __init__(self, core: FetcherCore, name: str, manager: "FetcherManager") -> None:
        self.core, self.name, self._manager = core, name, manager
        self._work = asyncio.Event()
        self._client = manager.clients(name)
        self._told_unreachable = False
        self._task = manager.tasks.spawn(name, self._run, OnDeath.RESTART)

    def follow(self, partition: Partition) -> None:
        self.core.follow(partition)
        self._work.set()

    def leave(self, partition: Partition) -> None:
        self.core.leave(partition)

    def stop(self) -> None:
        self._task.cancel()
        self._client.close()

    async def _run(self) -> None:
        manager, core = self._manager, self.core
        core.disconnected()  # a task that is restarted knows of no session
        while True:
            core.broker_epoch = manager.broker_epoch()
            request = core.request(manager.clock.monotonic_ms())
            if request is None and not core.out_of_range():
                await self._wait_for_work()
                continue
            try:
                for state in core.out_of_range():
                    await self._ask_leader_offsets(state)
                if request is not None:
                    await self._fetch(request)
                self._told_unreachable = False
            except OSError as error:
                self._unreachable(error)
                await self._pause(core.settings.replica_fetch_backoff_ms)

    async def _fetch(self, request: FetchRequest) -> None:
        core = self.core
        timeout_ms = core.settings.replica_socket_timeout_ms
        response = await self._client.to_broker(core.leader_id, request, core.version, timeout_ms)
        assert isinstance(response, FetchResponse)
        for partition in core.answered(response, self._manager.clock.monotonic_ms()):
            self._manager.purgatory.touch(partition.advanced)

    def _unreachable(self, error: OSError) -> None:
        if not self._told_unreachable:
            log.info("%s: leader %d cannot be reached: %s; retrying", self.name, self.core.leader_id, error)
            self._told_unreachable = True
            self._manager.journal.note("fetcher", str(self.core.leader_id), change="unreachable", reason=str(error))
        self._client.disconnect(self.core.leader_id)
        self.core.disconnected()

    async def _ask_leader_offsets(self, state: PartitionFetchState) -> None:
        core, partition = self.core, state.partition
        leader_epoch = partition.leader_epoch
        found = []
        for timestamp in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
            asked = ListOffsetsPartition(
                partition_index=partition.index, current_leader_epoch=leader_epoch, timestamp=timestamp
            )
            request = ListOffsetsRequest(
                replica_id=core.local_id, topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])]
            )
            response = await self._client.to_broker(
                core.leader_id, request, LIST_OFFSETS_VERSION, core.settings.replica_socket_timeout_ms
            )
            assert isinstance(response, ListOffsetsResponse)
            answer = response.topics[0].partitions[0]
            if answer.error_code != ErrorCode.NONE:
                state.needs_leader_offsets = False
                state.not_before_ms = self._manager.clock.monotonic_ms() + core.settings.replica_fetch_backoff_ms
                return
            found.append(answer.offset)
        if core.follows(state) and partition.leader_epoch == leader_epoch:
            core.leader_offsets(state, found[0], found[1], self._manager.clock.monotonic_ms())

    async def _wait_for_work(self) -> None:
        wake_ms = self.core.next_wake_ms()
        if wake_ms is None:
            self._work.clear()
            await self._work.wait()
        else:
            await self._pause(max(wake_ms - self._manager.clock.monotonic_ms(), 1.0))

    async def _pause(self, delay_ms: float) -> None:
        """Wait until `delay_ms` are over or there is new work."""
        self._work.clear()
        timer = self._manager.clock.call_later(delay_ms, self._work.set)
        try:
            await self._work.wait()
        finally:
            timer.cancel()


class FetcherManager:
    """Fetcher tasks of this broker, and the partitions that each of them copies."""

    def __init__(
        self,
        broker_id: int,
        clock: Clock,
        tasks: Tasks,
        clients: "BrokerClients",
        purgatory: Purgatory,
        settings: FetcherSettings,
        throttle: Throttle,
        broker_epoch: Callable[[], int],
        journal: Journal,
    ) -> None:
        """Take this broker's limit on what it copies; `broker_epoch` returns the epoch of its current registration."""
        self.broker_id, self.clock, self.tasks, self.clients = broker_id, clock, tasks, clients
        self.purgatory, self.broker_epoch, self.journal = purgatory, broker_epoch, journal
        self._settings, self._throttle = settings, throttle
        self._fetchers_per_leader = settings.num_replica_fetchers
        self._tasks: dict[tuple[int, int], FetcherTask] = {}
        self._task_of: dict[Partition, FetcherTask] = {}
        self._former_bytes = self._former_reassignment_bytes = 0

    @property
    def cores(self) -> list[FetcherCore]:
        """The fetchers that there are, for others to look at."""
        return [task.core for task in self._tasks.values()]

    @property
    def bytes_in(self) -> int:
        """Bytes copied from leaders since the broker started."""
        return self._former_bytes + sum(core.bytes_in for core in self.cores)

    @property
    def reassignment_bytes_in(self) -> int:
        """How many of them were copied to replicas that reassignments were adding."""
        return self._former_reassignment_bytes + sum(core.reassignment_bytes_in for core in self.cores)

    def follow(self, partition: Partition) -> None:
        """Copy a partition from `partition.leader` under its current epoch; replaces what was copied before."""
        self.leave(partition)
        fetcher_id = (crc32(partition.topic.encode()) + partition.index) % self._fetchers_per_leader
        key = (partition.leader, fetcher_id)
        task = self._tasks.get(key)
        if task is None:
            core = FetcherCore(self.broker_id, partition.leader, self._settings, self._throttle, self.journal)
            task = self._tasks[key] = FetcherTask(
                core, f"fetcher-{self.broker_id}-from-{partition.leader}-{fetcher_id}", self
            )
        self._task_of[partition] = task
        task.follow(partition)

    def leave(self, partition: Partition) -> None:
        """Stop copying a partition; harmless when it is not being copied."""
        task = self._task_of.pop(partition, None)
        if task is None:
            return
        task.leave(partition)
        if not len(task.core):
            task.stop()
            self._tasks = {key: other for key, other in self._tasks.items() if other is not task}
            self._former_bytes += task.core.bytes_in
            self._former_reassignment_bytes += task.core.reassignment_bytes_in

    def resize(self, fetchers_per_leader: int) -> None:
        """Spread the partitions over this number of fetchers for each leader, as `num.replica.fetchers` has changed."""
        if fetchers_per_leader != self._fetchers_per_leader:
            self._fetchers_per_leader = fetchers_per_leader
            for partition in list(self._task_of):
                self.follow(partition)

    def close(self) -> None:
        """Stop all tasks."""
        for task in self._tasks.values():
            task.stop()
        self._tasks, self._task_of = {}, {}
