"""CreateDelegationToken (key 38), versions 0 to 3: makes a token with which others may log in as its owner (KIP-48).

Any broker does it. From version 3 on one may ask for a token of another owner (KIP-373). Renewers must be users, and a
named owner must have a type; if not, the answer is INVALID_PRINCIPAL_TYPE. A connection that has not authenticated, or
has done so with a token, is told DELEGATION_TOKEN_REQUEST_NOT_ALLOWED; without a key (delegation.token.secret.key)
everybody is told DELEGATION_TOKEN_AUTH_DISABLED.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.requests.token_requests import may_ask, or_error
from odradek.broker.security.delegation_tokens import DelegationTokens
from odradek.broker.security.principal import USER_TYPE, KafkaPrincipal
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

REQUEST = CreateDelegationTokenRequest
VERSIONS = (0, 3)


def handle(broker: Services, request: CreateDelegationTokenRequest, context: RequestContext) -> Outcome:
    owner, requester = token_owner(request, context), context.principal
    if not may_ask(broker, context):
        return Reply(refusal(owner, requester, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
    renewers = [KafkaPrincipal(one.principal_type, one.principal_name) for one in request.renewers]
    if not owner.type or any(one.type != USER_TYPE for one in renewers):
        return Reply(refusal(owner, requester, ErrorCode.INVALID_PRINCIPAL_TYPE))
    return _create(broker.tokens, owner, requester, renewers, request.max_lifetime_ms)


def token_owner(request: CreateDelegationTokenRequest, context: RequestContext) -> KafkaPrincipal:
    """Return whom the token is to speak for: who asks, unless somebody else is named."""
    if not request.owner_principal_name:
        return context.principal
    return KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)


def refusal(owner: KafkaPrincipal, requester: KafkaPrincipal, error: ErrorCode) -> CreateDelegationTokenResponse:
    """Make the answer to a request that makes no token."""
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


async def _create(
    tokens: DelegationTokens,
    owner: KafkaPrincipal,
    requester: KafkaPrincipal,
    renewers: list[KafkaPrincipal],
    max_lifetime_ms: int,
) -> Reply:
    token, error = await or_error(tokens.create(str(owner), str(requester), map(str, renewers), max_lifetime_ms), None)
    response = refusal(owner, requester, error)
    if token is not None:
        response.issue_timestamp_ms = token.issue_timestamp_ms
        response.expiry_timestamp_ms = token.expiry_timestamp_ms
        response.max_timestamp_ms = token.max_timestamp_ms
        response.token_id = token.token_id
        response.hmac = tokens.hmac(token.token_id)
    return Reply(response)
