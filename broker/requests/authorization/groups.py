"""Rules of the APIs about groups, coordinators and transactions that are like no other.

Source: KafkaApis of Kafka 3.9.
"""

from collections.abc import Sequence
from typing import Any

from odradek.broker.network.outcomes import Outcome, Reply
from odradek.broker.requests.authorization.rules import DENIED, Asked, GoOn, answered, denied_text, split
from odradek.broker.security.acls import AclOperation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.zk_schema.znodes.acls import ResourceType

GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
COORDINATED = {0: GROUP, 1: ResourceType.TRANSACTIONAL_ID}
"""Resource types by the key type of FindCoordinator."""

FIRST_FETCH_WITH_ERROR = 2
FIRST_FETCH_WITH_GROUPS = 8
FIRST_FIND_WITH_MANY_KEYS = 4
NOBODY = -1
Topics = Sequence[Any]


def find_coordinator(asked: Asked, go_on: GoOn) -> Outcome:
    """Ask for DESCRIBE on each group or transactional id that is looked for."""
    request = asked.request
    resource = COORDINATED.get(request.key_type)
    if resource is None:
        return go_on()
    many = asked.context.api_version >= FIRST_FIND_WITH_MANY_KEYS
    keys = request.coordinator_keys if many else [request.key]
    allowed = asked.rights.allowed(AclOperation.DESCRIBE, resource, keys)
    taken, left = split(keys, allowed.__contains__)
    error = DENIED[resource]
    if not many and left:
        return Reply(
            FindCoordinatorResponse(
                error_code=error, error_message=denied_text(error), node_id=NOBODY, host="", port=NOBODY
            )
        )
    if not left:
        return go_on()
    hidden = [
        Coordinator(key=key, node_id=NOBODY, host="", port=NOBODY, error_code=error, error_message="") for key in left
    ]
    request.coordinator_keys = taken
    if not taken:
        return Reply(FindCoordinatorResponse(coordinators=hidden))

    def change(response: FindCoordinatorResponse) -> None:
        response.coordinators = [*response.coordinators, *hidden]

    return answered(go_on(), change)


def group_operations(asked: Asked, go_on: GoOn) -> Outcome:
    """Tell what the principal may do with each group that is described (KIP-430)."""

    def change(response: Any) -> None:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = asked.rights.operations(GROUP, group.group_id)

    outcome = go_on()
    return answered(outcome, change) if asked.request.include_authorized_operations else outcome


def fetched_offsets(asked: Asked, go_on: GoOn) -> Outcome:
    """Ask for DESCRIBE on each group, and on each topic; where all topics are asked for, denied ones are left out."""
    if asked.context.api_version >= FIRST_FETCH_WITH_GROUPS:
        return _of_groups(asked, go_on)
    request, rights = asked.request, asked.rights
    if not rights.may(AclOperation.DESCRIBE, GROUP, request.group_id):
        error = DENIED[GROUP]
        if asked.context.api_version >= FIRST_FETCH_WITH_ERROR:
            return Reply(OffsetFetchResponse(error_code=error))
        return Reply(OffsetFetchResponse(topics=[_refused(topic, error) for topic in request.topics or ()]))
    named = request.topics is not None
    left: Topics = ()
    if named:
        request.topics, left = _describable(asked, request.topics)

    def change(response: OffsetFetchResponse) -> None:
        if response.error_code:
            return
        if not named:
            response.topics, _ = _describable(asked, response.topics)
        response.topics = [*response.topics, *(_refused(topic, DENIED[TOPIC]) for topic in left)]

    return answered(go_on(), change)


def _describable(asked: Asked, topics: Topics) -> tuple[list[Any], list[Any]]:
    allowed = asked.rights.allowed(AclOperation.DESCRIBE, TOPIC, [topic.name for topic in topics])
    return split(topics, lambda topic: topic.name in allowed)


def _of_groups(asked: Asked, go_on: GoOn) -> Outcome:
    request = asked.request
    allowed = asked.rights.allowed(AclOperation.DESCRIBE, GROUP, [group.group_id for group in request.groups])
    request.groups, denied = split(request.groups, lambda group: group.group_id in allowed)
    left: list[Topics | None] = []
    """Topics that may not be asked about, for each group that is handled; None where all were asked for."""
    for group in request.groups:
        if group.topics is None:
            left.append(None)
        else:
            group.topics, refused_topics = _describable(asked, group.topics)
            left.append(refused_topics)

    def change(response: OffsetFetchResponse) -> None:
        for group, hidden in zip(response.groups, left, strict=True):
            if group.error_code:
                continue
            if hidden is None:
                group.topics, _ = _describable(asked, group.topics)
            else:
                group.topics = [*group.topics, *(_refused_in_group(topic, DENIED[TOPIC]) for topic in hidden)]
        response.groups = [
            *response.groups,
            *(OffsetFetchResponseGroup(group_id=one.group_id, error_code=DENIED[GROUP]) for one in denied),
        ]

    return answered(go_on(), change)


def _refused(topic: Any, error: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=error)
            for index in topic.partition_indexes
        ],
    )


def _refused_in_group(topic: Any, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=error)
            for index in topic.partition_indexes
        ],
    )


def transactions_topics(asked: Asked, go_on: GoOn) -> Outcome:
    """Show of each transaction the topics that the principal may describe."""

    def change(response: Any) -> None:
        for state in response.transaction_states:
            seen = asked.rights.allowed(AclOperation.DESCRIBE, TOPIC, [topic.topic for topic in state.topics])
            state.topics = [topic for topic in state.topics if topic.topic in seen]

    return answered(go_on(), change)
