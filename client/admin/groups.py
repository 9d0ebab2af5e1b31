"""Consumer groups: list, describe, offsets, lag, delete. Coroutines for the client's loop."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from odradek.client.admin.topics import Failure, raise_first, raise_what_failed, the_one
from odradek.client.admin.values import (
    GroupDescription,
    GroupListing,
    GroupMember,
    MemberToRemove,
    OffsetSpec,
    OffsetTimestamp,
    PartitionLag,
)
from odradek.client.calls import Deadline, ask_broker, ask_coordinator
from odradek.client.cluster import Cluster
from odradek.client.consumer.group_protocol import PROTOCOL_TYPE, decode_assignment
from odradek.client.errors import BrokerUnreachable
from odradek.client.offsets import by_topic, commit_errors, commit_request, committed_offsets, offsets_at
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage, error_code
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.messages.fetch import READ_UNCOMMITTED
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.messages.offset_commit import OffsetCommitResponse
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

logger = logging.getLogger(__name__)
NOT_ASKED = -0x8000_0000
"""Number in an answer in place of a group's authorized operations, if these were not asked for."""
NewDeadline = Callable[[], Deadline]


async def list_groups(
    cluster: Cluster,
    deadline: Deadline,
    states: Sequence[str],
    types: Sequence[str] = (),
    broker_ids: Iterable[int] | None = None,
) -> list[GroupListing]:
    """Return the groups that brokers (None: all) coordinate, sorted by name.

    Brokers that cannot be reached are left out, since others take over their groups, unless none can be reached. One
    that is still loading its groups is asked again. Raises KafkaError, BrokerUnreachable, ClientTimeout.
    """
    await cluster.refresh()
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    asked = cluster.view.nodes if broker_ids is None else broker_ids
    answers = await asyncio.gather(
        *(ask_broker(cluster, node_id, request, ListGroupsResponse, deadline) for node_id in asked),
        return_exceptions=True,
    )
    unreached = [answer for answer in answers if isinstance(answer, BrokerUnreachable)]
    if unreached and len(unreached) == len(answers):
        raise unreached[0]
    found: dict[str, GroupListing] = {}
    for answer in answers:
        if isinstance(answer, BrokerUnreachable):
            logger.warning("groups are listed without those of %s", answer)
            continue
        if isinstance(answer, BaseException):
            raise answer
        if answer.error_code:
            raise KafkaError(error_code(answer.error_code), "groups cannot be listed")
        for one in answer.groups:
            found[one.group_id] = GroupListing(one.group_id, one.protocol_type, one.group_state)
    return [found[group_id] for group_id in sorted(found)]


async def describe_group(
    cluster: Cluster,
    group_id: str,
    deadline: Deadline,
    coordinator_id: int | None = None,
    *,
    operations: bool = False,
) -> GroupDescription:
    """Return a group; state "Dead" when there is none. Raises KafkaError."""

    def errors(answer: DescribeGroupsResponse) -> list[ErrorCode]:
        return [error_code(one.error_code) for one in answer.groups]

    request = DescribeGroupsRequest(groups=[group_id], include_authorized_operations=operations)
    answer = await ask_coordinator(
        cluster, group_id, request, DescribeGroupsResponse, errors, deadline, coordinator_id=coordinator_id
    )
    raise_first((one.group_id, one.error_code, None) for one in answer.groups)
    coordinator = await cluster.find_coordinator(group_id)
    return _description(the_one(answer.groups, f"group {group_id}"), coordinator)


def _description(group: DescribedGroup, coordinator: int) -> GroupDescription:
    members = [_member(one, group.protocol_type) for one in group.members]
    bits = group.authorized_operations
    allowed = None if bits == NOT_ASKED else frozenset(bit for bit in range(32) if bits >> bit & 1)
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_type, group.protocol_data, members, coordinator, allowed
    )


def _member(one: DescribedGroupMember, protocol_type: str) -> GroupMember:
    partitions: list[TopicPartition] = []
    if protocol_type == PROTOCOL_TYPE:
        try:
            partitions = decode_assignment(one.member_assignment)
        except MalformedMessage:
            partitions = []
    return GroupMember(one.member_id, one.group_instance_id, one.client_id, one.client_host, tuple(partitions))


async def group_lag(cluster: Cluster, group_id: str, new_deadline: NewDeadline) -> list[PartitionLag]:
    """Compare committed offsets with log ends, for all partitions in which the group has an offset or an owner.

    Partitions without a leader have no log end now; they are not waited for (ConsumerGroupCommand's
    filterNoneLeaderPartitions).
    """
    description = await describe_group(cluster, group_id, new_deadline())
    committed = await committed_offsets(cluster, group_id, None, new_deadline(), require_stable=False)
    owned = {tp for member in description.members for tp in member.partitions}
    partitions = sorted(owned | set(committed))
    known, _ = await cluster.describe({tp.topic for tp in partitions}) if partitions else (cluster.view, {})
    alive = [tp for tp in partitions if known.partition(tp) is not None]
    times = {tp: LATEST_TIMESTAMP for tp in alive if known.leader_of(tp) is not None}
    ends = await offsets_at(cluster, times, READ_UNCOMMITTED, new_deadline()) if times else {}
    return [_lag(tp, committed.get(tp), end.offset if (end := ends.get(tp)) else None) for tp in alive]


def _lag(
    topic_partition: TopicPartition, committed: OffsetAndMetadata | None, log_end_offset: int | None
) -> PartitionLag:
    if committed is None or log_end_offset is None:
        return PartitionLag(topic_partition, committed.offset if committed else None, log_end_offset, None)
    return PartitionLag(topic_partition, committed.offset, log_end_offset, max(0, log_end_offset - committed.offset))


HAS_MEMBERS = "the group has members: stop its consumers first"
BUSY: dict[int, str] = {ErrorCode.UNKNOWN_MEMBER_ID: HAS_MEMBERS, ErrorCode.NON_EMPTY_GROUP: HAS_MEMBERS}
"""Meaning of errors for a client that is not a member of the group."""


async def alter_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    deadline: Deadline,
    coordinator_id: int | None,
) -> None:
    """Set committed offsets of a group without members. Raises KafkaError (UNKNOWN_MEMBER_ID if it has members)."""
    request = commit_request(group_id, offsets)
    answer = await ask_coordinator(
        cluster, group_id, request, OffsetCommitResponse, commit_errors, deadline, coordinator_id=coordinator_id
    )
    raise_first(
        (f"{topic.name}-{one.partition_index}", one.error_code, BUSY.get(one.error_code))
        for topic in answer.topics
        for one in topic.partitions
    )


async def delete_groups(
    cluster: Cluster, group_ids: Iterable[str], new_deadline: NewDeadline, coordinator_id: int | None
) -> None:
    """Delete groups without members, and their offsets; all are tried. Raises KafkaError when one has failed."""

    def errors(answer: DeleteGroupsResponse) -> list[ErrorCode]:
        return [error_code(one.error_code) for one in answer.results]

    results: list[Failure] = []
    raised: list[KafkaError] = []
    for group_id in group_ids:
        request = DeleteGroupsRequest(groups_names=[group_id])
        try:
            answer = await ask_coordinator(
                cluster, group_id, request, DeleteGroupsResponse, errors, new_deadline(), coordinator_id=coordinator_id
            )
            one = the_one(answer.results, f"group {group_id}")
        except KafkaError as error:
            raised.append(error)
        else:
            results.append((one.group_id, one.error_code, BUSY.get(one.error_code)))
    raise_what_failed(results, raised, "deleted")


async def delete_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition],
    deadline: Deadline,
    coordinator_id: int | None,
) -> None:
    """Delete committed offsets of topics to which no member subscribes. Raises KafkaError, which names all failures."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
        )
        for topic, numbers in by_topic(partitions).items()
    ]
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)

    def errors(answer: OffsetDeleteResponse) -> list[ErrorCode]:
        return [error_code(answer.error_code)]

    answer = await ask_coordinator(
        cluster, group_id, request, OffsetDeleteResponse, errors, deadline, coordinator_id=coordinator_id
    )
    raise_first([(f"group {group_id}", answer.error_code, None)])
    raise_first(
        (f"{topic.name}-{one.partition_index}", one.error_code, None)
        for topic in answer.topics
        for one in topic.partitions
    )


async def remove_members(
    cluster: Cluster,
    group_id: str,
    members: Sequence[MemberToRemove],
    deadline: Deadline,
    coordinator_id: int | None,
) -> None:
    """Remove members from their group. Raises KafkaError, which names all failures."""
    asked = [
        MemberIdentity(member_id=one.member_id or "", group_instance_id=one.group_instance_id, reason=one.reason)
        for one in members
    ]
    # The id that is not in the list is for brokers before Kafka 2.4.
    request = LeaveGroupRequest(group_id=group_id, member_id=asked[0].member_id if asked else "", members=asked)

    def errors(answer: LeaveGroupResponse) -> list[ErrorCode]:
        return [error_code(answer.error_code)]

    answer = await ask_coordinator(
        cluster, group_id, request, LeaveGroupResponse, errors, deadline, coordinator_id=coordinator_id
    )
    raise_first([(f"group {group_id}", answer.error_code, None)])
    raise_first((one.group_instance_id or one.member_id, one.error_code, None) for one in answer.members)


async def reset_offsets(
    cluster: Cluster,
    group_id: str,
    targets: Mapping[TopicPartition, int],
    new_deadline: NewDeadline,
    coordinator_id: int | None,
) -> dict[TopicPartition, int]:
    """Set the offsets of a group without members: to an OffsetSpec, an OffsetTimestamp or a number.

    Returns the offsets that were committed, which are clipped to the logs. A time after the last record means the log
    end. Raises KafkaError.
    """
    begins = await offsets_at(cluster, dict.fromkeys(targets, EARLIEST_TIMESTAMP), READ_UNCOMMITTED, new_deadline())
    ends = await offsets_at(cluster, dict.fromkeys(targets, LATEST_TIMESTAMP), READ_UNCOMMITTED, new_deadline())
    times = {tp: int(one) for tp, one in targets.items() if isinstance(one, (OffsetSpec, OffsetTimestamp))}
    timed = await offsets_at(cluster, times, READ_UNCOMMITTED, new_deadline()) if times else {}
    chosen: dict[TopicPartition, int] = {}
    for tp, target in targets.items():
        begin, end = begins[tp], ends[tp]
        assert begin is not None and end is not None, tp
        found = timed.get(tp)
        wanted = (found.offset if found is not None else end.offset) if tp in times else target
        chosen[tp] = min(max(wanted, begin.offset), end.offset)
    offsets = {tp: OffsetAndMetadata(offset) for tp, offset in chosen.items()}
    await alter_offsets(cluster, group_id, offsets, new_deadline(), coordinator_id)
    return chosen
