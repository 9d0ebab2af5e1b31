"""ExpireDelegationToken (key 40), versions 0 to 2: changes when a token expires; a negative period removes it at once.

Its owner and its renewers may do so; others are told DELEGATION_TOKEN_OWNER_MISMATCH. A token that has expired is
DELEGATION_TOKEN_EXPIRED, an unknown one DELEGATION_TOKEN_NOT_FOUND; the other refusals are those of
CreateDelegationToken.
"""

from odradek.broker.network.outcomes import Outcome, RequestContext
from odradek.broker.requests.token_requests import move_expiry
from odradek.broker.services import Services
from odradek.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

REQUEST = ExpireDelegationTokenRequest
VERSIONS = (0, 2)


def handle(broker: Services, request: ExpireDelegationTokenRequest, context: RequestContext) -> Outcome:
    period_ms = request.expiry_time_period_ms
    return move_expiry(broker, context, request.hmac, period_ms, broker.tokens.expire, ExpireDelegationTokenResponse)
