"""What a coordinator tells about its groups: ListGroups, DescribeGroups, OffsetFetch."""

from typing import NamedTuple

from odradek.broker.groups.offsets import NO_EPOCH, CommittedOffset, OffsetTable, TopicPartition
from odradek.broker.groups.roster import Member, Roster
from odradek.broker.groups.states import GroupState
from odradek.protocol.errors import ErrorCode

NO_OFFSET = -1
CLASSIC = "classic"
"""The type of every group here (KIP-848 added others)."""


class GroupListing(NamedTuple):
    """One line of ListGroups."""

    group_id: str
    protocol_type: str
    state: str


class MemberDescription(NamedTuple):
    """One member in DescribeGroups; metadata and assignment are empty unless the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """One group in DescribeGroups; everything is empty when there is an error."""

    error: ErrorCode
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()


class FetchedOffset(NamedTuple):
    """One partition in OffsetFetch; NO_OFFSET without an error when nothing is committed."""

    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


def listing(roster: Roster) -> GroupListing:
    """The group in a line."""
    return GroupListing(roster.group_id, roster.protocol_type or "", roster.state.value)


def description(roster: Roster | None) -> GroupDescription:
    """The group in full; one that does not exist is Dead, without an error (so in Kafka until DescribeGroups 6)."""
    if roster is None:
        return GroupDescription(ErrorCode.NONE, GroupState.DEAD.value)
    protocol = roster.protocol_name if roster.state is GroupState.STABLE else None
    members = tuple(_member(member, protocol) for member in roster.members.values())
    return GroupDescription(ErrorCode.NONE, roster.state.value, roster.protocol_type or "", protocol or "", members)


def _member(member: Member, protocol: str | None) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        b"" if protocol is None else member.metadata(protocol),
        b"" if protocol is None else member.assignment,
    )


def fetched(offsets: OffsetTable, partition: TopicPartition, *, require_stable: bool) -> FetchedOffset:
    """What is committed for a partition; with `require_stable`, not while a commit is under way (KIP-447)."""
    if require_stable and not offsets.is_stable(partition):
        return FetchedOffset(error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed: CommittedOffset | None = offsets.get(partition)
    if committed is None:
        return FetchedOffset()
    return FetchedOffset(committed.offset, committed.leader_epoch, committed.metadata)
