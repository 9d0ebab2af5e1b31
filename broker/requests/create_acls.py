"""CreateAcls (key 30), versions 0 to 3: adds lines to access lists, with an answer to each; any broker does it.

They hold on this broker when it answers, on the others when these hear of them. Without an authorizer the answer is
SECURITY_DISABLED. Names that ZooKeeper cannot have as part of a path are INVALID_REQUEST; Kafka says so only of `/`,
and answers the others with UNKNOWN_SERVER_ERROR. Unknown numbers are INVALID_REQUEST too, but a 0 closes the
connection. If any line has ANY or MATCH, which only filters may have, none is created and each is answered
UNKNOWN_SERVER_ERROR, as by Kafka.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.security.acls import (
    ANY,
    CLUSTER_NAME,
    MATCH,
    PATTERNS_BY_NUMBER,
    TYPES_BY_NUMBER,
    UNKNOWN,
    Acl,
    AclBinding,
    AclOperation,
    AclPermission,
)
from odradek.broker.security.authorizer import AclAuthorizer
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from odradek.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from odradek.zk_schema.znodes.acls import ResourcePattern, ResourceType

REQUEST = CreateAclsRequest
VERSIONS = (0, 3)

NO_AUTHORIZER = "No Authorizer is configured."
ONLY_IN_FILTERS = "ANY and MATCH are for filters; nothing is created."


def handle(broker: Services, request: CreateAclsRequest, context: RequestContext) -> Outcome:
    if broker.authorizer is None:
        refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
        return Reply(CreateAclsResponse(results=[refused for _ in request.creations]))
    if any(UNKNOWN in _numbers(one) for one in request.creations):
        raise MalformedMessage("an access list contains unknown elements")
    if any(ANY in _numbers(one) or one.resource_pattern_type == MATCH for one in request.creations):
        refused = AclCreationResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=ONLY_IN_FILTERS)
        return Reply(CreateAclsResponse(results=[refused for _ in request.creations]))
    return _create(broker.authorizer, [_binding(one) for one in request.creations])


def _numbers(asked: AclCreation) -> tuple[int, ...]:
    return asked.resource_type, asked.resource_pattern_type, asked.operation, asked.permission_type


def _binding(asked: AclCreation) -> AclBinding | KafkaError:
    """Read a line; return why it cannot be one, if so."""
    resource_type, pattern_type = (
        TYPES_BY_NUMBER.get(asked.resource_type),
        PATTERNS_BY_NUMBER.get(asked.resource_pattern_type),
    )
    known = asked.operation in [*AclOperation] and asked.permission_type in [*AclPermission]
    if resource_type is None or pattern_type is None or not known:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Failed to create ACL: it contains unknown elements")
    pattern = ResourcePattern(resource_type, asked.resource_name, pattern_type)
    acl = Acl(asked.principal, asked.host, AclOperation(asked.operation), AclPermission(asked.permission_type))
    return _fault(pattern) or AclBinding(pattern, acl)


async def _create(authorizer: AclAuthorizer, bindings: list[AclBinding | KafkaError]) -> Reply:
    created = iter(await authorizer.create([one for one in bindings if isinstance(one, AclBinding)]))
    errors = [next(created) if isinstance(one, AclBinding) else one for one in bindings]
    return Reply(
        CreateAclsResponse(
            results=[
                AclCreationResult(error_message=None)
                if error is None
                else AclCreationResult(error_code=error.code, error_message=error.message)
                for error in errors
            ]
        )
    )


def _fault(pattern: ResourcePattern) -> KafkaError | None:
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not pattern.name:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    return None
