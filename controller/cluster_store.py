"""The znodes that the controller reads and writes, as values of its state. Every write is fenced (fenced_store.py)."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.controller.elections import Leadership
from odradek.controller.fenced_store import CALLS_IN_FLIGHT, FencedStore, slices
from odradek.controller.state import Assignment, Broker, TopicPartition
from odradek.zk_schema.store import ConnectionLost, Create, Delete, MultiFailed, Operation, SetData, Stat, StoreError
from odradek.zk_schema.znodes.admin import DELETE_TOPICS_PATH, delete_topic_path
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH, BrokerRegistration, broker_path
from odradek.zk_schema.znodes.configs import decode_config, topic_config_path
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.topics import (
    LEADER_RECOVERED,
    LEADER_RECOVERING,
    TOPICS_PATH,
    PartitionReplicas,
    PartitionState,
    TopicAssignment,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)

log = logging.getLogger(__name__)


DELETE_ATTEMPTS_MAX = 10


class Topic(NamedTuple):
    """`/brokers/topics/[topic]`."""

    topic_id: bytes | None
    """None: it is older than topic ids."""
    partitions: dict[int, Assignment]


class ClusterStore:
    """One controller epoch's typed access to ZooKeeper."""

    def __init__(self, store: FencedStore) -> None:
        self.znodes = store

    # Brokers.

    async def brokers(self) -> dict[int, Broker]:
        """The registered ones; watches who comes, goes, and changes its registration."""
        names = [name for name in await self.znodes.children(BROKER_IDS_PATH, watch=True) if name.isdigit()]
        ids = sorted(int(name) for name in names)
        found = await self.znodes.get_all([broker_path(broker_id) for broker_id in ids], watch=True)
        brokers = {}
        for broker_id, znode in zip(ids, found, strict=True):
            if znode is None:
                continue
            try:
                brokers[broker_id] = Broker(znode[1].czxid, BrokerRegistration.decode(broker_id, znode[0]))
            except BadZnode as bad:
                log.error("broker %d is ignored: %s", broker_id, bad)
        return brokers

    # Topics.

    async def topics(self) -> set[str]:
        """Watches which there are."""
        return set(await self.znodes.children(TOPICS_PATH, watch=True))

    async def assignments(self, topics: Iterable[str]) -> dict[str, Topic]:
        """Of those that exist and can be read; watches each."""
        wanted = sorted(topics)
        found = await self.znodes.get_all([topic_path(topic) for topic in wanted], watch=True)
        assignments = {}
        for topic, znode in zip(wanted, found, strict=True):
            if znode is None:
                continue
            try:
                decoded = TopicAssignment.decode(topic, znode[0])
            except BadZnode as bad:
                log.error("topic %s is ignored: %s", topic, bad)
                continue
            held = decoded.partitions.items()
            partitions = {index: Assignment(some.replicas, some.adding, some.removing) for index, some in held}
            assignments[topic] = Topic(decoded.topic_id, partitions)
        return assignments

    async def set_assignment(self, topic: str, topic_id: bytes | None, partitions: Mapping[int, Assignment]) -> None:
        """Nothing when the topic is gone."""
        data = TopicAssignment(
            {index: PartitionReplicas(*assignment) for index, assignment in partitions.items()}, topic_id
        ).encode()
        await self.znodes.settle(SetData(topic_path(topic), data))

    async def allows_unclean_election(self, topics: Sequence[str], *, default: bool) -> set[str]:
        """The topics whose settings, or the broker's default, allow a leader from outside the ISR."""
        paths = [topic_config_path(topic) for topic in topics]
        allowed = set()
        for topic, path, znode in zip(topics, paths, await self.znodes.get_all(paths), strict=True):
            try:
                settings = {} if znode is None else decode_config(path, znode[0])
            except BadZnode as bad:
                log.error("no unclean election of %s: %s", topic, bad)
                continue
            if settings.get("unclean.leader.election.enable", str(default)).lower() == "true":
                allowed.add(topic)
        return allowed

    # Partition states.

    async def leaderships(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leadership | None]:
        """None: there is no readable state znode."""
        leaderships: dict[TopicPartition, Leadership | None] = {}
        for some in slices(partitions, CALLS_IN_FLIGHT):
            found = await self.znodes.get_all([state_path(*partition) for partition in some])
            for partition, znode in zip(some, found, strict=True):
                leaderships[partition] = None if znode is None else _leadership(partition, *znode)
        return leaderships

    async def update_leaderships(
        self, chosen: Mapping[TopicPartition, Leadership]
    ) -> dict[TopicPartition, Leadership | StoreError]:
        """Compare-and-set on the version in each Leadership; answers with the version written, or what prevented it."""
        operations = [
            SetData(state_path(*partition), _state_data(leadership), leadership.partition_epoch)
            for partition, leadership in chosen.items()
        ]
        written: dict[TopicPartition, Leadership | StoreError] = {}
        results = await self.znodes.write_each(operations)
        for (partition, leadership), result in zip(chosen.items(), results, strict=True):
            if isinstance(result, Stat):
                written[partition] = leadership._replace(partition_epoch=result.version)
            else:
                assert isinstance(result, StoreError), result
                written[partition] = result
        return written

    async def create_leaderships(
        self, chosen: Mapping[TopicPartition, Leadership]
    ) -> dict[TopicPartition, Leadership | StoreError]:
        """First states of new partitions. The parents exist already or are made (harmless without a state below)."""
        parents: dict[str, Operation] = {}
        for partition in chosen:
            for path in (partitions_path(partition.topic), partition_path(*partition)):
                parents[path] = Create(path)
        missing = await self._missing(list(parents))
        # Two rounds: the parts of one round may end up in different transactions.
        for level in (0, 1):
            await self.znodes.write_each(
                [Create(path) for path in missing if path.endswith("/partitions") != bool(level)]
            )
        operations = [Create(state_path(*partition), _state_data(chosen[partition])) for partition in chosen]
        results = await self.znodes.write_each(operations)
        return {
            partition: result if isinstance(result, StoreError) else leadership
            for (partition, leadership), result in zip(chosen.items(), results, strict=True)
        }

    async def _missing(self, paths: Sequence[str]) -> list[str]:
        found = await self.znodes.get_all(paths)
        return [path for path, znode in zip(paths, found, strict=True) if znode is None]

    # Deletion.

    async def topics_to_delete(self) -> set[str]:
        """Watches for more."""
        return set(await self.znodes.children(DELETE_TOPICS_PATH, watch=True))

    async def forget_deletion(self, topics: Iterable[str]) -> None:
        for topic in sorted(topics):
            await self.znodes.settle(Delete(delete_topic_path(topic)))

    async def delete_topic(self, topic: str) -> bool:
        """The partitions, then topic, settings and mark in one transaction: a half-done deletion is resumed whole.

        False when it does not work out: somebody else keeps putting znodes there.
        """
        for _ in range(DELETE_ATTEMPTS_MAX):
            names = await self.znodes.children(partitions_path(topic))
            await self.delete_all([f"{partitions_path(topic)}/{name}/state" for name in names])
            await self.delete_all([f"{partitions_path(topic)}/{name}" for name in names])
            await self.delete_all([partitions_path(topic)])
            last = [topic_path(topic), topic_config_path(topic), delete_topic_path(topic)]
            there = [path for path in last if await self.znodes.exists(path)]
            try:
                await self.znodes.write([Delete(path) for path in there])
            except (ConnectionLost, MultiFailed) as again:
                log.info("deleting topic %s once more: %s", topic, again)
            else:
                return True
        return False

    async def delete_all(self, paths: Sequence[str]) -> None:
        """Those that exist."""
        await self.znodes.write_each([Delete(path) for path in paths])


def _leadership(partition: TopicPartition, data: bytes, stat: Stat) -> Leadership | None:
    try:
        state = PartitionState.decode(partition.topic, partition.partition, data)
    except BadZnode as bad:
        log.error("no state of %s: %s", partition, bad)
        return None
    return Leadership(
        state.leader,
        state.leader_epoch,
        state.isr,
        state.leader_recovery_state == LEADER_RECOVERING,
        state.controller_epoch,
        stat.version,
    )


def _state_data(leadership: Leadership) -> bytes:
    return PartitionState(
        leader=leadership.leader,
        leader_epoch=leadership.leader_epoch,
        isr=leadership.isr,
        controller_epoch=leadership.controller_epoch,
        leader_recovery_state=LEADER_RECOVERING if leadership.recovering else LEADER_RECOVERED,
    ).encode()
