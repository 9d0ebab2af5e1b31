"""Topics: create, delete, add partitions, delete records (KIP-107). Coroutines for the client's loop."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from odradek.client import arguments
from odradek.client.admin.values import CreatedTopic, NewPartitions, NewTopic
from odradek.client.calls import Deadline, ask_controller, ask_leaders
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientTimeout, in_words
from odradek.client.metadata import ClusterView
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

Failure = tuple[str, int, str | None]
"""Name, error code and message of one part of an answer."""
Part = TypeVar("Part")
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def raise_first(results: Iterable[Failure], done: str = "") -> None:
    """Raise KafkaError, with the code of the first failed part and names and reasons of all failed ones, if any has
    failed. `done`, such as "created", introduces the names of the others in the message."""
    parts = list(results)
    real = [(name, error_code(code), message) for name, code, message in parts if code]
    if not real:
        return
    plain = [f"{name}: {message or in_words(code)}" for name, code, message in real]
    well = [name for name, code, _ in parts if not code]
    if done and well:
        plain.append(f"{done}: {', '.join(well)}")
    raise KafkaError(real[0][1], "; ".join(plain))


def raise_what_failed(results: Sequence[Failure], raised: Sequence[KafkaError], done: str = "") -> None:
    """Raise a single error as it is; of several, as `raise_first` does, an error with the first one's code that names
    all; without errors nothing.

    `results` are errors in answers, `raised` those of requests that have failed as a whole.
    """
    if len(raised) == 1 and not any(code for _, code, _ in results):
        raise raised[0]
    plain = [f"{name}: {message or in_words(error_code(code))}" for name, code, message in results if code]
    if raised:
        raise KafkaError(raised[0].code, "; ".join([*(one.message for one in raised), *plain])) from raised[0]
    raise_first(results, done)


def the_one(parts: Sequence[Part], name: str) -> Part:
    """Return the only part of an answer about one thing. Raises KafkaError if it has none, or several."""
    if len(parts) != 1:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{name}: the answer has {len(parts)} parts in place of one")
    return parts[0]


def topics_of(given: Iterable[NewTopic | str] | Mapping[str, Mapping[str, Any]]) -> list[NewTopic]:
    """Return topics to create from any form that kafka-python accepts: NewTopics, its own or ours, names, options by
    name.

    Raises TypeError, ConfigError.
    """
    if isinstance(given, Mapping):
        listed: list[Any] = [_with_options(arguments.topic_name(name), options) for name, options in given.items()]
    else:
        listed = [_own(one) for one in arguments.listed(given, "NewTopics")]
    topics = arguments.instances(listed, NewTopic)
    for topic in topics:
        arguments.text(topic.name, "a topic's name")
        arguments.mapping(topic.replica_assignments, "the replicas of a topic")
        for name, value in arguments.mapping(topic.configs, "the settings of a topic").items():
            arguments.setting(name, value)
    return topics


def _own(given: Any) -> Any:
    if isinstance(given, str):
        return NewTopic(given)
    if hasattr(given, "topic_configs"):  # kafka-python's
        replicas, settings = given.replica_assignments or {}, given.topic_configs or {}
        return NewTopic(given.name, given.num_partitions, given.replication_factor, replicas, settings)
    return given


def _with_options(name: str, options: Mapping[str, Any]) -> NewTopic:
    known = dict(arguments.mapping(options, "options"))
    topic = NewTopic(
        name,
        known.pop("num_partitions", -1),
        known.pop("replication_factor", -1),
        known.pop("assignments", {}),
        known.pop("configs", {}),
    )
    if known:
        raise TypeError(
            f"a topic has num_partitions, replication_factor, assignments and configs, not {', '.join(known)}"
        )
    return topic


async def create_topics(
    cluster: Cluster, topics: Sequence[NewTopic], deadline: Deadline, *, validate_only: bool, raise_errors: bool = True
) -> list[CreatedTopic]:
    """Create topics; all are tried. Raises KafkaError when one has failed, if `raise_errors`."""

    async def create(some: Collection[str]) -> list[CreatableTopicResult]:
        names = set(some)
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics if topic.name in names],
            timeout_ms=cluster.config.request_timeout_ms,
            validate_only=validate_only,
        )
        answer = await ask_controller(
            cluster, request, CreateTopicsResponse, lambda given: _common_errors(given.topics), deadline
        )
        return answer.topics

    created = await _once_allowed([topic.name for topic in topics], create, deadline)
    if raise_errors:
        results = ((one.name, one.error_code, one.error_message) for one in created)
        raise_first(results, "" if validate_only else "created")
    return [
        CreatedTopic(one.name, bytes(one.topic_id), one.num_partitions, one.replication_factor)
        for one in created
        if not one.error_code
    ]


async def _once_allowed(
    names: Sequence[str], ask: Callable[[Collection[str]], Awaitable[Sequence[Any]]], deadline: Deadline
) -> list[Any]:
    """Return what is answered about topics. Those that controller_mutation_rate did not allow yet, which the others
    may have used up, are asked for again until the deadline. Raises what `ask` raises."""
    answered: dict[str, Any] = {}
    left = list(names)
    try:
        while left:
            answered |= {one.name: one for one in await ask(left)}
            left = [one for one in left if one in answered and answered[one].error_code == THROTTLED]
            if left:
                await deadline.pause_after(KafkaError(THROTTLED, ", ".join(left)))
    except ClientTimeout:
        if not answered:
            raise
    return [*answered.values(), *(Unsaid(name) for name in names if name not in answered)]


class Unsaid(NamedTuple):
    """Result of a topic that an answer lacks."""

    name: str
    error_code: int = ErrorCode.UNKNOWN_SERVER_ERROR
    error_message: str = "the answer lacks it"


async def wait_for_topics(cluster: Cluster, names: Sequence[str], deadline: Deadline) -> None:
    """Wait until topics are known and all their partitions have leaders. Raises ClientTimeout."""
    while True:
        view, _ = await cluster.describe(names)
        missing = [name for name in names if not _has_leaders(view, name)]
        if not missing:
            return
        await deadline.pause_after(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, ", ".join(missing)))


def _has_leaders(view: ClusterView, name: str) -> bool:
    info = view.topics.get(name)
    return info is not None and bool(info.partitions) and all(one.leader in view.nodes for one in info.partitions)


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


def _common_errors(parts: Sequence[Any]) -> list[ErrorCode]:
    """Return the errors if every part has failed, else none: the request is then not repeated, as for parts that have
    succeeded the repetition would fail."""
    errors = [error_code(one.error_code) for one in parts]
    return errors if all(errors) else []


async def delete_topics(
    cluster: Cluster, names: Sequence[str], deadline: Deadline, *, raise_errors: bool = True
) -> None:
    """Delete topics; all are tried. Raises KafkaError when one has failed, if `raise_errors`."""

    async def delete(some: Collection[str]) -> list[DeletableTopicResult]:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in some],
            topic_names=list(some),
            timeout_ms=cluster.config.request_timeout_ms,
        )
        answer = await ask_controller(
            cluster, request, DeleteTopicsResponse, lambda given: _common_errors(given.responses), deadline
        )
        return answer.responses

    deleted = await _once_allowed(names, delete, deadline)
    cluster.view = cluster.view.without_topics(names)
    if raise_errors:
        results = ((one.name or one.topic_id.hex(), one.error_code, one.error_message) for one in deleted)
        raise_first(results, "deleted")


def _count(given: Any) -> NewPartitions:
    if hasattr(given, "total_count"):  # ours, or kafka-python's
        return NewPartitions(given.total_count, given.new_assignments)
    return NewPartitions(given) if isinstance(given, int) else NewPartitions(*given)


async def create_partitions(
    cluster: Cluster,
    counts: Mapping[str, int | NewPartitions],
    deadline: Deadline,
    *,
    validate_only: bool,
    raise_errors: bool = True,
) -> None:
    """Raise topics to these partition counts; all are tried. With `raise_errors` raises KafkaError when one failed."""
    wanted = {name: _count(one) for name, one in counts.items()}

    async def grow(names: Collection[str]) -> list[CreatePartitionsTopicResult]:
        request = CreatePartitionsRequest(
            topics=[_more_partitions(name, *wanted[name]) for name in names],
            timeout_ms=cluster.config.request_timeout_ms,
            validate_only=validate_only,
        )
        answer = await ask_controller(
            cluster, request, CreatePartitionsResponse, lambda given: _common_errors(given.results), deadline
        )
        return answer.results

    grown = await _once_allowed(list(wanted), grow, deadline)
    if raise_errors:
        raise_first((one.name, one.error_code, one.error_message) for one in grown)


def _more_partitions(name: str, count: int, replicas: Sequence[Sequence[int]] | None) -> CreatePartitionsTopic:
    given = None if replicas is None else [CreatePartitionsAssignment(broker_ids=list(one)) for one in replicas]
    return CreatePartitionsTopic(name=name, count=count, assignments=given)


async def delete_records(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], broker_id: int | None, deadline: Deadline
) -> dict[TopicPartition, int]:
    """Delete the records before these offsets (-1: the high watermark); return the log start offsets.

    Raises KafkaError, ClientTimeout.
    """

    def request(asked: Sequence[TopicPartition]) -> DeleteRecordsRequest:
        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=number, offset=offsets[TopicPartition(topic, number)])
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(asked).items()
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=cluster.config.request_timeout_ms)

    return await ask_leaders(
        cluster,
        offsets,
        request,
        DeleteRecordsResponse,
        lambda answer: {
            TopicPartition(topic.name, one.partition_index): (one.error_code, one.low_watermark)
            for topic in answer.topics
            for one in topic.partitions
        },
        deadline,
        broker_id=broker_id,
    )
