"""LeaderAndIsr (key 4), versions 0 to 7: the controller makes this broker leader or follower of partitions.

A request for thousands of partitions is taken in slices of `SLICE_MS`, so that clients are served in between. What it
says of one partition is applied whole; the epochs of the request are checked again after each pause.
"""

import asyncio

from odradek.broker.replication.controller_requests import partition_states
from odradek.broker.requests.outcome import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)

REQUEST = LeaderAndIsrRequest
VERSIONS = (0, 7)

SLICE_MS = 5.0
FIRST_VERSION_BY_TOPIC_ID = 5


def handle(broker: Services, request: LeaderAndIsrRequest, context: RequestContext) -> Outcome:
    return _apply(broker, request, context.api_version)


def _new_topics(broker: Services, request: LeaderAndIsrRequest) -> set[str]:
    """Topics of which this broker has no log yet: whoever creates a topic writes its settings before its partitions."""
    return {
        topic
        for topic, _, state in partition_states(request)
        if (topic, state.partition_index) not in broker.replicas.partitions
        and broker.logs.get(topic, state.partition_index) is None
    }


async def _apply(broker: Services, request: LeaderAndIsrRequest, version: int) -> Reply:
    error = broker.control.check(request.controller_epoch, request.broker_epoch)
    if error is not ErrorCode.NONE:
        return Reply(LeaderAndIsrResponse(error_code=error))
    broker.metadata.learn_ids(request)
    new_topics = _new_topics(broker, request)
    if new_topics:
        await broker.learn_topic_settings(new_topics)
        error = broker.control.check(request.controller_epoch, request.broker_epoch)
        if error is not ErrorCode.NONE:
            return Reply(LeaderAndIsrResponse(error_code=error))
    response = LeaderAndIsrResponse()
    topics: dict[bytes, LeaderAndIsrTopicError] = {}
    slice_end_ms = broker.clock.monotonic_ms() + SLICE_MS
    for topic, topic_id, state in partition_states(request):
        if broker.clock.monotonic_ms() > slice_end_ms:
            await asyncio.sleep(0)
            error = broker.control.check(request.controller_epoch, request.broker_epoch)
            if error is not ErrorCode.NONE:
                return Reply(LeaderAndIsrResponse(error_code=error))
            slice_end_ms = broker.clock.monotonic_ms() + SLICE_MS
        outcome = LeaderAndIsrPartitionError(
            topic_name=topic,
            partition_index=state.partition_index,
            error_code=broker.control.apply(topic, topic_id, state),
        )
        if version < FIRST_VERSION_BY_TOPIC_ID:
            response.partition_errors.append(outcome)
        else:
            answered = topics.setdefault(topic_id, LeaderAndIsrTopicError(topic_id=topic_id))
            answered.partition_errors.append(outcome)
    response.topics = list(topics.values())
    return Reply(response)
