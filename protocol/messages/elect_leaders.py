"""ElectLeaders: API key 43, versions 0-2, flexible from 2. To the controller.

Elects leaders: type 0 the preferred replica, type 1 any live one where there is no leader, which may lose data.

1   election type; an error for the whole answer. Version 0 is preferred elections only
2   flexible

Null partitions mean all; then only partitions for which something had to be done are in the answer, else those
without need have ELECTION_NOT_NEEDED. PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
"""

from odradek.protocol.fields import INT8, INT16, INT32, STRING, Array, Message, Struct, field


class TopicPartitions(Struct):
    topic: str = field(STRING, "0+")
    partitions: list[int] = field(Array(INT32), "0+")


class ElectLeadersRequest(Message):
    API_KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    election_type: int = field(INT8, "1+")
    topic_partitions: list[TopicPartitions] | None = field(Array(TopicPartitions), "0+", nullable="0+")
    timeout_ms: int = field(INT32, "0+", default=60000)


class PartitionResult(Struct):
    partition_id: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")


class ReplicaElectionResult(Struct):
    topic: str = field(STRING, "0+")
    partition_result: list[PartitionResult] = field(Array(PartitionResult), "0+")


class ElectLeadersResponse(Message):
    API_KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "1+")
    replica_election_results: list[ReplicaElectionResult] = field(Array(ReplicaElectionResult), "0+")
