"""ListOffsets: API key 2, versions 0-9, flexible from 6. To the leader.

The offset for a point in time: of the first record whose timestamp is not smaller. Times below zero are names: -1
latest (high watermark, or last stable offset for read_committed), -2 earliest, -3 the record with the largest
timestamp, -4 earliest on local disk, -5 last in tiered storage.

1   one offset with its timestamp; version 0 asks for up to `max_num_offsets` and gets the log end and the starts of
    segments, largest first, with the times of files
2   isolation level; throttle time in the response
3   the client does its own throttling
4   current leader epoch, and the epoch of the offset in the response
5   OFFSET_NOT_AVAILABLE while a new leader's high watermark is behind; below it is LEADER_NOT_AVAILABLE
6   flexible
7   -3
8   -4
9   -5

No record found is offset -1, timestamp -1, no error. The latest offset must not move backwards over an election:
readers take that for lost data.
"""

from odradek.protocol.fields import INT8, INT16, INT32, INT64, STRING, Array, Message, Struct, field

LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP = -4, -5


class ListOffsetsPartition(Struct):
    partition_index: int = field(INT32, "0+")
    current_leader_epoch: int = field(INT32, "4+", default=-1)
    timestamp: int = field(INT64, "0+")
    max_num_offsets: int = field(INT32, "0", default=1)


class ListOffsetsTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[ListOffsetsPartition] = field(Array(ListOffsetsPartition), "0+")


class ListOffsetsRequest(Message):
    API_KEY = 2
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6

    replica_id: int = field(INT32, "0+")
    isolation_level: int = field(INT8, "2+")
    topics: list[ListOffsetsTopic] = field(Array(ListOffsetsTopic), "0+")


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    old_style_offsets: list[int] = field(Array(INT64), "0")
    timestamp: int = field(INT64, "1+", default=-1)
    offset: int = field(INT64, "1+", default=-1)
    leader_epoch: int = field(INT32, "4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = field(STRING, "0+")
    partitions: list[ListOffsetsPartitionResponse] = field(Array(ListOffsetsPartitionResponse), "0+")


class ListOffsetsResponse(Message):
    API_KEY = 2
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6

    throttle_time_ms: int = field(INT32, "2+")
    topics: list[ListOffsetsTopicResponse] = field(Array(ListOffsetsTopicResponse), "0+")
