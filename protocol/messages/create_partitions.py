"""CreatePartitions: API key 37, versions 0-3, flexible from 2. To the controller.

Raises the number of partitions of topics; `count` is the new total. `assignments` are the replicas of the new ones,
null: the controller's choice.

1   the client does its own throttling
2   flexible
3   THROTTLING_QUOTA_EXCEEDED may be answered

Fewer partitions or the same number is INVALID_PARTITIONS. `validate_only` changes nothing.
"""

from odradek.protocol.fields import BOOL, INT16, INT32, STRING, Array, Message, Struct, field


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = field(Array(INT32), "0+")


class CreatePartitionsTopic(Struct):
    name: str = field(STRING, "0+")
    count: int = field(INT32, "0+")
    assignments: list[CreatePartitionsAssignment] | None = field(Array(CreatePartitionsAssignment), "0+", nullable="0+")


class CreatePartitionsRequest(Message):
    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    topics: list[CreatePartitionsTopic] = field(Array(CreatePartitionsTopic), "0+")
    timeout_ms: int = field(INT32, "0+")
    validate_only: bool = field(BOOL, "0+")


class CreatePartitionsTopicResult(Struct):
    name: str = field(STRING, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


class CreatePartitionsResponse(Message):
    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = field(INT32, "0+")
    results: list[CreatePartitionsTopicResult] = field(Array(CreatePartitionsTopicResult), "0+")
