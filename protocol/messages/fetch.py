"""Fetch (key 1), versions 0-17, flexible from 12+."""

from odradek.protocol.fields import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Array, Message, Struct, field
from odradek.protocol.primitives import Records


class ReplicaState(Struct):
    replica_id: int = field(INT32, "15+", default=-1)
    replica_epoch: int = field(INT64, "15+", default=-1)


class FetchPartition(Struct):
    partition: int = field(INT32, "0+")
    current_leader_epoch: int = field(INT32, "9+", default=-1)
    fetch_offset: int = field(INT64, "0+")
    last_fetched_epoch: int = field(INT32, "12+", default=-1)
    log_start_offset: int = field(INT64, "5+", default=-1)
    partition_max_bytes: int = field(INT32, "0+")
    replica_directory_id: bytes = field(UUID, "17+", tag=0)


class FetchTopic(Struct):
    topic: str = field(STRING, "0-12")
    topic_id: bytes = field(UUID, "13+")
    partitions: list[FetchPartition] = field(Array(FetchPartition), "0+")


class ForgottenTopic(Struct):
    topic: str = field(STRING, "7-12")
    topic_id: bytes = field(UUID, "13+")
    partitions: list[int] = field(Array(INT32), "7+")


class FetchRequest(Message):
    API_KEY = 1
    VERSIONS = (0, 17)
    FLEXIBLE_FROM = 12

    cluster_id: str | None = field(STRING, "12+", nullable="12+", tag=0, default=None)
    replica_id: int = field(INT32, "0-14", default=-1)
    replica_state: ReplicaState | None = field(ReplicaState, "15+", tag=1)
    max_wait_ms: int = field(INT32, "0+")
    min_bytes: int = field(INT32, "0+")
    max_bytes: int = field(INT32, "3+", default=0x7FFF_FFFF)
    isolation_level: int = field(INT8, "4+")
    session_id: int = field(INT32, "7+")
    session_epoch: int = field(INT32, "7+", default=-1)
    topics: list[FetchTopic] = field(Array(FetchTopic), "0+")
    forgotten_topics_data: list[ForgottenTopic] = field(Array(ForgottenTopic), "7+")
    rack_id: str = field(STRING, "11+")


class EpochEndOffset(Struct):
    epoch: int = field(INT32, "12+", default=-1)
    end_offset: int = field(INT64, "12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(INT32, "12+", default=-1)
    leader_epoch: int = field(INT32, "12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = field(INT64, "0+", default=-1)
    epoch: int = field(INT32, "0+", default=-1)


class AbortedTransaction(Struct):
    producer_id: int = field(INT64, "4+")
    first_offset: int = field(INT64, "4+")


class PartitionData(Struct):
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    high_watermark: int = field(INT64, "0+")
    last_stable_offset: int = field(INT64, "4+", default=-1)
    log_start_offset: int = field(INT64, "5+", default=-1)
    diverging_epoch: EpochEndOffset | None = field(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = field(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(Array(AbortedTransaction), "4+", nullable="4+")
    preferred_read_replica: int = field(INT32, "11+", default=-1)
    records: Records = field(RECORDS, "0+", nullable="0+")


class FetchableTopicResponse(Struct):
    topic: str = field(STRING, "0-12")
    topic_id: bytes = field(UUID, "13+")
    partitions: list[PartitionData] = field(Array(PartitionData), "0+")


class NodeEndpoint(Struct):
    node_id: int = field(INT32, "16+")
    host: str = field(STRING, "16+")
    port: int = field(INT32, "16+")
    rack: str | None = field(STRING, "16+", nullable="16+", default=None)


class FetchResponse(Message):
    API_KEY = 1
    VERSIONS = (0, 17)
    FLEXIBLE_FROM = 12

    throttle_time_ms: int = field(INT32, "1+")
    error_code: int = field(INT16, "7+")
    session_id: int = field(INT32, "7+")
    responses: list[FetchableTopicResponse] = field(Array(FetchableTopicResponse), "0+")
    node_endpoints: list[NodeEndpoint] = field(Array(NodeEndpoint), "16+", tag=0)
