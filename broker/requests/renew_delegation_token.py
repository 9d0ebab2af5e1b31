"""RenewDelegationToken (key 39), versions 0 to 2: moves the time at which a token expires, up to the end of its life.

Its owner and its renewers may do so; others are told DELEGATION_TOKEN_OWNER_MISMATCH. A token that has expired is
DELEGATION_TOKEN_EXPIRED, an unknown one DELEGATION_TOKEN_NOT_FOUND; the other refusals are those of
CreateDelegationToken.
"""

from odradek.broker.network.outcomes import Outcome, RequestContext
from odradek.broker.requests.token_requests import move_expiry
from odradek.broker.services import Services
from odradek.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

REQUEST = RenewDelegationTokenRequest
VERSIONS = (0, 2)


def handle(broker: Services, request: RenewDelegationTokenRequest, context: RequestContext) -> Outcome:
    period_ms = request.renew_period_ms
    return move_expiry(broker, context, request.hmac, period_ms, broker.tokens.renew, RenewDelegationTokenResponse)
