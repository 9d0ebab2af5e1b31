"""Requests by epochs and generations that are over, as those send who have not heard of something for a while: leaders
and coordinators must refuse them."""

from collections.abc import Awaitable, Callable

from odradek.broker.groups.group_metadata import GroupMetadata, Member
from odradek.broker.log.errors import StorageFailure
from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
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


class StaleRequests(Director):
    """Requests to the brokers of one cluster; `topic`: the one whose positions a group commits."""

    def __init__(self, others: Faults, requests: RepeatedRequests, topic: str) -> None:
        super().__init__(others, requests)
        self._topic = topic
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "stale_requests": self.stale_requests,
            "stale_commits": self.stale_commits,
        }

    async def stale_requests(self) -> None:
        """Ask leaders by epochs that are over, as a client does that has heard of no election for a while."""
        for partition in self.led():
            if partition.leader_epoch > 0 and self.cluster.brokers[partition.local_id].running:
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
        has come in the place of a static one."""
        for broker in self.cluster.brokers:
            for group in broker.server.services.groups.groups if broker.running else []:
                for member in list(group.metadata.members.values()):
                    if broker.running:
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
        if answer is not None and answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self.others.history.violated(
                f"{broker.host}: a commit of {member_id} in generation {generation} is taken: {group}"
            )
