"""OffsetCommit: API key 8, versions 0-9, flexible from 8. To the group's coordinator; version 0 to any broker.

Stores the offsets that a group has consumed. With generation -1 and no member it is a consumer that assigns its own
partitions, which is right only while the group has no members.

0   offsets go to ZooKeeper, /consumers/<group>/offsets/<topic>/<partition>, as a decimal number
1   to __consumer_offsets; generation and member; a time for each partition (only in this version)
2   retention time, until 4
3   throttle time
4   the client does its own throttling
5   no retention time: offsets.retention.minutes decides
6   leader epoch of the last consumed record
7   group instance id (static membership)
8   flexible
9   the same; the first version of the next consumer protocol (KIP-848), and GROUP_ID_NOT_FOUND may be answered

Metadata may be null; more than offset.metadata.max.bytes is OFFSET_METADATA_TOO_LARGE. The answer has every partition
of the request.
"""

from odradek.protocol.fields import INT16, INT32, INT64, STRING, Array, Message, Struct, field


class OffsetCommitRequestPartition(Struct):
    partition_index: int = field(INT32, "0+")
    committed_offset: int = field(INT64, "0+")
    committed_leader_epoch: int = field(INT32, "6+", default=-1)
    commit_timestamp: int = field(INT64, "1", default=-1)
    committed_metadata: str | None = field(STRING, "0+", nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[OffsetCommitRequestPartition] = field(Array(OffsetCommitRequestPartition), "0+")


class OffsetCommitRequest(Message):
    API_KEY = 8
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 8

    group_id: str = field(STRING, "0+")
    generation_id_or_member_epoch: int = field(INT32, "1+", default=-1)
    member_id: str = field(STRING, "1+")
    group_instance_id: str | None = field(STRING, "7+", nullable="7+", default=None)
    retention_time_ms: int = field(INT64, "2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = field(Array(OffsetCommitRequestTopic), "0+")


class OffsetCommitResponsePartition(Struct):
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")


class OffsetCommitResponseTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[OffsetCommitResponsePartition] = field(Array(OffsetCommitResponsePartition), "0+")


class OffsetCommitResponse(Message):
    API_KEY = 8
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 8

    throttle_time_ms: int = field(INT32, "3+")
    topics: list[OffsetCommitResponseTopic] = field(Array(OffsetCommitResponseTopic), "0+")
