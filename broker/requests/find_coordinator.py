"""FindCoordinator (key 10), versions 0 to 6: which broker coordinates a group, or the transactions of a producer.

The group's partition of `__consumer_offsets` is led by its coordinator; its address is given for the listener that the
client came in by. While the topic does not exist it is created, and while it has no live leader the answer is
COORDINATOR_NOT_AVAILABLE. From version 4 many keys are asked for at once (KIP-699).

A transaction's coordinator is found in the same way, in `__transaction_state`. Share groups (key type 2), which Kafka
3.9 has only with KRaft, are INVALID_REQUEST: clients give up instead of asking for ever.
"""

from typing import NamedTuple

from odradek.broker.cluster.metadata_cache import Node
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE

REQUEST = FindCoordinatorRequest
VERSIONS = (0, 6)

TOPICS = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}
"""Topics by key type: where groups live, and transactional ids."""
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


def handle(broker: Services, request: FindCoordinatorRequest, context: RequestContext) -> Outcome:
    many = context.api_version >= FIRST_VERSION_WITH_MANY_KEYS
    keys = request.coordinator_keys if many else [request.key]
    found = [(key, _find(broker, request.key_type, key, context.listener)) for key in keys]
    response = _many(found) if many else _one(found[0][1])
    topic = TOPICS.get(request.key_type)
    if topic is not None and not broker.metadata.partition_count(topic):
        return _after_creating_topic(broker, topic, response)
    return Reply(response)


async def _after_creating_topic(broker: Services, topic: str, response: FindCoordinatorResponse) -> Reply:
    """Create the topic, then answer; the client asks again, and finds the topic or a creation that goes on."""
    await broker.auto_create_topic(topic)
    return Reply(response)


def _find(broker: Services, key_type: int, key: str, listener: str) -> _Found:
    topic = TOPICS.get(key_type)
    if topic is None:
        return _Found(ErrorCode.INVALID_REQUEST)
    coordinator = broker.groups if topic == CONSUMER_OFFSETS else broker.transactions
    node = broker.metadata.leader_node(topic, coordinator.partition_for(key), listener)
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
