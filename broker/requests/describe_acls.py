"""DescribeAcls (key 29), versions 0 to 3: SECURITY_DISABLED, as a broker of Kafka without an authorizer answers.

Not done: access control.
"""

from odradek.broker.requests.outcome import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

REQUEST = DescribeAclsRequest
VERSIONS = (0, 3)

NO_AUTHORIZER = "No Authorizer is configured on the broker"


def handle(broker: Services, request: DescribeAclsRequest, context: RequestContext) -> Outcome:
    return Reply(DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER))
