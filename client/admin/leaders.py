"""Elections and reassignments. Coroutines for the client's loop."""

from collections.abc import Iterable, Mapping, Sequence

from odradek.client.admin.topics import raise_first
from odradek.client.admin.values import Reassignment
from odradek.client.calls import Deadline, ask_controller
from odradek.client.cluster import Cluster
from odradek.client.errors import ConfigError
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

PREFERRED, UNCLEAN = 0, 1


def election_type(given: int | str) -> int:
    """Return PREFERRED or UNCLEAN, by number or name. Raises ConfigError."""
    kinds = {"PREFERRED": PREFERRED, "UNCLEAN": UNCLEAN}
    found = kinds.get(given.upper()) if isinstance(given, str) else given
    if found not in (PREFERRED, UNCLEAN):
        raise ConfigError(f"an election is PREFERRED or UNCLEAN, not {given!r}")
    return int(found)


async def elect_leaders(
    cluster: Cluster,
    election_type: int,
    partitions: Iterable[TopicPartition] | None,
    deadline: Deadline,
    *,
    raise_errors: bool = True,
) -> list[TopicPartition]:
    """Elect PREFERRED or UNCLEAN leaders of some or all (None) partitions; return those that have a new one, sorted.

    Partitions that need no election are left out. Raises KafkaError when an election has failed, if `raise_errors`.
    """
    asked = None if partitions is None else by_topic(partitions)
    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=None
        if asked is None
        else [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in asked.items()],
        timeout_ms=cluster.config.request_timeout_ms,
    )

    def errors(answer: ElectLeadersResponse) -> list[ErrorCode]:
        return [error_code(answer.error_code)]

    answer = await ask_controller(cluster, request, ElectLeadersResponse, errors, deadline)
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code), "leaders could not be elected")
    results = [
        (TopicPartition(topic.topic, one.partition_id), error_code(one.error_code), one.error_message)
        for topic in answer.replica_election_results
        for one in topic.partition_result
    ]
    if raise_errors:
        raise_first((str(tp), code, said) for tp, code, said in results if code != ErrorCode.ELECTION_NOT_NEEDED)
    return sorted(tp for tp, code, _ in results if code == ErrorCode.NONE)


async def alter_reassignments(
    cluster: Cluster, targets: Mapping[TopicPartition, Sequence[int] | None], deadline: Deadline
) -> None:
    """Start to move partitions to these replicas; None cancels the move under way. Raises KafkaError."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=cluster.config.request_timeout_ms,
        topics=[
            ReassignableTopic(
                name=topic, partitions=[_target(number, targets[TopicPartition(topic, number)]) for number in numbers]
            )
            for topic, numbers in by_topic(targets).items()
        ],
    )

    def errors(answer: AlterPartitionReassignmentsResponse) -> list[ErrorCode]:
        return [error_code(answer.error_code)]

    answer = await ask_controller(cluster, request, AlterPartitionReassignmentsResponse, errors, deadline)
    raise_first([("reassignment", answer.error_code, answer.error_message)])
    results = (
        (f"{topic.name}-{one.partition_index}", one.error_code, one.error_message)
        for topic in answer.responses
        for one in topic.partitions
    )
    raise_first(results, "begun" if all(targets.values()) else "done")


def _target(number: int, replicas: Sequence[int] | None) -> ReassignablePartition:
    return ReassignablePartition(partition_index=number, replicas=None if replicas is None else list(replicas))


async def list_reassignments(cluster: Cluster, deadline: Deadline) -> list[Reassignment]:
    """Return the reassignments in progress, sorted by partition."""
    request = ListPartitionReassignmentsRequest(timeout_ms=cluster.config.request_timeout_ms, topics=None)

    def errors(answer: ListPartitionReassignmentsResponse) -> list[ErrorCode]:
        return [error_code(answer.error_code)]

    answer = await ask_controller(cluster, request, ListPartitionReassignmentsResponse, errors, deadline)
    raise_first([("reassignments", answer.error_code, answer.error_message)])
    return sorted(
        Reassignment(
            TopicPartition(topic.name, one.partition_index),
            tuple(one.replicas),
            tuple(one.adding_replicas),
            tuple(one.removing_replicas),
        )
        for topic in answer.topics
        for one in topic.partitions
    )
