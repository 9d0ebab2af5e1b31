"""LeaderAndIsr (key 4), versions 0 to 7: the controller makes this broker leader or follower of partitions.

A request for thousands of partitions is taken in slices of time, so that clients are served in between. What it says of
one partition is applied whole; the epochs of the request are checked again after each pause. The next LeaderAndIsr or
StopReplica waits for its end, also when its connection has broken.
"""

from odradek.broker.cluster.controller_messages import partition_states
from odradek.broker.network.outcomes import Reply, RequestContext, Silent
from odradek.broker.requests.authorization.refusals import of_leader_and_isr
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.world.time_slices import TimeSlice

REQUEST = LeaderAndIsrRequest
VERSIONS = (0, 7)

FIRST_VERSION_BY_TOPIC_ID = 5


async def handle(broker: Services, request: LeaderAndIsrRequest, context: RequestContext) -> Reply | Silent:
    async with broker.controller_requests.in_turn:
        return await _apply(broker, request, context)


async def _apply(broker: Services, request: LeaderAndIsrRequest, context: RequestContext) -> Reply | Silent:
    def refusal() -> ErrorCode:
        return broker.controller_requests.check(request.controller_epoch, request.broker_epoch)

    error = refusal()
    if error is ErrorCode.NONE:
        if broker.controller_requests.is_late(request.controller_epoch, context.connection):
            return Silent(close=True)
        broker.metadata.learn_ids(request)
    if error is ErrorCode.NONE and (new_topics := _new_topics(broker, request)):
        await broker.learn_topic_settings(new_topics)
        error = refusal()
    response = LeaderAndIsrResponse(error_code=error)
    topics: dict[bytes, LeaderAndIsrTopicError] = {}
    turn = TimeSlice(broker.clock)
    for topic, topic_id, state in partition_states(request):
        if await turn.pause_if_over():
            error = refusal()
        if error is not ErrorCode.NONE:
            return Reply(of_leader_and_isr(request, error))
        outcome = LeaderAndIsrPartitionError(
            topic_name=topic,
            partition_index=state.partition_index,
            error_code=broker.controller_requests.apply(topic, topic_id, state),
        )
        if context.api_version < FIRST_VERSION_BY_TOPIC_ID:
            response.partition_errors.append(outcome)
        else:
            answered = topics.setdefault(topic_id, LeaderAndIsrTopicError(topic_id=topic_id))
            answered.partition_errors.append(outcome)
    response.topics = list(topics.values())
    return Reply(response)


def _new_topics(broker: Services, request: LeaderAndIsrRequest) -> set[str]:
    """Return the topics with a new log here: whoever creates a topic writes its settings before its partitions."""
    return {
        topic
        for topic, _, state in partition_states(request)
        if (topic, state.partition_index) not in broker.replicas.partitions
        and broker.logs.get(topic, state.partition_index) is None
    }
