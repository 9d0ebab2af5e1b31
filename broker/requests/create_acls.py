"""CreateAcls (key 30), versions 0 to 3: SECURITY_DISABLED for each, as a broker of Kafka without an authorizer answers.

Not done: access control.
"""

from odradek.broker.requests.outcome import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

REQUEST = CreateAclsRequest
VERSIONS = (0, 3)

NO_AUTHORIZER = "No Authorizer is configured."


def handle(broker: Services, request: CreateAclsRequest, context: RequestContext) -> Outcome:
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return Reply(CreateAclsResponse(results=[refused for _ in request.creations]))
