"""Requests by epochs and generations that are over, as those send who have not heard of something for a while: leaders
and coordinators must refuse them. And where a partition ends for its readers is asked by the present epoch."""

from collections.abc import Awaitable, Callable

from odradek.broker.groups.group_metadata import GroupMetadata, GroupState, Member
from odradek.broker.log.errors import StorageFailure
from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    CONSUMER_REPLICA_ID,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from odradek.protocol.messages.list_offsets import (
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.record_batch import batches
from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulation.directing import Director
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.inspection import bytes_of
from odradek.testing.simulation.repeated_requests import RepeatedRequests
from odradek.testing.simulation.transactions_by_hand import TransactionByHand


class StaleRequests(Director):
    """Requests to the brokers of one cluster; `topic`: the one whose positions a group commits.

    `unsure` takes the names of transactional ids of which nobody knows how far they came.
    """

    def __init__(self, others: Faults, requests: RepeatedRequests, topic: str, unsure: set[str]) -> None:
        super().__init__(others, requests)
        self._topic, self._unsure = topic, unsure
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "stale_requests": self.stale_requests,
            "stale_commits": self.stale_commits,
        }

    async def stale_requests(self) -> None:
        """Ask leaders by epochs that are over, as a client does that has heard of no election for a while."""
        for partition in self.led():
            if self.cluster.brokers[partition.local_id].running:
                for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
                    for time_ms in (LATEST_TIMESTAMP, MAX_TIMESTAMP):
                        await self._ask_for_end(partition, isolation, time_ms)
                if partition.leader_epoch > 0:
                    await self._ask_by_former_epoch(partition)

    async def _ask_by_former_epoch(self, partition: Partition) -> None:
        former, ask = partition.leader_epoch - 1, self.others.administrator.ask
        broker, name = self.cluster.brokers[partition.local_id], partition.topic
        wanted = FetchPartition(
            partition=partition.index,
            current_leader_epoch=former,
            fetch_offset=partition.log.log_start_offset,
            partition_max_bytes=1000,
        )
        topic = FetchTopic(topic=name, topic_id=partition.topic_id, partitions=[wanted])
        answer = await ask(broker, FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=[topic]), 12)
        if answer is not None and answer.responses:
            self._judge(partition, former, "Fetch", answer.responses[0].partitions[0].error_code)
        asked = OffsetForLeaderPartition(partition=partition.index, current_leader_epoch=former, leader_epoch=former)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=[asked])])
        answer = await ask(broker, request, 4)
        if answer is not None and answer.topics:
            self._judge(partition, former, "OffsetForLeaderEpoch", answer.topics[0].partitions[0].error_code)
        asked.current_leader_epoch = former + 1
        answer = await ask(broker, request, 4)
        if answer is not None and answer.topics and partition.is_leader and partition.leader_epoch == former + 1:
            self._judge_end(partition, former, answer.topics[0].partitions[0].end_offset)

    async def _ask_for_end(self, partition: Partition, isolation: int, time_ms: int) -> None:
        """Ask for the end that a reader may see, or for the newest record before it."""
        epoch, least = partition.leader_epoch, _readable_end(partition, isolation)
        asked = ListOffsetsPartition(partition_index=partition.index, current_leader_epoch=epoch, timestamp=time_ms)
        request = ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA_ID,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])],
        )
        answer = await self.others.administrator.ask(self.cluster.brokers[partition.local_id], request, 7)
        if answer is None or not partition.is_leader or partition.leader_epoch != epoch:
            return
        told = answer.topics[0].partitions[0]
        if told.error_code == ErrorCode.NONE:
            self._judge_told(partition, isolation, time_ms, told.offset, least)

    def _judge_told(self, partition: Partition, isolation: int, time_ms: int, told: int, least: int) -> None:
        """Compare where a partition ends, or the offset of its newest record, with what its readers may see; `least`
        was the end before it was asked for."""
        end = _readable_end(partition, isolation)
        if not least <= told <= end if time_ms == LATEST_TIMESTAMP else told >= end:
            self.others.history.violated(
                f"{partition} tells of offset {told} for time {time_ms} and isolation level {isolation}, "
                f"readers had {least} and have {end}"
            )

    def _judge(self, partition: Partition, epoch: int, what: str, error: int) -> None:
        if error == ErrorCode.NONE:
            self.others.history.violated(f"{partition} has served a {what} of epoch {epoch}")

    def _judge_end(self, partition: Partition, epoch: int, told: int) -> None:
        """Compare the end of an epoch, as a leader has told it (-1: it does not know), with its batches."""
        log = partition.log
        if told < 0 or log.log_start_offset or log.config.compacts or self.others.history.rotten:
            return
        try:
            data = bytes_of(log, 0, log.log_end_offset)
        except (OSError, StorageFailure):  # its disk has failed, and perhaps it does not know it yet
            return
        later = (header.base_offset for _, header in batches(data) if header.leader_epoch > epoch)
        if told != (end := next(later, log.log_end_offset)):
            self.others.history.violated(f"{partition} tells that epoch {epoch} ends at {told}, it ends at {end}")

    async def stale_commits(self) -> None:
        """Ask coordinators to take commits of members as they were: of the last generation, or before another process
        has come in the place of a static one. Some of these are in a transaction (KIP-447)."""
        for broker in self.cluster.brokers:
            for group in broker.server.services.groups.groups if broker.running else []:
                for member in list(group.metadata.members.values()):
                    # Before the first generation comes -1, and whoever commits in that is a member of nothing
                    if broker.running and group.metadata.generation > 0:
                        await self._commit_as_before(broker, group.metadata, member)

    async def _commit_as_before(self, broker: EmbeddedBroker, group: GroupMetadata, member: Member) -> None:
        generation, member_id = group.generation, member.member_id
        if member.instance_id is not None and self.random.random() < 0.5:
            member_id = f"{member_id}-of-before"
        else:
            generation -= 1
        at = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        request = OffsetCommitRequest(
            group_id=group.group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=member.instance_id,
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=[at])],
        )
        answer = await self.others.administrator.ask(broker, request, 8)
        taken = answer is not None and answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        if not taken and self.random.random() < 0.5:
            one = TransactionByHand(self.others.administrator, self._unsure)
            if await one.begin() and await one.add_group(group.group_id):
                error = await one.commit(group.group_id, self._topic, 0, generation, member_id, member.instance_id)
                taken = error is ErrorCode.NONE
                await one.end(committed=False)
        # Loaded anew meanwhile, a group is in the last generation that is in the log, which may be the one before
        if taken and group.state is not GroupState.DEAD:
            self.others.history.violated(
                f"{broker.host}: a commit of {member_id} in generation {generation} is taken: {group}"
            )


def _readable_end(partition: Partition, isolation: int) -> int:
    return partition.last_stable_offset if isolation == READ_COMMITTED else partition.high_watermark
