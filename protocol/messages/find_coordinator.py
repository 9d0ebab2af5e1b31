"""FindCoordinator: API key 10, versions 0-6, flexible from 3. To any broker.

Which broker coordinates a group or a transactional id: the leader of a partition of __consumer_offsets or of
__transaction_state, which is made when it does not exist yet (COORDINATOR_NOT_AVAILABLE meanwhile).

1   key type: 0 group, 1 transaction; throttle time, error message
2   the client does its own throttling
3   flexible
4   several keys in one request, an answer for each (KIP-699)
5   TRANSACTION_ABORTABLE may be answered
6   key type 2, share groups, which a ZooKeeper-mode broker refuses with INVALID_REQUEST
"""

from odradek.protocol.fields import INT8, INT16, INT32, STRING, Array, Message, Struct, field


class FindCoordinatorRequest(Message):
    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 3

    key: str = field(STRING, "0-3")
    key_type: int = field(INT8, "1+")
    coordinator_keys: list[str] = field(Array(STRING), "4+")


class Coordinator(Struct):
    key: str = field(STRING, "4+")
    node_id: int = field(INT32, "4+")
    host: str = field(STRING, "4+")
    port: int = field(INT32, "4+")
    error_code: int = field(INT16, "4+")
    error_message: str | None = field(STRING, "4+", nullable="4+")


class FindCoordinatorResponse(Message):
    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 3

    throttle_time_ms: int = field(INT32, "1+")
    error_code: int = field(INT16, "0-3")
    error_message: str | None = field(STRING, "1-3", nullable="1-3")
    node_id: int = field(INT32, "0-3")
    host: str = field(STRING, "0-3")
    port: int = field(INT32, "0-3")
    coordinators: list[Coordinator] = field(Array(Coordinator), "4+")
