"""Topics, and offsets of groups, that are deleted while something else goes on."""

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.topic_names import CONSUMER_OFFSETS
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.usual_requests import create_topic_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from tests.sim.asking import Asking

TOPIC, OTHER, GROUP = "t", "u", "g"


class Group(Asking):
    """A group without members, and the topics whose offsets it commits."""

    def is_coordinator(self, broker: EmbeddedBroker) -> bool:
        groups = broker.server.services.groups
        return groups.serves_partition(groups.partition_for(GROUP))

    async def coordinator(self) -> EmbeddedBroker:
        return await self.find(self.is_coordinator)

    async def controller(self) -> EmbeddedBroker:
        return await self.find(lambda broker: broker.server.services.controller.is_active)

    async def commit(self, offset: int, *topics: str) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        committed = [OffsetCommitRequestTopic(name=topic, partitions=[partition]) for topic in topics]
        answer = await self.ask(await self.coordinator(), OffsetCommitRequest(group_id=GROUP, topics=committed), 5)
        assert {topic.partitions[0].error_code for topic in answer.topics} == {ErrorCode.NONE}

    async def committed(self, *topics: str) -> list[int]:
        asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0]) for topic in topics]
        answer = await self.ask(await self.coordinator(), OffsetFetchRequest(group_id=GROUP, topics=asked), 5)
        return [topic.partitions[0].committed_offset for topic in answer.topics]


@pytest.mark.parametrize("another_has_the_log", [True, False])
def test_a_coordinator_forgets_what_was_committed_for_a_topic_that_was_deleted_while_nobody_coordinated(
    another_has_the_log: bool,
) -> None:
    """Those who heard of the deletion had no groups, and who loaded the group then heard of none: when the topic was
    made anew, its readers went on from an offset of the old one."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 3, {"offsets.topic.num.partitions": "1"}) as cluster:
            group = Group(cluster)
            controller = await group.controller()
            first, second = [broker for broker in cluster.brokers if broker is not controller]
            replicas = [first.broker_id, second.broker_id] if another_has_the_log else [first.broker_id]
            await group.ask(controller, create_topic_request(CONSUMER_OFFSETS, replicas), 7)
            for topic in (TOPIC, OTHER):
                await group.ask(controller, create_topic_request(topic, [controller.broker_id]), 7)
            assert await group.coordinator() is first
            await group.commit(7, TOPIC, OTHER)
            first.kill()
            await group.ask(controller, DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=5_000), 3)
            if not another_has_the_log:
                await first.start()
            assert await group.coordinator() is (second if another_has_the_log else first)
            await group.ask(controller, create_topic_request(TOPIC, [controller.broker_id]), 7)
            assert await group.committed(TOPIC, OTHER) == [-1, 7]

    run_virtual(main)


def test_offsets_that_are_deleted_while_too_few_replicas_are_in_sync_stay_deleted() -> None:
    """Their tombstones were refused, nobody wrote them later, and with the next coordinator the offsets were back."""

    async def main(clock: VirtualClock) -> None:
        settings = {"offsets.topic.num.partitions": "1", "min.insync.replicas": "2"}
        async with EmbeddedCluster(clock, 3, settings) as cluster:
            group = Group(cluster)
            controller = await group.controller()
            first, second = [broker for broker in cluster.brokers if broker is not controller]

            async def until_in_sync(*brokers: EmbeddedBroker) -> None:
                ids = {broker.broker_id for broker in brokers}
                held = first.server.services.replicas.partitions
                await group.find(lambda _: held[CONSUMER_OFFSETS, 0].committed_isr == ids)

            replicas = [first.broker_id, second.broker_id]
            await group.ask(controller, create_topic_request(CONSUMER_OFFSETS, replicas), 7)
            await group.ask(controller, create_topic_request(TOPIC, [controller.broker_id]), 7)
            assert await group.coordinator() is first
            await group.commit(7, TOPIC)
            second.kill()
            await until_in_sync(first)
            topics = [OffsetDeleteRequestTopic(name=TOPIC, partitions=[OffsetDeleteRequestPartition()])]
            answer = await group.ask(first, OffsetDeleteRequest(group_id=GROUP, topics=topics), 0)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
            await second.start()
            await until_in_sync(first, second)
            first.kill()
            assert await group.coordinator() is second
            assert await group.committed(TOPIC) == [-1]

    run_virtual(main)
