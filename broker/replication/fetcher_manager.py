"""Follower fetching: carries what `replication/following` asks to its leaders and brings back the answers (C12)."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from odradek.broker.cluster.metadata_cache import MetadataCache, Node
from odradek.broker.replication.fetcher import FETCH_VERSION, FetcherCore, FetcherLimits, PartitionFetchState
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.throttling import Throttle
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.world.clock import Clock

if TYPE_CHECKING:
    from odradek.broker.cluster.peer import Peer

log = logging.getLogger(__name__)

LIST_OFFSETS_VERSION = 7
EARLIEST, LATEST = -2, -1
REQUEST_TIMEOUT_MS = 30_000.0


class PeerFactory(Protocol):
    """Makes connections to other brokers."""

    def __call__(self, node: Node, client_id: str) -> "Peer": ...


class FetcherTask:
    """One connection to one leader, and the partitions copied over it."""

    def __init__(self, core: FetcherCore, name: str, owner: "FetcherManager") -> None:
        self.core, self.name, self._owner = core, name, owner
        self._work = asyncio.Event()
        self._peer: Peer | None = None
        self._told_unreachable = False
        self.task = asyncio.get_running_loop().create_task(self._run(), name=name)

    def follow(self, partition: Partition) -> None:
        self.core.follow(partition)
        self._work.set()

    def leave(self, partition: Partition) -> None:
        self.core.leave(partition)

    def stop(self) -> None:
        self.task.cancel()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        self.core.disconnected()

    async def _run(self) -> None:
        clock = self._owner.clock
        while True:
            self.core.broker_epoch = self._owner.broker_epoch()
            request = self.core.request(clock.monotonic_ms())
            if request is None and not self.core.out_of_range():
                await self._wait_for_work()
                continue
            try:
                peer = self._connection()
                for followed in self.core.out_of_range():
                    await self._ask_leader_offsets(peer, followed)
                if request is not None:
                    await self._fetch(peer, request)
                self._told_unreachable = False
            except (OSError, TimeoutError) as error:
                self._unreachable(error)
                await self._pause(self._owner.limits.backoff_ms)

    async def _fetch(self, peer: "Peer", request: FetchRequest) -> None:
        response = await peer.request(request, FETCH_VERSION, request.max_wait_ms + REQUEST_TIMEOUT_MS)
        assert isinstance(response, FetchResponse)
        self.core.answered(response, self._owner.clock.monotonic_ms())

    def _connection(self) -> "Peer":
        """Raises OSError while the leader's address is not known."""
        node = self._owner.metadata.node(self.core.leader_id, self._owner.listener)
        if node is None:
            raise OSError(f"broker {self.core.leader_id} has no address at listener {self._owner.listener}")
        if self._peer is None or (self._peer.host, self._peer.port) != (node.host, node.port):
            self._disconnect()
            self._peer = self._owner.connect(node, self.name)
        return self._peer

    def _unreachable(self, error: Exception) -> None:
        if not self._told_unreachable:
            log.info("%s: leader %d cannot be reached: %s; trying on", self.name, self.core.leader_id, error)
            self._told_unreachable = True
        self._disconnect()

    async def _ask_leader_offsets(self, peer: "Peer", followed: PartitionFetchState) -> None:
        partition = followed.partition
        found = []
        for timestamp in (EARLIEST, LATEST):
            asked = ListOffsetsPartition(
                partition_index=partition.index, current_leader_epoch=partition.leader_epoch, timestamp=timestamp
            )
            response = await peer.request(
                ListOffsetsRequest(
                    replica_id=self.core.local_id, topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])]
                ),
                LIST_OFFSETS_VERSION,
                REQUEST_TIMEOUT_MS,
            )
            assert isinstance(response, ListOffsetsResponse)
            answer: ListOffsetsPartitionResponse = response.topics[0].partitions[0]
            if answer.error_code != ErrorCode.NONE:
                followed.needs_leader_offsets = False
                followed.not_before_ms = self._owner.clock.monotonic_ms() + self._owner.limits.backoff_ms
                return
            found.append(answer.offset)
        if followed.partition.leader == self.core.leader_id and not followed.partition.is_leader:
            self.core.leader_offsets(followed, found[0], found[1])

    async def _wait_for_work(self) -> None:
        wake_ms = self.core.next_wake_ms()
        self._work.clear()
        if wake_ms is None:
            await self._work.wait()
        else:
            await self._pause(max(wake_ms - self._owner.clock.monotonic_ms(), 1.0))

    async def _pause(self, delay_ms: float) -> None:
        """Until `delay_ms` are over or there is new work."""
        self._work.clear()
        timer = self._owner.clock.call_later(delay_ms, self._work.set)
        try:
            await self._work.wait()
        finally:
            timer.cancel()


class FetcherManager:
    """All fetcher tasks: `fetchers_per_leader` for each leader (Kafka: num.replica.fetchers)."""

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        clock: Clock,
        connect: PeerFactory,
        listener: str,
        limits: FetcherLimits,
        throttle: Throttle,
        broker_epoch: Callable[[], int],
        fetchers_per_leader: int = 1,
    ) -> None:
        self.broker_id, self.metadata, self.clock = broker_id, metadata, clock
        self.connect, self.listener, self.limits = connect, listener, limits
        self.broker_epoch = broker_epoch
        self._throttle = throttle
        self._fetchers_per_leader = fetchers_per_leader
        self._tasks: dict[tuple[int, int], FetcherTask] = {}
        self._task_of: dict[Partition, FetcherTask] = {}

    def follow(self, partition: Partition) -> None:
        """Copy it from its present leader."""
        self.leave(partition)
        lane = partition.index % self._fetchers_per_leader
        key = (partition.leader, lane)
        task = self._tasks.get(key)
        if task is None:
            core = FetcherCore(self.broker_id, partition.leader, self.limits, self._throttle)
            task = self._tasks[key] = FetcherTask(
                core, f"fetcher-{self.broker_id}-from-{partition.leader}-{lane}", self
            )
        self._task_of[partition] = task
        task.follow(partition)

    def leave(self, partition: Partition) -> None:
        """Stop copying it."""
        task = self._task_of.pop(partition, None)
        if task is None:
            return
        task.leave(partition)
        if not len(task.core):
            task.stop()
            self._tasks = {key: other for key, other in self._tasks.items() if other is not task}

    def resize(self, fetchers_per_leader: int) -> None:
        """Spread the partitions over so many fetchers for each leader: a changed `num.replica.fetchers`."""
        if fetchers_per_leader != self._fetchers_per_leader:
            self._fetchers_per_leader = fetchers_per_leader
            for partition in list(self._task_of):
                self.follow(partition)

    def close(self) -> None:
        """Stop all tasks."""
        for task in self._tasks.values():
            task.stop()
        self._tasks, self._task_of = {}, {}
