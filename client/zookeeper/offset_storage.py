"""Storage of a group's offsets: in ZooKeeper, in Kafka, or, while a group moves from one to the other, in both."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from odradek.client.calls import Deadline, ask_coordinator, side_by_side
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerUnreachable, ClientError, ClientTimeout
from odradek.client.offsets import commit_errors, commit_request, committed_offsets
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.client.waiting import sleep_ms
from odradek.client.zookeeper.config import ConnectorSettings
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.offset_commit import OffsetCommitResponse
from odradek.zk_schema.lost_answers import repeated
from odradek.zk_schema.store import NodeExists, NoNode, Store
from odradek.zk_schema.znodes.consumers import decode_offset, encode_offset, offset_path

Offsets = dict[TopicPartition, int]
"""The next offset to consume of each partition."""


class OffsetStorage(Protocol):
    """Storage of one group's offsets."""

    async def read(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the offsets of these partitions; those without one are left out."""

    async def write(self, offsets: Mapping[TopicPartition, int], retries: int, *, unchanged: bool = False) -> None:
        """Write offsets, whatever is stored; up to `retries` times again after failures that may pass. When it raises,
        no write is under way.

        With `unchanged`, also offsets that are as this member has last read or written them; a storage in which offsets
        expire always writes those.
        """


class ZooKeeperOffsets:
    """Offsets in /consumers/[group]/offsets/[topic]/[partition]. Waits for a lost connection; a lost session raises."""

    def __init__(self, store: Store, group_id: str) -> None:
        self._store = store
        self._group_id = group_id
        self._known: Offsets = {}
        """Offsets as last read or written, so that none is written twice."""

    async def read(self, partitions: Collection[TopicPartition]) -> Offsets:
        answers = await asyncio.gather(*(self._read(name) for name in partitions))
        found = {name: offset for name, offset in zip(partitions, answers, strict=True) if offset is not None}
        self._known = {name: offset for name, offset in self._known.items() if name not in partitions} | found
        return found

    async def _read(self, name: TopicPartition) -> int | None:
        try:
            data, _ = await repeated(self._store, lambda: self._store.get(offset_path(self._group_id, *name)))
        except NoNode:
            return None
        return decode_offset(self._group_id, *name, data)

    async def write(self, offsets: Mapping[TopicPartition, int], retries: int = 0, *, unchanged: bool = False) -> None:
        wanted = [one for one in offsets.items() if unchanged or self._known.get(one[0]) != one[1]]
        await side_by_side(self._write(name, offset) for name, offset in wanted)

    async def _write(self, name: TopicPartition, offset: int) -> None:
        self._known.pop(name, None)
        path, data = offset_path(self._group_id, *name), encode_offset(offset)

        async def write() -> None:
            try:
                await self._store.set(path, data)
            except NoNode:
                try:
                    await self._store.create(path, data, parents=True)
                except NodeExists:
                    await self._store.set(path, data)

        await repeated(self._store, write)
        self._known[name] = offset


class KafkaOffsets:
    """Offsets in __consumer_offsets, committed without a membership, as brokers do not coordinate the group.

    They expire offsets.retention.minutes after their commit, so unchanged ones are written at each commit.
    """

    def __init__(self, cluster: Callable[[], Cluster], settings: ConnectorSettings) -> None:
        self._cluster = cluster
        self._settings = settings

    def _deadline(self, cluster: Cluster, what: str) -> Deadline:
        patience_ms = self._settings.offsets_channel_socket_timeout_ms
        return Deadline(cluster, patience_ms, what, "offsets.channel.socket.timeout.ms")

    async def read(self, partitions: Collection[TopicPartition]) -> Offsets:
        cluster = self._cluster()
        deadline = self._deadline(cluster, "reading offsets")
        found = await committed_offsets(cluster, self._settings.group_id, partitions, deadline)
        return {name: position.offset for name, position in found.items()}

    async def write(self, offsets: Mapping[TopicPartition, int], retries: int, *, unchanged: bool = False) -> None:
        for attempt in range(retries + 1):
            try:
                await self._try_to_write(offsets)
            except (BrokerUnreachable, ClientTimeout):
                if attempt == retries:
                    raise
            else:
                return
            await sleep_ms(self._cluster().clock, self._settings.offsets_channel_backoff_ms)

    async def _try_to_write(self, offsets: Mapping[TopicPartition, int]) -> None:
        cluster, group_id = self._cluster(), self._settings.group_id
        request = commit_request(group_id, {name: OffsetAndMetadata(offset) for name, offset in offsets.items()})
        deadline = self._deadline(cluster, "committing offsets")
        answer = await ask_coordinator(cluster, group_id, request, OffsetCommitResponse, commit_errors, deadline)
        for error in commit_errors(answer):
            raise KafkaError(error, f"group {group_id}: offsets not committed")


class DualOffsets:
    """Offsets in Kafka and ZooKeeper, written in this order; of two, the higher counts (ZookeeperConsumerConnector)."""

    def __init__(self, kafka: OffsetStorage, zookeeper: OffsetStorage) -> None:
        self._kafka = kafka
        self._zookeeper = zookeeper

    async def read(self, partitions: Collection[TopicPartition]) -> Offsets:
        found = await self._kafka.read(partitions)
        for name, offset in (await self._zookeeper.read(partitions)).items():
            found[name] = max(offset, found.get(name, offset))
        return found

    async def write(self, offsets: Mapping[TopicPartition, int], retries: int, *, unchanged: bool = False) -> None:
        await self._kafka.write(offsets, retries)
        await self._zookeeper.write(offsets, retries, unchanged=unchanged)


def storage_of(settings: ConnectorSettings, store: Store, cluster: Callable[[], Cluster]) -> OffsetStorage:
    """Return the storage that offsets.storage and dual.commit.enabled ask for."""
    in_zookeeper = ZooKeeperOffsets(store, settings.group_id)
    if settings.offsets_storage == "zookeeper":
        return in_zookeeper
    in_kafka = KafkaOffsets(cluster, settings)
    return DualOffsets(in_kafka, in_zookeeper) if settings.dual_commit else in_kafka


class OffsetKeeper:
    """Reads and commits a group's offsets, one commit at a time, and remembers what is stored."""

    def __init__(self, storage: OffsetStorage) -> None:
        self.stored: Offsets = {}
        """Offsets as last read or written by this member."""
        self._storage = storage
        self._turn = asyncio.Lock()

    async def read(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the offsets to start from. Raises what the storage raises."""
        found = await self._storage.read(partitions)
        for name in partitions:
            if name not in found:
                self.stored.pop(name, None)
        self.stored.update(found)
        return found

    async def commit(
        self, consumed: Callable[[], Mapping[TopicPartition, int]], retries: int = 0, *, unchanged: bool = False
    ) -> None:
        """Write the offsets that `consumed()` returns once it is this commit's turn, so that partitions given up
        meanwhile are not among them.

        `retries` and `unchanged` are those of the storage. Raises ClientError, KafkaError, StoreError.
        """
        async with self._turn:
            offsets = consumed()
            if offsets:
                await self._storage.write(offsets, retries, unchanged=unchanged)
                self.stored.update(offsets)


NOT_COMMITTED = (ClientError, KafkaError)
"""Errors that a commit may raise besides StoreError."""
