"""Consumer lag, in records and in seconds, of the groups that this broker coordinates; at the controller also of those
that keep their offsets in ZooKeeper.

Collected at the group's coordinator, because it alone knows what a group has committed, at the moment it does, and each
group has just one: no broker reads a foreign log, no series comes twice, and no exporter beside the cluster is needed.
Ends of partitions that another broker leads are asked of their leaders, one ListOffsets each, every LOOK_MS, and only
while `metrics.port` is set. Offsets under /consumers, of the consumer of Kafka 0.8, have no coordinator: the controller
reads them, every ZOOKEEPER_LOOKS looks. Both brokers report a group that commits to both places
(`dual.commit.enabled`); if they are one, it reports what the group has committed to the coordinator.

Seconds: when the record that a group reads next was the end of the partition. Ends are remembered with their times, and
interpolated between two looks. A group that is behind all that is remembered is behind at least that long.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count, pairwise
from typing import Final, NamedTuple

from odradek.broker.cluster.broker_client import BrokerClient
from odradek.broker.groups.group import CoordinatedGroup
from odradek.broker.monitoring.metric import Labels, Samples
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import CONSUMER_REPLICA_ID
from odradek.protocol.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.topic_names import PartitionKey
from odradek.world.clock import sleep
from odradek.world.time_slices import TimeSlice
from odradek.zk_schema.store import NoNode, Store, StoreError, children_if_any
from odradek.zk_schema.znodes.consumers import (
    CONSUMERS_PATH,
    consumer_ids_path,
    decode_offset,
    group_path,
    offset_path,
    offsets_path,
)
from odradek.zk_schema.znodes.json_data import BadZnode, number_named

log = logging.getLogger(__name__)

LOOK_MS: Final = 5_000.0
ZOOKEEPER_LOOKS: Final = 3
ZOOKEEPER_OFFSETS_MAX: Final = 10_000
"""Most offsets in ZooKeeper that are reported; those of groups behind them in the alphabet are not."""
REMEMBERED: Final = 720
"""Ends of a partition that are remembered: an hour of them."""
ANSWER_MS: Final = 5_000.0
VERSION: Final = 5


class End(NamedTuple):
    """End of a partition's log at some time."""

    at_s: float
    offset: int


class PartitionEnds:
    """The ends of one partition, oldest first. An end that has not moved is kept with the last time it was seen."""

    def __init__(self) -> None:
        self._ends: deque[End] = deque(maxlen=REMEMBERED)

    def note(self, at_s: float, offset: int) -> None:
        """Remember where the partition ends now. If the end went back (an unclean election), greater ends are
        forgotten."""
        while self._ends and self._ends[-1].offset > offset:
            self._ends.pop()
        if len(self._ends) > 1 and self._ends[-1].offset == self._ends[-2].offset == offset:
            self._ends.pop()
        self._ends.append(End(at_s, offset))

    @property
    def last(self) -> int:
        """Latest end that is known."""
        return self._ends[-1].offset

    def behind_s(self, committed: int, now_s: float) -> float:
        """Return how many seconds ago the record at `committed` was written, as far as ends are remembered.

        0.0 for a group that has committed the last known end.
        """
        if committed >= self.last:
            return 0.0
        for before, after in reversed(list(pairwise(self._ends))):
            if before.offset <= committed < after.offset:
                share = (committed - before.offset) / (after.offset - before.offset)
                return max(0.0, now_s - (before.at_s + share * (after.at_s - before.at_s)))
        return now_s - self._ends[0].at_s


class ConsumerLag:
    """Keeps track of the ends of the partitions for which groups here have committed offsets."""

    def __init__(self, services: Services, client: BrokerClient) -> None:
        self._services, self._client = services, client
        self._ends: dict[PartitionKey, PartitionEnds] = {}
        self._in_zookeeper = ZooKeeperOffsets(services.zookeeper)

    async def run(self) -> None:
        """Look every LOOK_MS, for ever."""
        for number in count():
            if not self._services.controller.is_active:
                self._in_zookeeper.forget()
            elif number % ZOOKEEPER_LOOKS == 0:
                await self._in_zookeeper.look()
            await self.look()
            await sleep(self._services.clock, LOOK_MS)

    async def look(self) -> None:
        """Learn the ends of all partitions that groups here have committed, and forget those of others."""
        wanted: set[PartitionKey] = {(topic, index) for _, topic, index in self._in_zookeeper.offsets}
        turn = TimeSlice(self._services.clock)
        for group in self._groups():
            wanted.update(partition for partition, _ in group.offsets.items())
            await turn.pause_if_over()
        self._ends = {partition: ends for partition, ends in self._ends.items() if partition in wanted}
        elsewhere: dict[int, list[PartitionKey]] = {}
        for topic, index in wanted:
            partition = self._services.replicas.partitions.get((topic, index))
            if partition is not None and partition.is_leader:
                self._note((topic, index), partition.high_watermark)
                continue
            known = self._services.metadata.partition(topic, index)
            if known is not None and known.leader >= 0:
                elsewhere.setdefault(known.leader, []).append((topic, index))
        for leader, partitions in elsewhere.items():
            await self._ask(leader, partitions)

    def close(self) -> None:
        """Give up what is in flight. Harmless twice."""
        self._client.close()

    async def _ask(self, leader: int, partitions: Iterable[PartitionKey]) -> None:
        """Ask a leader for the ends of its partitions; they stay as they were known if it cannot be reached."""
        topics: dict[str, ListOffsetsTopic] = {}
        for topic, index in partitions:
            asked = topics.setdefault(topic, ListOffsetsTopic(name=topic))
            asked.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=LATEST_TIMESTAMP))
        request = ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, topics=list(topics.values()))
        try:
            response = await self._client.to_broker(leader, request, VERSION, ANSWER_MS)
        except OSError:
            return
        assert isinstance(response, ListOffsetsResponse)
        for topic_answer in response.topics:
            for answer in topic_answer.partitions:
                if answer.error_code == ErrorCode.NONE:
                    self._note((topic_answer.name, answer.partition_index), answer.offset)

    def _note(self, partition: PartitionKey, offset: int) -> None:
        self._ends.setdefault(partition, PartitionEnds()).note(self._services.clock.perf_counter(), offset)

    def _groups(self) -> list[CoordinatedGroup]:
        return self._services.groups.groups

    # what is told

    def committed(self) -> Iterator[tuple[Labels, int]]:
        """Yield committed offsets, by group, topic and partition."""
        in_zookeeper_alone = dict(self._in_zookeeper.offsets)
        for group in self._groups():
            for (topic, index), committed in list(group.offsets.items()):
                in_zookeeper_alone.pop((group.metadata.group_id, topic, index), None)
                yield (group.metadata.group_id, topic, str(index)), committed.offset
        for (group_id, topic, index), offset in in_zookeeper_alone.items():
            yield (group_id, topic, str(index)), offset

    def records(self) -> Samples:
        """Yield how many records lie between committed offset and high watermark, where that is known."""
        for labels, committed in self.committed():
            ends = self._ends.get((labels[1], int(labels[2])))
            if ends is not None:
                yield labels, max(0, ends.last - committed)

    def seconds(self) -> Samples:
        """Yield how many seconds each group is behind in each partition."""
        now_s = self._services.clock.perf_counter()
        for labels, committed in self.committed():
            ends = self._ends.get((labels[1], int(labels[2])))
            if ends is not None:
                yield labels, ends.behind_s(committed, now_s)

    def of_group(self, group_id: str) -> list[list[object]]:
        """Return topic, partition, offset, records and seconds behind of what a group has committed, as known here."""
        now_s = self._services.clock.perf_counter()
        committed = {
            (topic, index): offset
            for (group, topic, index), offset in self._in_zookeeper.offsets.items()
            if group == group_id
        }
        for one in self._groups():  # and nothing of the others, whose offsets may be many
            if one.metadata.group_id == group_id:
                committed |= {partition: held.offset for partition, held in one.offsets.items()}
        return [
            [*partition, offset, max(0, ends.last - offset), round(ends.behind_s(offset, now_s), 1)]
            for partition, offset in committed.items()
            if (ends := self._ends.get(partition)) is not None
        ]

    @property
    def groups_in_zookeeper(self) -> dict[str, int]:
        """Groups that keep their offsets in ZooKeeper, with their numbers of members; at the controller alone."""
        return self._in_zookeeper.members

    def members(self) -> Samples:
        """Yield the number of members of each group."""
        in_zookeeper_alone = dict(self._in_zookeeper.members)
        for group in self._groups():
            group_id = group.metadata.group_id
            yield (group_id,), len(group.metadata.members) + in_zookeeper_alone.pop(group_id, 0)
        for group_id, members in in_zookeeper_alone.items():
            yield (group_id,), members


class ZooKeeperOffsets:
    """Offsets and members of the groups under /consumers, as of the last look."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.offsets: dict[tuple[str, str, int], int] = {}
        """Committed offsets by group, topic and partition."""
        self.members: dict[str, int] = {}
        """Numbers of members by group, of groups that have offsets."""

    def forget(self) -> None:
        """Forget all: another broker tells of these groups now."""
        self.offsets, self.members = {}, {}

    async def look(self) -> None:
        """Read all offsets and members; what was known stays while ZooKeeper does not answer."""
        offsets: dict[tuple[str, str, int], int] = {}
        members: dict[str, int] = {}
        try:
            for group in await children_if_any(self._store, CONSUMERS_PATH):
                for topic in await children_if_any(self._store, f"{group_path(group)}/offsets"):
                    room = ZOOKEEPER_OFFSETS_MAX - len(offsets)
                    there = await children_if_any(self._store, offsets_path(group, topic))
                    indexes = [index for one in there if (index := number_named(one)) is not None][:room]
                    found = await asyncio.gather(*(self._offset(group, topic, one) for one in indexes))
                    offsets |= {
                        (group, topic, index): offset
                        for index, offset in zip(indexes, found, strict=True)
                        if offset is not None
                    }
                    members[group] = 0
                if group in members:
                    members[group] = len(await children_if_any(self._store, consumer_ids_path(group)))
        except StoreError as error:
            log.debug("the offsets in ZooKeeper cannot be read: %s", error)
            return
        self.offsets, self.members = offsets, members

    async def _offset(self, group: str, topic: str, index: int) -> int | None:
        """Return a committed offset; None where somebody has just deleted it, or it is not a number."""
        try:
            data, _ = await self._store.get(offset_path(group, topic, index))
            return decode_offset(group, topic, index, data)
        except (NoNode, BadZnode):
            return None
