"""Fetch: API key 1, versions 0-17, flexible from 12. To the leader, or to the replica that the leader preferred.

Reads record batches from an offset on: consumers up to the high watermark or the last stable offset, followers up to
the log end. It waits up to `max_wait_ms` for `min_bytes`, and ends at once when any partition has an error.

1   throttle time in the response
2   records of magic 1 may come back; 0 and 1 get magic 0
3   a limit for the whole answer; partitions are filled in the order of the request, and the first that has anything
    returns at least one whole batch. Below 3 the limit is hard and cuts batches
4   isolation level, last stable offset, aborted transactions; records of magic 2
5   log start offset: of the follower in the request, of the leader in the response
6   KAFKA_STORAGE_ERROR; below it is NOT_LEADER_OR_FOLLOWER
7   fetch sessions (KIP-227): (0, -1) none, (0, 0) opens one, then only changes are sent; topics to forget
8   the client does its own throttling
9   current leader epoch, for FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH (KIP-320)
10  zstd; below 10 such data is UNSUPPORTED_COMPRESSION_TYPE
11  rack of the consumer, preferred replica in the response (KIP-392)
12  flexible; epoch of the last fetched record, and where the logs part in the response (KIP-595); current leader
13  topic ids instead of names (KIP-516)
14  OFFSET_MOVED_TO_TIERED_STORAGE may be answered
15  replica id and broker epoch as one tagged struct, which consumers leave out (KIP-903)
16  endpoints of new leaders (KIP-951)
17  directory id of the follower (KIP-853)

Records are never null in an answer, not even with an error: librdkafka and kafka-python fail on null. Aborted
transactions may be null, and matter only to read_committed. A full answer has every partition of the request; an
incremental one those with records, errors, a preferred replica, or a changed high watermark, last stable or log start
offset, and it too waits for `max_wait_ms`.
"""

from odradek.protocol.fields import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Array, Message, Struct, field
from odradek.protocol.primitives import Records

CONSUMER_REPLICA_ID, DEBUGGING_REPLICA_ID = -1, -2
"""Replica ids of those who are no followers, also in ListOffsets; a debugging consumer reads like a follower."""
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels, also in ListOffsets."""

FIRST_VERSION_WITH_TIMESTAMPS = 2
LAST_VERSION_WITH_HARD_LIMIT = 2
"""Last version whose answers are cut at the limit: the client sees from the cut message that its limit is too small."""
FIRST_VERSION_WITH_BATCHES = 4
LAST_VERSION_WITHOUT_STORAGE_ERROR = 5
FIRST_VERSION_WITH_ZSTD = 10
FIRST_VERSION_FROM_FOLLOWERS = 11
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_LEADER_HINT = 16
"""First version with the current leader, where it has moved, and the leaders' endpoints."""


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
