"""DescribeAcls (key 29), versions 0 to 3: the lines of access lists that match a filter, as this broker knows them.

Without an authorizer the answer is SECURITY_DISABLED. A filter with an unknown number matches nothing; one with a 0
closes the connection, as Kafka refuses to read it.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.security.acls import PATTERN_NUMBERS, TYPE_NUMBERS, UNKNOWN, Acl, AclFilter
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.messages.delete_acls import DeleteAclsFilter
from odradek.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from odradek.zk_schema.znodes.acls import ResourcePattern

REQUEST = DescribeAclsRequest
VERSIONS = (0, 3)

NO_AUTHORIZER = "No Authorizer is configured on the broker"


def handle(broker: Services, request: DescribeAclsRequest, context: RequestContext) -> Outcome:
    if broker.authorizer is None:
        return Reply(DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER))
    resources: dict[ResourcePattern, list[Acl]] = {}
    for pattern, acl in broker.authorizer.bindings(acl_filter(request)):
        resources.setdefault(pattern, []).append(acl)
    return Reply(
        DescribeAclsResponse(
            error_message=None, resources=[_resource(pattern, acls) for pattern, acls in resources.items()]
        )
    )


def acl_filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Read a filter. Raises MalformedMessage for one with a 0 in it."""
    numbers = asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type
    if UNKNOWN in numbers:
        raise MalformedMessage("a filter of access lists contains unknown elements")
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _resource(pattern: ResourcePattern, acls: list[Acl]) -> DescribeAclsResource:
    return DescribeAclsResource(
        resource_type=TYPE_NUMBERS[pattern.resource_type],
        resource_name=pattern.name,
        pattern_type=PATTERN_NUMBERS[pattern.pattern_type],
        acls=[
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
            for acl in acls
        ],
    )
