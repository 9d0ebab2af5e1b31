"""DeleteAcls (key 31), versions 0 to 3: SECURITY_DISABLED for each filter, as a broker of Kafka without an authorizer.

Not done: access control.
"""

from odradek.broker.requests.create_acls import NO_AUTHORIZER
from odradek.broker.requests.outcome import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

REQUEST = DeleteAclsRequest
VERSIONS = (0, 3)


def handle(broker: Services, request: DeleteAclsRequest, context: RequestContext) -> Outcome:
    refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return Reply(DeleteAclsResponse(filter_results=[refused for _ in request.filters]))
