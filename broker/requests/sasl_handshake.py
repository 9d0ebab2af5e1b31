"""SaslHandshake (key 17), versions 0 and 1: a client says by which mechanism it wants to prove who it is.

On a listener with SASL the gate before the dispatcher takes it (odradek.broker.network.sasl_gate). What comes here came
out of turn: after the client was in, or on a listener without SASL. Kafka's answer is ILLEGAL_SASL_STATE.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

REQUEST = SaslHandshakeRequest
VERSIONS = (0, 1)


def handle(broker: object, request: SaslHandshakeRequest, context: RequestContext) -> Outcome:
    return Reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
