"""DeleteAcls (key 31), versions 0 to 3: removes the lines that match filters, and answers which these were; any broker.

A filter that names a resource finds what ZooKeeper has of it; others are compared with what this broker knows. Without
an authorizer the answer is SECURITY_DISABLED.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.requests.create_acls import NO_AUTHORIZER
from odradek.broker.requests.describe_acls import acl_filter
from odradek.broker.security.acls import PATTERN_NUMBERS, TYPE_NUMBERS, AclBinding, AclFilter
from odradek.broker.security.authorizer import AclAuthorizer
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

REQUEST = DeleteAclsRequest
VERSIONS = (0, 3)


def handle(broker: Services, request: DeleteAclsRequest, context: RequestContext) -> Outcome:
    if broker.authorizer is None:
        refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
        return Reply(DeleteAclsResponse(filter_results=[refused for _ in request.filters]))
    return _delete(broker.authorizer, [acl_filter(one) for one in request.filters])


async def _delete(authorizer: AclAuthorizer, filters: list[AclFilter]) -> Reply:
    return Reply(
        DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(error_message=None, matching_acls=[_deleted(*one) for one in found])
                for found in await authorizer.delete(filters)
            ]
        )
    )


def _deleted(binding: AclBinding, error: KafkaError | None) -> DeleteAclsMatchingAcl:
    pattern, acl = binding
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=TYPE_NUMBERS[pattern.resource_type],
        resource_name=pattern.name,
        pattern_type=PATTERN_NUMBERS[pattern.pattern_type],
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
