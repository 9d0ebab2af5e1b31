"""DescribeGroups (key 15), versions 0 to 5: state and members of groups.

A group that does not exist is Dead, without an error. Metadata and assignments are shown only for stable groups. A
client that asks which operations it is authorized to (version 3 on) is told all, unless an authorizer says otherwise.
"""

from collections.abc import Sequence

from odradek.broker.groups.group_coordinator import GroupCoordinator
from odradek.broker.groups.group_metadata import GroupState, Member
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.security.acls import ALL_BITS
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.steps import Steps
from odradek.world.time_slices import in_slices
from odradek.zk_schema.znodes.acls import ResourceType

REQUEST = DescribeGroupsRequest
VERSIONS = (0, 5)

NOT_ASKED = -(2**31)


def handle(broker: Services, request: DescribeGroupsRequest, context: RequestContext) -> Outcome:
    operations = ALL_BITS[ResourceType.GROUP] if request.include_authorized_operations else NOT_ASKED
    return in_slices(broker.clock, _answer(broker.groups, request.groups, operations))


def _answer(groups: GroupCoordinator, group_ids: Sequence[str], operations: int) -> Steps[Reply]:
    """Tell of all groups asked for; each as it is at one time."""
    told = []
    for group_id in group_ids:
        told.append(described(groups, group_id, operations))
        yield
    return Reply(DescribeGroupsResponse(groups=told))


def described(groups: GroupCoordinator, group_id: str, operations: int = NOT_ASKED) -> DescribedGroup:
    """Make the answer for one group."""
    error, group = groups.describe(group_id)
    if error is not ErrorCode.NONE:
        return DescribedGroup(error_code=error, group_id=group_id)
    if group is None:
        return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD, authorized_operations=operations)
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_member(member, protocol) for member in group.members.values()],
        authorized_operations=operations,
    )


def _member(member: Member, protocol: str | None) -> DescribedGroupMember:
    """Describe a member; metadata and assignment are empty unless the group is stable."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=b"" if protocol is None else member.assignment,
    )
