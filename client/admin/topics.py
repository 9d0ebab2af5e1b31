"""Topics: create, delete, add partitions. Coroutines for the client's loop."""

from collections.abc import Iterable, Mapping, Sequence

from odradek.client.admin.values import CreatedTopic, NewTopic
from odradek.client.calls import Deadline, ask_controller
from odradek.client.cluster import Cluster
from odradek.client.errors import in_words
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

Failure = tuple[str, int, str | None]
"""Name, error code and message of one part of an answer."""


def raise_first(failures: Iterable[Failure]) -> None:
    """KafkaError with the first part's code and all parts' names and reasons; nothing when none has failed."""
    real = [(name, error_code(code), message) for name, code, message in failures if code]
    if not real:
        return
    plain = [f"{name}: {message or in_words(code)}" for name, code, message in real]
    raise KafkaError(real[0][1], "; ".join(plain))


async def create_topics(
    cluster: Cluster, topics: Sequence[NewTopic], deadline: Deadline, *, validate_only: bool
) -> list[CreatedTopic]:
    """All of them are tried; KafkaError when one has failed."""
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=cluster.config.request_timeout_ms,
        validate_only=validate_only,
    )
    answer = await ask_controller(cluster, request, CreateTopicsResponse, _create_errors, deadline)
    raise_first((one.name, one.error_code, one.error_message) for one in answer.topics)
    return [
        CreatedTopic(one.name, bytes(one.topic_id), one.num_partitions, one.replication_factor) for one in answer.topics
    ]


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
        for number, replicas in sorted(topic.replica_assignments.items())
    ]
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignments else topic.num_partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=assignments,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _create_errors(answer: CreateTopicsResponse) -> list[ErrorCode]:
    return _only_if_all([error_code(one.error_code) for one in answer.topics])


def _only_if_all(errors: list[ErrorCode]) -> list[ErrorCode]:
    """Ask again only when nothing was done: asking again for what was done would fail."""
    return errors if all(errors) else []


async def delete_topics(cluster: Cluster, names: Sequence[str], deadline: Deadline) -> None:
    """All of them are tried; KafkaError when one has failed."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=list(names),
        timeout_ms=cluster.config.request_timeout_ms,
    )

    def errors(answer: DeleteTopicsResponse) -> list[ErrorCode]:
        return _only_if_all([error_code(one.error_code) for one in answer.responses])

    answer = await ask_controller(cluster, request, DeleteTopicsResponse, errors, deadline)
    cluster.view = cluster.view.without_topics(names)
    raise_first((one.name or one.topic_id.hex(), one.error_code, one.error_message) for one in answer.responses)


async def create_partitions(
    cluster: Cluster,
    counts: Mapping[str, int],
    assignments: Mapping[str, Sequence[Sequence[int]]],
    deadline: Deadline,
    *,
    validate_only: bool,
) -> None:
    """Raise topics to these partition counts. `assignments` gives the replicas of the new partitions of some."""
    request = CreatePartitionsRequest(
        topics=[_more_partitions(name, count, assignments.get(name)) for name, count in counts.items()],
        timeout_ms=cluster.config.request_timeout_ms,
        validate_only=validate_only,
    )

    def errors(answer: CreatePartitionsResponse) -> list[ErrorCode]:
        return _only_if_all([error_code(one.error_code) for one in answer.results])

    answer = await ask_controller(cluster, request, CreatePartitionsResponse, errors, deadline)
    raise_first((one.name, one.error_code, one.error_message) for one in answer.results)


def _more_partitions(name: str, count: int, replicas: Sequence[Sequence[int]] | None) -> CreatePartitionsTopic:
    given = None if replicas is None else [CreatePartitionsAssignment(broker_ids=list(one)) for one in replicas]
    return CreatePartitionsTopic(name=name, count=count, assignments=given)
