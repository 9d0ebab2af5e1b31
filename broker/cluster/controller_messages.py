"""Partitions in the requests of controllers, of any version: how they are grouped has changed, what is said has not."""

from collections.abc import Iterator
from typing import Any, NamedTuple, overload

from odradek.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from odradek.protocol.messages.stop_replica import StopReplicaRequest
from odradek.protocol.messages.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest
from odradek.protocol.primitives import ZERO_UUID


class StoppedReplica(NamedTuple):
    """Partition of a StopReplica request of any version."""

    topic: str
    partition_index: int
    leader_epoch: int
    delete: bool


@overload
def partition_states(request: LeaderAndIsrRequest) -> Iterator[tuple[str, bytes, LeaderAndIsrPartitionState]]: ...
@overload
def partition_states(request: UpdateMetadataRequest) -> Iterator[tuple[str, bytes, UpdateMetadataPartitionState]]: ...
def partition_states(request: LeaderAndIsrRequest | UpdateMetadataRequest) -> Iterator[tuple[str, bytes, Any]]:
    """Yield topic, topic id and state of each partition in a LeaderAndIsr or an UpdateMetadata of any version."""
    for state in request.ungrouped_partition_states:
        yield state.topic_name, ZERO_UUID, state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state


def stopped_replicas(request: StopReplicaRequest) -> Iterator[StoppedReplica]:
    """Yield the partitions of a StopReplica of any version."""
    for ungrouped in request.ungrouped_partitions:
        yield StoppedReplica(ungrouped.topic_name, ungrouped.partition_index, -1, request.delete_partitions)
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield StoppedReplica(topic.name, index, -1, request.delete_partitions)
    for states in request.topic_states:
        for state in states.partition_states:
            yield StoppedReplica(states.topic_name, state.partition_index, state.leader_epoch, state.delete_partition)
