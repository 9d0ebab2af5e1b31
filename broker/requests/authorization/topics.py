"""Rules of the APIs about topics that are like no other: what may not be seen is not shown.

Source: KafkaApis of Kafka 3.9.
"""

from collections import Counter
from typing import Any

from odradek.broker.network.outcomes import Outcome, Reply
from odradek.broker.replication.fetch_sessions import CachedPartition, replica_of
from odradek.broker.requests import fetch
from odradek.broker.requests.authorization import refusals
from odradek.broker.requests.authorization.rules import DENIED, Asked, GoOn, answered, refused, split
from odradek.broker.security.acls import CLUSTER_NAME, AclOperation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopicResult
from odradek.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicState
from odradek.protocol.messages.metadata import MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.record_batch import ATTRIBUTES_AT, HEADER_BYTES, MAGIC_AT, MAGIC_V2, TRANSACTIONAL_BIT
from odradek.protocol.topic_names import INTERNAL_TOPICS
from odradek.zk_schema.znodes.acls import ResourceType

TOPIC = ResourceType.TOPIC
DENIED_TOPIC = DENIED[TOPIC]

FIRST_DELETE_WITH_IDS = 6
FIRST_METADATA_BY_ID = 12
LAST_ADD_PARTITIONS_OF_CLIENTS = 3


def transactional_produce(asked: Asked, go_on: GoOn) -> Outcome:
    """Refuse all of a Produce that has records of a transaction which the principal may not write."""
    request: ProduceRequest = asked.request
    if _has_transactional_records(request):
        transactional_id = request.transactional_id
        may = transactional_id is not None and asked.rights.may(
            AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        )
        if not may:
            return refused(asked, refusals.of_produce, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return go_on()


def _has_transactional_records(request: ProduceRequest) -> bool:
    return any(
        records is not None
        and len(records) >= HEADER_BYTES
        and records[MAGIC_AT] == MAGIC_V2
        and records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT
        for topic in request.topic_data
        for records in (data.records for data in topic.partition_data)
    )


def fetched(asked: Asked, go_on: GoOn) -> Outcome:
    """Tell the handler of Fetch what may be read: a session names topics that the request does not."""
    rights = asked.rights
    if replica_of(asked.request)[0] >= 0:
        may_follow = rights.may_with_cluster(AclOperation.CLUSTER_ACTION)
        return fetch.handle(asked.broker, asked.request, asked.context, None if may_follow else lambda wanted: False)
    known: dict[str, bool] = {}

    def may_read(wanted: CachedPartition) -> bool:
        topic = wanted.topic
        if not topic:  # nobody knows its name: the handler says so
            return True
        may = known.get(topic)
        if may is None:
            may = known[topic] = rights.may(AclOperation.READ, TOPIC, topic)
        return may

    return fetch.handle(asked.broker, asked.request, asked.context, may_read)


def metadata(asked: Asked, go_on: GoOn) -> Outcome:
    """Show the topics that the principal may describe, and TOPIC_AUTHORIZATION_FAILED for others that are asked for.

    A topic that does not exist is created for those alone who may.
    """
    request = asked.request
    everything = request.topics is None or (asked.context.api_version == 0 and not request.topics)
    hidden: list[MetadataResponseTopic] = []
    if not everything:
        request.topics, hidden = _describable(asked, request.topics)

    def change(response: MetadataResponse) -> None:
        if everything:
            names = [topic.name for topic in response.topics if topic.name]
            seen = asked.rights.allowed(AclOperation.DESCRIBE, TOPIC, names, quietly=True)
            response.topics = [topic for topic in response.topics if topic.name in seen]
        elif not request.topics:  # nothing is left of it, which version 0 takes for everything
            response.topics = []
        if request.include_topic_authorized_operations:
            for topic in response.topics:
                if topic.name and topic.topic_authorized_operations >= 0:
                    topic.topic_authorized_operations = asked.rights.operations(TOPIC, topic.name)
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = cluster_operations(asked)
        response.topics = [*response.topics, *hidden]

    return answered(go_on(), change)


def _describable(
    asked: Asked, topics: list[MetadataRequestTopic]
) -> tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]:
    """Return the topics that the sender may describe, and answers that refuse the others."""
    broker, request, rights = asked.broker, asked.request, asked.rights
    by_id = asked.context.api_version >= FIRST_METADATA_BY_ID
    names_by_id = broker.metadata.names.names_by_id if by_id else {}

    def name_of(topic: MetadataRequestTopic) -> str | None:
        """Return a topic's name; None where the handler itself refuses it: an unknown id, or one in an old version."""
        return topic.name if topic.topic_id == ZERO_UUID else names_by_id.get(topic.topic_id)

    named = [name for topic in topics if (name := name_of(topic)) is not None]
    seen = rights.allowed(AclOperation.DESCRIBE, TOPIC, named)
    taken, left = split(topics, lambda topic: (name := name_of(topic)) is None or name in seen)
    hidden = [
        MetadataResponseTopic(error_code=DENIED_TOPIC, name=topic.name)
        if topic.topic_id == ZERO_UUID
        else MetadataResponseTopic(error_code=DENIED_TOPIC, name=None, topic_id=topic.topic_id)
        for topic in left
    ]
    may_create = broker.config.auto_create_topics_enable and request.allow_auto_topic_creation
    new = {name for topic in taken if (name := name_of(topic)) is not None and name not in broker.metadata.topics}
    if may_create and new and not rights.may_with_cluster(AclOperation.CREATE, quietly=True):
        refused_names = new - rights.allowed(AclOperation.CREATE, TOPIC, new)
        taken, left = split(taken, lambda topic: name_of(topic) not in refused_names)
        hidden += [
            MetadataResponseTopic(error_code=DENIED_TOPIC, name=topic.name, is_internal=topic.name in INTERNAL_TOPICS)
            for topic in left
        ]
    return taken, hidden


def cluster_operations(asked: Asked) -> int:
    """Collect what the principal may do with the cluster; nothing if it may not describe it (KIP-430)."""
    if not asked.rights.may_with_cluster(AclOperation.DESCRIBE):
        return 0
    return asked.rights.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def describe_cluster(asked: Asked, go_on: GoOn) -> Outcome:
    """Let everybody ask for DescribeCluster; the operations in the answer are those of the principal."""

    def change(response: Any) -> None:
        if not response.error_code:
            response.cluster_authorized_operations = cluster_operations(asked)

    outcome = go_on()
    return answered(outcome, change) if asked.request.include_cluster_authorized_operations else outcome


def create_topics(asked: Asked, go_on: GoOn) -> Outcome:
    """Ask for CREATE on the cluster or on the topic; its settings are answered to those who may describe them."""
    request, rights = asked.request, asked.rights
    if not asked.broker.controller.is_active:
        return go_on()
    names = [topic.name for topic in request.topics]
    times = Counter(names)
    results: list[CreatableTopicResult] = []
    if not rights.may_with_cluster(AclOperation.CREATE, quietly=True):
        allowed = rights.allowed(AclOperation.CREATE, TOPIC, names)
        # whoever names a topic twice is told that first
        taken, left = split(request.topics, lambda topic: topic.name in allowed or times[topic.name] > 1)
        request.topics = taken
        results = [
            CreatableTopicResult(
                name=topic.name, error_code=DENIED_TOPIC, error_message="Authorization failed.", configs=[]
            )
            for topic in left
        ]
    described = rights.allowed(AclOperation.DESCRIBE_CONFIGS, TOPIC, names, quietly=True)

    def change(response: Any) -> None:
        made = [result for result in response.topics if result.error_code == ErrorCode.NONE]
        for result in (*made, *results):
            if result.name not in described:
                result.topic_config_error_code, result.topic_id = DENIED_TOPIC, ZERO_UUID
                result.configs, result.num_partitions, result.replication_factor = [], -1, -1
        response.topics = [*response.topics, *results]

    return answered(go_on(), change)


def delete_topics(asked: Asked, go_on: GoOn) -> Outcome:
    """Ask for DELETE on each; whoever names a topic by its id is told the name only if it may describe it."""
    broker, request, rights = asked.broker, asked.request, asked.rights
    state = broker.controller.state
    if not broker.controller.is_active or state is None or not broker.config.delete_topic_enable:
        return go_on()
    by_id = asked.context.api_version >= FIRST_DELETE_WITH_IDS
    topics = request.topics if by_id else [DeleteTopicState(name=name) for name in request.topic_names]

    def name_of(topic: DeleteTopicState) -> str | None:
        """Return a topic's name; None where the handler itself refuses it: name and id, neither, or an unknown id."""
        if topic.topic_id == ZERO_UUID:
            return topic.name
        return None if topic.name is not None else state.topic_names.get(topic.topic_id)

    named = [name for topic in topics if (name := name_of(topic)) is not None]
    described = rights.allowed(AclOperation.DESCRIBE, TOPIC, named)
    deletable = rights.allowed(AclOperation.DELETE, TOPIC, named)
    taken, left = split(topics, lambda topic: (name := name_of(topic)) is None or name in deletable)
    if by_id:
        request.topics = taken
    else:
        request.topic_names = [topic.name for topic in taken]

    def result(topic: DeleteTopicState) -> DeletableTopicResult:
        name = name_of(topic)
        shown = name if topic.topic_id == ZERO_UUID or name in described else None
        return DeletableTopicResult(name=shown, topic_id=topic.topic_id, error_code=DENIED_TOPIC)

    def change(response: Any) -> None:
        response.responses = [*response.responses, *map(result, left)]

    return answered(go_on(), change)


def transaction_partitions(asked: Asked, go_on: GoOn) -> Outcome:
    """Authorize AddPartitionsToTxn, and go on if all of it is allowed.

    Clients (up to version 3) need WRITE on the transactional id and on each topic, brokers CLUSTER_ACTION. When one
    topic may not be written, nothing is added to the transaction.
    """
    request, rights = asked.request, asked.rights
    if asked.context.api_version > LAST_ADD_PARTITIONS_OF_CLIENTS:
        if not rights.may_with_cluster(AclOperation.CLUSTER_ACTION):
            return refused(asked, refusals.of_add_partitions_to_txn, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return go_on()
    transactional_id = request.v3_and_below_transactional_id
    if not rights.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return refused(asked, refusals.of_add_partitions_to_txn, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    topics = request.v3_and_below_topics
    asked_for = [topic.name for topic in topics if topic.name not in INTERNAL_TOPICS]
    allowed = rights.allowed(AclOperation.WRITE, TOPIC, asked_for)
    if all(topic.name in allowed for topic in topics):
        return go_on()
    response = refusals.of_add_partitions_to_txn(request, ErrorCode.OPERATION_NOT_ATTEMPTED)
    for topic in response.results_by_topic_v3_and_below:
        for result in topic.results_by_partition:
            if topic.name not in allowed:
                result.partition_error_code = DENIED_TOPIC
            elif asked.broker.metadata.partition(topic.name, result.partition_index) is None:
                result.partition_error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    response.error_code = ErrorCode.NONE
    return Reply(response)


def init_producer_id(asked: Asked, go_on: GoOn) -> Outcome:
    """Ask for WRITE on the transactional id; without one for IDEMPOTENT_WRITE, or WRITE on any topic (KIP-679)."""
    rights, transactional_id = asked.rights, asked.request.transactional_id
    if transactional_id is not None:
        if rights.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return go_on()
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        if rights.may_with_cluster(AclOperation.IDEMPOTENT_WRITE, quietly=True):
            return go_on()
        if rights.may_with_any(AclOperation.WRITE, TOPIC):
            return go_on()
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return refused(asked, refusals.of_init_producer_id, error)
