"""DescribeDelegationToken (key 41), versions 0 to 3: the tokens of the given owners, or all, as this broker knows them.

A token counts as one of its owner, of those who may renew it, and of the one who asked for it. A client sees its own
tokens and, with an authorizer, those that this lets it see. An empty list of owners is answered with no tokens, null
with all.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.requests.token_requests import may_ask, split_principal
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from odradek.zk_schema.znodes.tokens import DelegationToken

REQUEST = DescribeDelegationTokenRequest
VERSIONS = (0, 3)


def handle(broker: Services, request: DescribeDelegationTokenRequest, context: RequestContext) -> Outcome:
    if not may_ask(broker, context):
        return Reply(DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
    tokens = broker.tokens
    if not tokens.enabled:
        return Reply(DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
    found = tokens.all()
    if request.owners is not None:
        owners = {f"{one.principal_type}:{one.principal_name}" for one in request.owners}
        found = [one for one in found if owners & {one.owner, one.requester, *one.renewers}]
    return Reply(DescribeDelegationTokenResponse(tokens=[_described(one, tokens.hmac(one.token_id)) for one in found]))


def _described(token: DelegationToken, secret: bytes) -> DescribedDelegationToken:
    owner, requester = split_principal(token.owner), split_principal(token.requester)
    return DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp_ms,
        expiry_timestamp=token.expiry_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=secret,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=one.type, principal_name=one.name)
            for one in map(split_principal, token.renewers)
        ],
    )
