"""Metadata (key 3), versions 0 to 12: brokers, controller, topics with their leaders, replicas and ISR.

Version 0: no topics named means all; from version 1 null means all and an empty list none. A topic that does not exist
is created when `auto.create.topics.enable` is set and the client allows it (always below version 4), and answered with
LEADER_NOT_AVAILABLE until it has a leader. Version 10 and 11 carry topic ids in answers, version 12 also in requests.
No topic is answered with an error code of 0 and without partitions. A client is authorized to all operations, unless an
authorizer says otherwise. A topic with neither name nor id is UNKNOWN_SERVER_ERROR, as Kafka says. An answer is made in
slices of time: ten thousand partitions, of one topic or of many, take a twentieth of a second.
"""

from collections.abc import Awaitable, Sequence

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.security.acls import ALL_BITS
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.messages.update_metadata import UpdateMetadataPartitionState
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.steps import Steps
from odradek.protocol.topic_names import INTERNAL_TOPICS, name_fault
from odradek.world.time_slices import in_slices
from odradek.zk_schema.znodes.acls import ResourceType
from odradek.zk_schema.znodes.topics import NO_LEADER

REQUEST = MetadataRequest
VERSIONS = (0, 12)

FIRST_VERSION_WITH_EMPTY_FOR_NONE = 1
FIRST_VERSION_WITH_REPLICAS_AWAY = 1
"""Clients of version 0 look up every replica among the brokers of the answer, and fail at one that is not there."""
FIRST_VERSION_WITH_AUTO_CREATE_FLAG = 4
FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6
FIRST_VERSION_BY_ID = 12
NO_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR})
"""Answers that are about no topic, with which nobody may do anything."""


def handle(broker: Services, request: MetadataRequest, context: RequestContext) -> Outcome:
    version = context.api_version
    everything = request.topics is None or (version < FIRST_VERSION_WITH_EMPTY_FOR_NONE and not request.topics)
    if everything:
        return in_slices(broker.clock, _everything(broker, request, context))
    answers = in_slices(broker.clock, _named(broker, request, context))
    if isinstance(answers, list):
        missing = _to_create(broker, answers, request, context)
        if not missing:
            return Reply(_response(broker, answers, request, context))
    return _later(broker, answers, request, context)


def _everything(broker: Services, request: MetadataRequest, context: RequestContext) -> Steps[Reply]:
    """Tell of all topics; what changes meanwhile may be told as it was or as it is."""
    answers = []
    for name in sorted(broker.metadata.topics):
        if name in broker.metadata.topics:  # not deleted since
            answers.append((yield from _known(broker, name, context)))
    return Reply(_response(broker, answers, request, context))


def _to_create(
    broker: Services, answers: Sequence[MetadataResponseTopic], request: MetadataRequest, context: RequestContext
) -> list[MetadataResponseTopic]:
    """Return the answers about topics that do not exist and are to be created now."""
    may_create = broker.config.auto_create_topics_enable and (
        context.api_version < FIRST_VERSION_WITH_AUTO_CREATE_FLAG or request.allow_auto_topic_creation
    )
    return [one for one in answers if may_create and one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def _later(
    broker: Services,
    answers: list[MetadataResponseTopic] | Awaitable[list[MetadataResponseTopic]],
    request: MetadataRequest,
    context: RequestContext,
) -> Reply:
    """Answer when all has been told, and what is missing has been created."""
    told = answers if isinstance(answers, list) else await answers
    for answer in _to_create(broker, told, request, context):
        assert answer.name is not None
        answer.error_code = await broker.auto_create_topic(answer.name)
    return Reply(_response(broker, told, request, context))


def _response(
    broker: Services, topics: Sequence[MetadataResponseTopic], request: MetadataRequest, context: RequestContext
) -> MetadataResponse:
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=n.id, host=n.host, port=n.port, rack=n.rack)
            for n in broker.metadata.nodes(context.listener)
        ],
        cluster_id=broker.identity.cluster_id,
        controller_id=broker.metadata.controller_id,
        topics=list(topics),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_BITS[ResourceType.CLUSTER]
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.error_code not in NO_TOPIC:
                topic.topic_authorized_operations = ALL_BITS[ResourceType.TOPIC]
    return response


def _named(broker: Services, request: MetadataRequest, context: RequestContext) -> Steps[list[MetadataResponseTopic]]:
    """Tell of the topics that are asked for by name or id, of each once."""
    assert request.topics is not None
    answers = []
    for asked in {(one.name, one.topic_id): one for one in request.topics}.values():
        answers.append((yield from _answer(broker, asked, context)))
        yield
    return answers


def _answer(broker: Services, asked: MetadataRequestTopic, context: RequestContext) -> Steps[MetadataResponseTopic]:
    name = asked.name
    if asked.topic_id != ZERO_UUID or name is None:
        if context.api_version < FIRST_VERSION_BY_ID:
            return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name or "", topic_id=asked.topic_id)
        if asked.topic_id == ZERO_UUID:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, name="")
        name = broker.metadata.names.names_by_id.get(asked.topic_id)
        if name is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
    return (yield from _known(broker, name, context))


def _known(broker: Services, name: str, context: RequestContext) -> Steps[MetadataResponseTopic]:
    answer = MetadataResponseTopic(name=name, is_internal=name in INTERNAL_TOPICS)
    partitions = broker.metadata.topics.get(name)
    if partitions is None:
        legal = name_fault(name) is None
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
        return answer
    answer.topic_id = broker.metadata.topic_id(name)
    for _, state in sorted(partitions.items()):
        answer.partitions.append(_partition(broker, state, context))
        yield
    return answer


def _partition(
    broker: Services, state: UpdateMetadataPartitionState, context: RequestContext
) -> MetadataResponsePartition:
    metadata = broker.metadata
    answer = MetadataResponsePartition(
        partition_index=state.partition_index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=[r for r in state.replicas if r in state.offline_replicas or not metadata.is_alive(r)],
    )
    unlisted = False
    if context.api_version < FIRST_VERSION_WITH_REPLICAS_AWAY:
        answer.replica_nodes = [r for r in state.replicas if metadata.node(r, context.listener) is not None]
        answer.isr_nodes = [r for r in state.isr if metadata.node(r, context.listener) is not None]
        unlisted = len(answer.replica_nodes) < len(state.replicas) or len(answer.isr_nodes) < len(state.isr)
    if metadata.node(state.leader, context.listener) is None:
        answer.leader_id = NO_LEADER
        no_listener = metadata.is_alive(state.leader) and context.api_version >= FIRST_VERSION_WITH_LISTENER_NOT_FOUND
        answer.error_code = ErrorCode.LISTENER_NOT_FOUND if no_listener else ErrorCode.LEADER_NOT_AVAILABLE
    elif unlisted:
        answer.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    return answer
