"""CreateTopics: API key 19, versions 0-7, flexible from 5. To the controller.

Creates topics, by partition count and replication factor or by an assignment of replicas.

1   `validate_only`; error message
2   throttle time
3   the client does its own throttling
4   partition count and replication factor may be -1 for the broker's defaults (KIP-464)
5   flexible; counts and configuration in the response (KIP-525). Who may not describe them gets null configurations
    and the reason in the tagged `topic_config_error_code`
6   THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
7   topic ids in the response

NOT_CONTROLLER from any other broker. The answer comes when the topic is known to the brokers, or with
REQUEST_TIMED_OUT after `timeout_ms`: the topic is made nevertheless. config_source: 1 topic, 2 broker (dynamic),
3 cluster default (dynamic), 4 broker file, 5 built-in default.
"""

from odradek.protocol.fields import BOOL, INT8, INT16, INT32, STRING, UUID, Array, Message, Struct, field


class CreatableReplicaAssignment(Struct):
    partition_index: int = field(INT32, "0+")
    broker_ids: list[int] = field(Array(INT32), "0+")


class CreatableTopicConfig(Struct):
    name: str = field(STRING, "0+")
    value: str | None = field(STRING, "0+", nullable="0+")


class CreatableTopic(Struct):
    name: str = field(STRING, "0+")
    num_partitions: int = field(INT32, "0+")
    replication_factor: int = field(INT16, "0+")
    assignments: list[CreatableReplicaAssignment] = field(Array(CreatableReplicaAssignment), "0+")
    configs: list[CreatableTopicConfig] = field(Array(CreatableTopicConfig), "0+")


class CreateTopicsRequest(Message):
    API_KEY = 19
    VERSIONS = (0, 7)
    FLEXIBLE_FROM = 5

    topics: list[CreatableTopic] = field(Array(CreatableTopic), "0+")
    timeout_ms: int = field(INT32, "0+", default=60000)
    validate_only: bool = field(BOOL, "1+")


class CreatableTopicConfigs(Struct):
    name: str = field(STRING, "5+")
    value: str | None = field(STRING, "5+", nullable="5+")
    read_only: bool = field(BOOL, "5+")
    config_source: int = field(INT8, "5+", default=-1)
    is_sensitive: bool = field(BOOL, "5+")


class CreatableTopicResult(Struct):
    name: str = field(STRING, "0+")
    topic_id: bytes = field(UUID, "7+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "1+", nullable="0+")
    topic_config_error_code: int = field(INT16, "5+", tag=0)
    num_partitions: int = field(INT32, "5+", default=-1)
    replication_factor: int = field(INT16, "5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field(Array(CreatableTopicConfigs), "5+", nullable="5+")


class CreateTopicsResponse(Message):
    API_KEY = 19
    VERSIONS = (0, 7)
    FLEXIBLE_FROM = 5

    throttle_time_ms: int = field(INT32, "2+")
    topics: list[CreatableTopicResult] = field(Array(CreatableTopicResult), "0+")
