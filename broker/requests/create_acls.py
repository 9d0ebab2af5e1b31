"""CreateAcls (key 30), versions 0 to 3: adds lines to access lists, with an answer to each; any broker does it.

They count on this broker when it answers, on the others when they hear of it. Without an authorizer SECURITY_DISABLED.
Names that ZooKeeper cannot have as part of a path are INVALID_REQUEST; Kafka says so of `/` alone and answers the
others with UNKNOWN_SERVER_ERROR.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.security.acls import (
    CLUSTER_NAME,
    PATTERNS_BY_NUMBER,
    TYPES_BY_NUMBER,
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


def handle(broker: Services, request: CreateAclsRequest, context: RequestContext) -> Outcome:
    if broker.authorizer is None:
        refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
        return Reply(CreateAclsResponse(results=[refused for _ in request.creations]))
    return _create(broker.authorizer, [_binding(one) for one in request.creations])


def _binding(asked: AclCreation) -> AclBinding:
    """Read a line. Raises MalformedMessage for numbers that mean nothing."""
    resource_type, pattern = (
        TYPES_BY_NUMBER.get(asked.resource_type),
        PATTERNS_BY_NUMBER.get(asked.resource_pattern_type),
    )
    known = asked.operation in [*AclOperation] and asked.permission_type in [*AclPermission]
    if resource_type is None or pattern is None or not known:
        raise MalformedMessage("an access list contains unknown elements")
    return AclBinding(
        ResourcePattern(resource_type, asked.resource_name, pattern),
        Acl(asked.principal, asked.host, AclOperation(asked.operation), AclPermission(asked.permission_type)),
    )


async def _create(authorizer: AclAuthorizer, bindings: list[AclBinding]) -> Reply:
    faults = [_fault(binding.pattern) for binding in bindings]
    created = iter(await authorizer.create([one for one, fault in zip(bindings, faults, strict=True) if fault is None]))
    errors = [next(created) if fault is None else fault for fault in faults]
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
