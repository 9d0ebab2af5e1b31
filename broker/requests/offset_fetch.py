"""OffsetFetch (key 9), versions 0 to 9: how far a group has read.

Every partition asked for is in the answer, with -1 and no error when nothing is committed for it. From version 2 no
topics (null) mean all that the group has; from 8 several groups are asked about at once, each with its own error. A
partition with a commit under way is UNSTABLE_OFFSET_COMMIT for those who require stable offsets (version 7 and above).
Version 0 reads ZooKeeper, by any broker, and answers UNKNOWN_TOPIC_OR_PARTITION where nothing is committed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from odradek.broker.groups.group_offsets import NO_OFFSET, FetchedOffset
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.requests.zookeeper_offsets import read_offset
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.protocol.steps import Steps, at_once
from odradek.protocol.topic_names import PartitionKey
from odradek.world.time_slices import in_slices
from odradek.zk_schema.store import is_znode_name

REQUEST = OffsetFetchRequest
VERSIONS = (0, 9)

FIRST_VERSION_WITH_ERROR = 2
FIRST_VERSION_WITH_GROUPS = 8

Answer = TypeVar("Answer")
AskedTopics = Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics] | None
Fetched = Mapping[PartitionKey, FetchedOffset]


def handle(broker: Services, request: OffsetFetchRequest, context: RequestContext) -> Outcome:
    if context.api_version == 0:
        return _read_from_zookeeper(broker, request)
    return in_slices(broker.clock, _answer(broker, request, context.api_version))


def _answer(broker: Services, request: OffsetFetchRequest, version: int) -> Steps[Reply]:
    """Tell of all groups asked for; each has its offsets as they are at one time."""
    if version >= FIRST_VERSION_WITH_GROUPS:
        groups = []
        for one in request.groups:
            groups.append((yield from _group(broker, one.group_id, one.topics, request.require_stable)))
        return Reply(OffsetFetchResponse(groups=groups))
    error, fetched = _fetch(broker, request.group_id, request.topics, request.require_stable)
    if error is ErrorCode.NONE:
        return Reply(OffsetFetchResponse(topics=(yield from _topics(fetched))))
    if version >= FIRST_VERSION_WITH_ERROR:
        return Reply(OffsetFetchResponse(error_code=error))
    refused = dict.fromkeys(_partitions(request.topics) or (), FetchedOffset(error=error))
    return Reply(OffsetFetchResponse(topics=(yield from _topics(refused))))


async def _read_from_zookeeper(broker: Services, request: OffsetFetchRequest) -> Reply:
    fetched = {}
    for topic, index in _partitions(request.topics) or ():
        offset, error = NO_OFFSET, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_znode_name(request.group_id) and broker.metadata.partition(topic, index) is not None:
            offset, error = await read_offset(broker.zookeeper, request.group_id, topic, index)
        fetched[topic, index] = FetchedOffset(offset, error=error)
    return Reply(OffsetFetchResponse(topics=at_once(_topics(fetched))))


def _fetch(broker: Services, group_id: str, topics: AskedTopics, require_stable: bool) -> tuple[ErrorCode, Fetched]:
    return broker.groups.fetch_offsets(group_id, _partitions(topics), require_stable=require_stable)


def _partitions(topics: AskedTopics) -> list[PartitionKey] | None:
    if topics is None:
        return None
    return [(topic.name, index) for topic in topics for index in topic.partition_indexes]


def _by_topic(fetched: Fetched, answer: Callable[..., Answer]) -> Steps[dict[str, list[Answer]]]:
    """Make the answer for each partition, by topic."""
    topics: dict[str, list[Answer]] = {}
    for (topic, index), one in fetched.items():
        topics.setdefault(topic, []).append(
            answer(
                partition_index=index,
                committed_offset=one.offset,
                committed_leader_epoch=one.leader_epoch,
                metadata=one.metadata,
                error_code=one.error,
            )
        )
        yield
    return topics


def _topics(fetched: Fetched) -> Steps[list[OffsetFetchResponseTopic]]:
    by_topic = yield from _by_topic(fetched, OffsetFetchResponsePartition)
    return [OffsetFetchResponseTopic(name=topic, partitions=partitions) for topic, partitions in by_topic.items()]


def _group(
    broker: Services, group_id: str, topics: AskedTopics, require_stable: bool
) -> Steps[OffsetFetchResponseGroup]:
    error, fetched = _fetch(broker, group_id, topics, require_stable)
    by_topic = yield from _by_topic(fetched, OffsetFetchResponsePartitions)
    answers = [OffsetFetchResponseTopics(name=topic, partitions=partitions) for topic, partitions in by_topic.items()]
    return OffsetFetchResponseGroup(group_id=group_id, error_code=error, topics=answers)
