"""ListPartitionReassignments: API key 46, version 0, flexible from 0. To the controller.

The reassignments under way: all replicas, those being added, those being removed. Null topics mean all; partitions
without one are left out.
"""

from odradek.protocol.fields import INT16, INT32, STRING, Array, Message, Struct, field


class ListPartitionReassignmentsTopics(Struct):
    name: str = field(STRING, "0+")
    partition_indexes: list[int] = field(Array(INT32), "0+")


class ListPartitionReassignmentsRequest(Message):
    API_KEY = 46
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    timeout_ms: int = field(INT32, "0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        Array(ListPartitionReassignmentsTopics), "0+", nullable="0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = field(INT32, "0+")
    replicas: list[int] = field(Array(INT32), "0+")
    adding_replicas: list[int] = field(Array(INT32), "0+")
    removing_replicas: list[int] = field(Array(INT32), "0+")


class OngoingTopicReassignment(Struct):
    name: str = field(STRING, "0+")
    partitions: list[OngoingPartitionReassignment] = field(Array(OngoingPartitionReassignment), "0+")


class ListPartitionReassignmentsResponse(Message):
    API_KEY = 46
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = field(Array(OngoingTopicReassignment), "0+")
