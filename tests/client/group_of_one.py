"""A scripted broker with a group of one member, and KafkaConsumers that read there."""

from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.client import KafkaConsumer
from odradek.client.consumer.group_protocol import encode_assignment
from odradek.client.consumer.subscription import RebalanceListener
from odradek.client.records import TopicPartition
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.records import encode_batch

T0 = TopicPartition("t", 0)

LONG_MS = 30_000


def make_coordinator(broker: Any) -> None:
    """Answers as for a group of one, which gets partition 0; its log begins at offset 3 and never gets a record."""
    found = Coordinator(key="g", node_id=0, host=broker.name, port=broker.port)
    start = ListOffsetsPartitionResponse(partition_index=0, offset=3)
    committed = OffsetCommitResponsePartition(partition_index=0)
    broker.handlers |= {
        FindCoordinatorRequest: lambda _: FindCoordinatorResponse(coordinators=[found]),
        JoinGroupRequest: lambda _: JoinGroupResponse(
            generation_id=1, member_id="me", leader="other", protocol_name="range"
        ),
        SyncGroupRequest: lambda _: SyncGroupResponse(assignment=encode_assignment([T0])),
        HeartbeatRequest: lambda _: HeartbeatResponse(),
        LeaveGroupRequest: lambda _: LeaveGroupResponse(),
        OffsetFetchRequest: lambda _: OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g")]),
        OffsetCommitRequest: lambda _: OffsetCommitResponse(
            topics=[OffsetCommitResponseTopic(name="t", partitions=[committed])]
        ),
        ListOffsetsRequest: lambda _: ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="t", partitions=[start])]
        ),
        FetchRequest: lambda _: None,
    }


def consumer(broker: Any, **settings: Any) -> KafkaConsumer:
    return KafkaConsumer(bootstrap_servers=f"127.0.0.1:{broker.port}", group_id="g", **settings)


class Listener(RebalanceListener):
    """Notes what it hears; `react` is called on every assignment."""

    def __init__(self, react: Callable[[], object] = lambda: None) -> None:
        self.heard: list[tuple[str, list[TopicPartition]]] = []
        self.react = react

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.heard.append(("assigned", list(assigned)))
        self.react()

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.heard.append(("revoked", list(revoked)))


def arrive(reading: KafkaConsumer, offset: int, *values: bytes) -> None:
    """Partition 0 is at this offset, and the records from there on have been fetched."""
    reading.seek(T0, offset)
    with reading._core._shared.lock:
        version = reading._core._shared.positions.partitions[T0].version
        records = memoryview(encode_batch(offset, [0] * len(values), [None] * len(values), values))
        reading._core._shared.chunks[T0] = deque([Chunk(T0, records, offset, version, None)])
