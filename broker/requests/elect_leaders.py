"""ElectLeaders (key 43), versions 0 to 2: to the controller; answered when this broker knows the elected leaders.

Null partitions mean all; those for which nothing was to be done are then left out of the answer. Version 0 knows
preferred elections only. An unknown type of election is answered with UNKNOWN_SERVER_ERROR, for each partition asked
and for the whole, as Kafka's ElectLeadersRequest.getErrorResponse does.
"""

from collections.abc import Mapping

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.requests.administration import until_metadata
from odradek.broker.services import Services
from odradek.controller.requested_elections import PREFERRED, UNCLEAN
from odradek.controller.requested_elections import Outcome as Election
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.znodes.topics import NO_LEADER

REQUEST = ElectLeadersRequest
VERSIONS = (0, 2)


def handle(broker: Services, request: ElectLeadersRequest, context: RequestContext) -> Outcome:
    asked = None
    if request.topic_partitions is not None:
        asked = [TopicPartition(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions]
    if request.election_type not in (PREFERRED, UNCLEAN):
        unknown = ErrorCode.UNKNOWN_SERVER_ERROR
        response = _response(dict.fromkeys(asked or (), (unknown, None)))
        response.error_code = unknown
        return Reply(response)
    return _elect(broker, request, asked, context.api_version)


async def _elect(
    broker: Services, request: ElectLeadersRequest, asked: list[TopicPartition] | None, version: int
) -> Reply:
    try:
        outcomes = await broker.controller.elect_leaders(asked, request.election_type)
    except KafkaError as error:
        return Reply(_refused(error, asked, version))
    if asked is None:
        outcomes = {p: (code, text) for p, (code, text) in outcomes.items() if code != ErrorCode.ELECTION_NOT_NEEDED}
    await _wait(broker, outcomes, request)
    return Reply(_response(outcomes))


def _refused(error: KafkaError, asked: list[TopicPartition] | None, version: int) -> ElectLeadersResponse:
    """Make an answer that refuses all; version 0, without an error for the whole answer, has it for each partition."""
    outcomes: dict[TopicPartition, Election] = {}
    if version == 0:
        outcomes = dict.fromkeys(asked or (), (error.code, error.message))
    response = _response(outcomes)
    response.error_code = error.code
    return response


async def _wait(broker: Services, outcomes: dict[TopicPartition, Election], request: ElectLeadersRequest) -> None:
    elected = [partition for partition, (code, _) in outcomes.items() if code == ErrorCode.NONE]

    def known(partition: TopicPartition) -> bool:
        state = broker.metadata.partition(*partition)
        if state is None or state.leader == NO_LEADER:
            return False
        return request.election_type == UNCLEAN or state.leader == state.replicas[0]

    if elected and not await until_metadata(broker, lambda: all(map(known, elected)), request.timeout_ms):
        for partition in elected:
            if not known(partition):
                outcomes[partition] = (ErrorCode.REQUEST_TIMED_OUT, "The new leader is not known here yet.")


def _response(outcomes: Mapping[TopicPartition, Election]) -> ElectLeadersResponse:
    topics: dict[str, ReplicaElectionResult] = {}
    for partition, (code, text) in sorted(outcomes.items()):
        topic = topics.setdefault(partition.topic, ReplicaElectionResult(topic=partition.topic))
        topic.partition_result.append(
            PartitionResult(partition_id=partition.partition, error_code=code, error_message=text)
        )
    return ElectLeadersResponse(replica_election_results=list(topics.values()))
