"""AlterPartitionReassignments: API key 45, version 0, flexible from 0. To the controller.

Gives partitions new replicas. Null replicas cancel a reassignment that is under way; NO_REASSIGNMENT_IN_PROGRESS when
there is none.

INVALID_REPLICA_ASSIGNMENT for replicas that are empty, repeated or unknown. The answer does not wait for the data to
move: ListPartitionReassignments tells.
"""

from odradek.protocol.fields import INT16, INT32, STRING, Array, Message, Struct, field


class ReassignablePartition(Struct):
    partition_index: int = field(INT32, "0+")
    replicas: list[int] | None = field(Array(INT32), "0+", nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[ReassignablePartition] = field(Array(ReassignablePartition), "0+")


class AlterPartitionReassignmentsRequest(Message):
    API_KEY = 45
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    timeout_ms: int = field(INT32, "0+", default=60000)
    topics: list[ReassignableTopic] = field(Array(ReassignableTopic), "0+")


class ReassignablePartitionResponse(Struct):
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")


class ReassignableTopicResponse(Struct):
    name: str = field(STRING, "0+")
    partitions: list[ReassignablePartitionResponse] = field(Array(ReassignablePartitionResponse), "0+")


class AlterPartitionReassignmentsResponse(Message):
    API_KEY = 45
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = field(Array(ReassignableTopicResponse), "0+")
