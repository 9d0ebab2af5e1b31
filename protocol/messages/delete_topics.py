"""DeleteTopics: API key 20, versions 0-6, flexible from 4. To the controller.

Marks topics for deletion and waits up to `timeout_ms` for it to be done.

1   throttle time
2   the client does its own throttling
3   TOPIC_DELETION_DISABLED when delete.topic.enable is false; below it is INVALID_REQUEST
4   flexible
5   error message; THROTTLING_QUOTA_EXCEEDED may be answered
6   topics by name or by id, in a list of structs that replaces the list of names
"""

from odradek.protocol.fields import INT16, INT32, STRING, UUID, Array, Message, Struct, field


class DeleteTopicState(Struct):
    name: str | None = field(STRING, "6+", nullable="6+", default=None)
    topic_id: bytes = field(UUID, "6+")


class DeleteTopicsRequest(Message):
    API_KEY = 20
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 4

    topics: list[DeleteTopicState] = field(Array(DeleteTopicState), "6+")
    topic_names: list[str] = field(Array(STRING), "0-5")
    timeout_ms: int = field(INT32, "0+")


class DeletableTopicResult(Struct):
    name: str | None = field(STRING, "0+", nullable="6+")
    topic_id: bytes = field(UUID, "6+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "5+", nullable="5+", default=None)


class DeleteTopicsResponse(Message):
    API_KEY = 20
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 4

    throttle_time_ms: int = field(INT32, "1+")
    responses: list[DeletableTopicResult] = field(Array(DeletableTopicResult), "0+")
