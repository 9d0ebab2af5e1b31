"""Offsets of partitions by time, and a group's committed offsets, which consumer and admin client both ask for."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.client.calls import Deadline, Member, ask_coordinator, ask_leaders
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerUnreachable
from odradek.client.metadata import ClusterView
from odradek.client.records import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages.fetch import CONSUMER_REPLICA_ID
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, in the order given."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


Found = dict[TopicPartition, OffsetAndTimestamp | None]
Answered = dict[TopicPartition, tuple[int, OffsetAndTimestamp | None]]
"""Partition → error code and offset."""
WITHOUT_TIMES = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


async def offsets_at(
    cluster: Cluster,
    times: Mapping[TopicPartition, int],
    isolation_level: int,
    deadline: Deadline,
    *,
    to_read: bool = False,
) -> Found:
    """Return, for each partition, the first offset at or after a time (or EARLIEST, LATEST); None where there is none.

    Whoever is `to_read` there asks leaders in their present epochs only, as Kafka's consumer does and its admin client
    does not; and messages without timestamps (message.format.version 0.9) are none at or after a time, and no error.
    Raises KafkaError for an error that is not retriable; others end with ClientTimeout.
    """

    def read(answer: ListOffsetsResponse) -> Answered:
        found = _offsets(answer)
        if to_read:
            found |= {tp: (int(ErrorCode.NONE), None) for tp, (code, _) in found.items() if code == WITHOUT_TIMES}
        return found

    return await ask_leaders(
        cluster,
        times,
        lambda asked: _list_request(
            {tp: times[tp] for tp in asked}, isolation_level, cluster.view if to_read else ClusterView()
        ),
        ListOffsetsResponse,
        read,
        deadline,
    )


async def ask_leader(
    cluster: Cluster, leader: int, times: Mapping[TopicPartition, int], isolation_level: int
) -> tuple[Found, KafkaError | None]:
    """Ask one leader once for the offsets that `offsets_at` returns; return those in its answer, and an error if some
    are missing: one that is not retriable, if there is one."""
    try:
        answer = await cluster.request(leader, _list_request(times, isolation_level, cluster.view), ListOffsetsResponse)
    except BrokerUnreachable as error:
        return {}, error
    found: Found = {}
    failure: KafkaError | None = None
    for topic_partition, (code, offset) in _offsets(answer).items():
        if topic_partition not in times:
            continue
        if code == ErrorCode.NONE:
            found[topic_partition] = offset
        elif failure is None or failure.retriable:
            failure = KafkaError(error_code(code), str(topic_partition))
    return found, failure


def _list_request(times: Mapping[TopicPartition, int], isolation_level: int, view: ClusterView) -> ListOffsetsRequest:
    """Return a request that counts only in the leader epochs of this view (KIP-320), or in any if the view is empty."""

    def asked(place: TopicPartition) -> ListOffsetsPartition:
        known = view.partition(place)
        leader_epoch = -1 if known is None else known.leader_epoch
        return ListOffsetsPartition(
            partition_index=place.partition, current_leader_epoch=leader_epoch, timestamp=times[place]
        )

    topics = [
        ListOffsetsTopic(name=topic, partitions=[asked(TopicPartition(topic, number)) for number in numbers])
        for topic, numbers in by_topic(times).items()
    ]
    return ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, isolation_level=isolation_level, topics=topics)


def _offsets(answer: ListOffsetsResponse) -> Answered:
    """Return error code and offset by partition."""
    return {
        TopicPartition(topic.name, one.partition_index): (one.error_code, _offset(one))
        for topic in answer.topics
        for one in topic.partitions
    }


def _offset(one: ListOffsetsPartitionResponse) -> OffsetAndTimestamp | None:
    if one.old_style_offsets:
        return OffsetAndTimestamp(one.old_style_offsets[0], -1)
    return OffsetAndTimestamp(one.offset, one.timestamp, one.leader_epoch) if one.offset >= 0 else None


class Committed(NamedTuple):
    """Committed offsets, and the partitions whose offset is in a transaction that is still open."""

    found: dict[TopicPartition, OffsetAndMetadata]
    open_: set[TopicPartition]


async def committed_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    deadline: Deadline,
    *,
    require_stable: bool = True,
    member: Member | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return a group's committed offsets, of these partitions or (None) of all that have one.

    A `member` of the group asks the coordinator with which it has joined.

    With `require_stable` this waits for open transactions that commit to the group (KIP-447), as whoever reads on from
    there must. To show offsets pass False, as Kafka's admin client does: a busy group may always have one open.
    """
    while True:
        found, open_ = await settled_offsets(
            cluster, group_id, partitions, deadline, require_stable=require_stable, member=member
        )
        if not open_:
            return found
        await deadline.pause_after(unstable(open_))


async def settled_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    deadline: Deadline,
    *,
    require_stable: bool = True,
    member: Member | None,
) -> Committed:
    """Return committed offsets as `committed_offsets` does, without waiting for offsets in open transactions."""
    request = fetch_request(group_id, None if partitions is None else by_topic(partitions))
    request.require_stable = require_stable
    answer = await ask_coordinator(
        cluster, group_id, request, OffsetFetchResponse, _fetch_errors, deadline, member=member
    )
    group = answer.groups[0] if answer.groups else answer
    if group.error_code:
        raise KafkaError(error_code(group.error_code), f"group {group_id}")
    return take_committed(group.topics)


def fetch_request(group_id: str, topics: Mapping[str, list[int]] | None) -> OffsetFetchRequest:
    """Return an OffsetFetch that can be encoded in all versions, with a list of topics up to 7 and of groups since 8.
    `topics` None asks for all offsets."""
    request = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=True)
    group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
    if topics is not None:
        request.topics = [OffsetFetchRequestTopic(name=name, partition_indexes=all_) for name, all_ in topics.items()]
        group.topics = [OffsetFetchRequestTopics(name=name, partition_indexes=all_) for name, all_ in topics.items()]
    request.groups = [group]
    return request


def _fetch_errors(answer: OffsetFetchResponse) -> list[ErrorCode]:
    return [error_code(answer.error_code), *(error_code(group.error_code) for group in answer.groups)]


def take_committed(topics: Iterable[object]) -> Committed:
    """Return the offsets in an answer. Raises KafkaError for a partition with any error but an open transaction's."""
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    open_: set[TopicPartition] = set()
    for topic in topics:
        for one in topic.partitions:  # type: ignore[attr-defined]
            topic_partition = TopicPartition(topic.name, one.partition_index)  # type: ignore[attr-defined]
            error = error_code(one.error_code)
            if error == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                open_.add(topic_partition)
            elif error:
                raise KafkaError(error, str(topic_partition))
            elif one.committed_offset >= 0:
                found[topic_partition] = OffsetAndMetadata(
                    one.committed_offset, one.metadata or "", one.committed_leader_epoch
                )
    return Committed(found, open_)


def unstable(partitions: Iterable[TopicPartition]) -> KafkaError:
    """Return the error that these partitions have no settled offset now."""
    said = ", ".join(map(str, sorted(partitions)))
    return KafkaError(ErrorCode.UNSTABLE_OFFSET_COMMIT, f"{said}: a transaction that commits its offset is open")


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    generation_id: int = -1,
    member_id: str = "",
    group_instance_id: str | None = None,
) -> OffsetCommitRequest:
    """Return an OffsetCommit of a member, or, with the defaults, of a client that is not a member."""
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[_commit_partition(number, offsets[TopicPartition(topic, number)]) for number in numbers],
            )
            for topic, numbers in by_topic(offsets).items()
        ],
    )


def _commit_partition(number: int, position: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        committed_metadata=position.metadata,
    )


def commit_errors(answer: OffsetCommitResponse) -> list[ErrorCode]:
    """Return the errors of an OffsetCommit's partitions."""
    return [error_code(one.error_code) for topic in answer.topics for one in topic.partitions if one.error_code]
