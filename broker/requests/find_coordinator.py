"""FindCoordinator (key 10), versions 0 to 6: which broker coordinates a group, or the transactions of a producer.

The group's partition of `__consumer_offsets` is led by its coordinator; its address is given for the listener that the
client came in by. While the topic does not exist it is created, and while it has no live leader the answer is
COORDINATOR_NOT_AVAILABLE. From version 4 many keys are asked for at once (KIP-699).

A transaction's coordinator leads the partition of `__transaction_state`, which is there when a broker of Kafka's is or
was in the cluster. We coordinate none, so where the topic is missing the answer is INVALID_REQUEST: clients give up
instead of asking for ever. So it is for share groups (key type 2), which Kafka 3.9 has only with KRaft.
"""

from typing import NamedTuple

from odradek.broker.groups.config import GROUP_METADATA_TOPIC
from odradek.broker.groups.partitioning import partition_for
from odradek.broker.metadata import TRANSACTION_STATE, Node
from odradek.broker.requests.group_services import GroupServices
from odradek.broker.requests.outcome import Outcome, Reply, RequestContext
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

REQUEST = FindCoordinatorRequest
VERSIONS = (0, 6)

GROUP, TRANSACTION = 0, 1
FIRST_VERSION_WITH_MANY_KEYS = 4
NO_NODE = Node(-1, "", -1)
REASONS = {
    ErrorCode.NONE: "NONE",
    ErrorCode.INVALID_REQUEST: "No broker of this cluster coordinates that.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}


class _Found(NamedTuple):
    error: ErrorCode
    node: Node = NO_NODE


def handle(broker: GroupServices, request: FindCoordinatorRequest, context: RequestContext) -> Outcome:
    many = context.api_version >= FIRST_VERSION_WITH_MANY_KEYS
    keys = request.coordinator_keys if many else [request.key]
    found = [(key, _find(broker, request.key_type, key, context.listener)) for key in keys]
    response = _many(found) if many else _one(found[0][1])
    if request.key_type == GROUP and not broker.metadata.partition_count(GROUP_METADATA_TOPIC):
        return _after_creating_topic(broker, response)
    return Reply(response)


async def _after_creating_topic(broker: GroupServices, response: FindCoordinatorResponse) -> Reply:
    """The client asks again, and finds the topic or a creation that goes on."""
    await broker.auto_create_topic(GROUP_METADATA_TOPIC)
    return Reply(response)


def _find(broker: GroupServices, key_type: int, key: str, listener: str) -> _Found:
    metadata = broker.metadata
    if key_type == GROUP:
        node = metadata.leader_node(GROUP_METADATA_TOPIC, broker.groups.partition_for(key), listener)
    elif key_type == TRANSACTION and (count := metadata.partition_count(TRANSACTION_STATE)):
        node = metadata.leader_node(TRANSACTION_STATE, partition_for(key, count), listener)
    else:
        return _Found(ErrorCode.INVALID_REQUEST)
    return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE) if node is None else _Found(ErrorCode.NONE, node)


def _one(found: _Found) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=found.error,
        error_message=REASONS[found.error],
        node_id=found.node.id,
        host=found.node.host,
        port=found.node.port,
    )


def _many(found: list[tuple[str, _Found]]) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key,
                node_id=one.node.id,
                host=one.node.host,
                port=one.node.port,
                error_code=one.error,
                error_message=REASONS[one.error] if one.error else "",
            )
            for key, one in found
        ]
    )
