"""SaslAuthenticate (key 36), versions 0 to 2: one message of a SASL mechanism.

On a listener with SASL the gate before the dispatcher takes it (odradek.broker.network.sasl_gate). What comes here came
out of turn. Kafka's answer is ILLEGAL_SASL_STATE.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

REQUEST = SaslAuthenticateRequest
VERSIONS = (0, 2)
MESSAGE = "SaslAuthenticate request received after successful authentication"


def handle(broker: object, request: SaslAuthenticateRequest, context: RequestContext) -> Outcome:
    return Reply(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=MESSAGE))
