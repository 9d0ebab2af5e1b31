"""OffsetForLeaderEpoch: API key 23, versions 0-4, flexible from 4. To the leader.

Where an epoch ended in the leader's log: a follower or consumer truncates there, or finds out that it has to.

1   the epoch that the answer is about, which is the last one not above what was asked
2   current leader epoch in the request; throttle time
3   replica id; -2 is a debugging consumer that may see beyond the high watermark, -1 a consumer
4   flexible

The current epoch ends at the log end (high watermark for consumers); an older one where the next begins; an unknown or
future one is (-1, -1), not an error.
"""

from odradek.protocol.fields import INT16, INT32, INT64, STRING, Array, Message, Struct, field


class OffsetForLeaderPartition(Struct):
    partition: int = field(INT32, "0+")
    current_leader_epoch: int = field(INT32, "2+", default=-1)
    leader_epoch: int = field(INT32, "0+")


class OffsetForLeaderTopic(Struct):
    topic: str = field(STRING, "0+")
    partitions: list[OffsetForLeaderPartition] = field(Array(OffsetForLeaderPartition), "0+")


class OffsetForLeaderEpochRequest(Message):
    API_KEY = 23
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    replica_id: int = field(INT32, "3+", default=-2)
    topics: list[OffsetForLeaderTopic] = field(Array(OffsetForLeaderTopic), "0+")


class EpochEndOffset(Struct):
    error_code: int = field(INT16, "0+")
    partition: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "1+", default=-1)
    end_offset: int = field(INT64, "0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = field(STRING, "0+")
    partitions: list[EpochEndOffset] = field(Array(EpochEndOffset), "0+")


class OffsetForLeaderEpochResponse(Message):
    API_KEY = 23
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    throttle_time_ms: int = field(INT32, "2+")
    topics: list[OffsetForLeaderTopicResult] = field(Array(OffsetForLeaderTopicResult), "0+")
