"""DescribeGroups (key 15), versions 0 to 5: state and members of groups.

A group that does not exist is Dead, without an error. Metadata and assignments are shown of stable groups only.
Without an authorizer everybody may do everything, and so is told when it asks (version 3 and above).
"""

from odradek.broker.requests.group_services import GroupServices
from odradek.broker.requests.outcome import Outcome, Reply, RequestContext
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

REQUEST = DescribeGroupsRequest
VERSIONS = (0, 5)

READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11
ALL_OPERATIONS = sum(1 << operation for operation in (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS))
NOT_ASKED = -(2**31)


def handle(broker: GroupServices, request: DescribeGroupsRequest, context: RequestContext) -> Outcome:
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    return Reply(DescribeGroupsResponse(groups=[_described(broker, group, operations) for group in request.groups]))


def _described(broker: GroupServices, group_id: str, operations: int) -> DescribedGroup:
    described = broker.groups.describe(group_id)
    return DescribedGroup(
        error_code=described.error,
        group_id=group_id,
        group_state=described.state,
        protocol_type=described.protocol_type,
        protocol_data=described.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in described.members
        ],
        authorized_operations=operations if described.error is ErrorCode.NONE else NOT_ASKED,
    )
