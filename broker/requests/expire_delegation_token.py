"""ExpireDelegationToken (key 40), versions 0 to 2: changes when a token expires; a negative period removes it at once.

Its owner and its renewers may, others hear DELEGATION_TOKEN_OWNER_MISMATCH. A token that has expired is
DELEGATION_TOKEN_EXPIRED, an unknown one DELEGATION_TOKEN_NOT_FOUND; otherwise as CreateDelegationToken.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.requests.token_requests import may_ask, or_error
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

REQUEST = ExpireDelegationTokenRequest
VERSIONS = (0, 2)


def handle(broker: Services, request: ExpireDelegationTokenRequest, context: RequestContext) -> Outcome:
    if not may_ask(broker, context):
        return Reply(
            ExpireDelegationTokenResponse(
                error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
            )
        )
    return _expire(broker, str(context.principal), bytes(request.hmac), request.expiry_time_period_ms)


async def _expire(broker: Services, principal: str, secret: bytes, period_ms: int) -> Reply:
    expires_ms, error = await or_error(broker.tokens.expire(principal, secret, period_ms), -1)
    return Reply(ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_ms))
