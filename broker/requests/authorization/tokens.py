"""Rules of the APIs about delegation tokens: who may have one made for others, and who sees whose.

Source: KafkaApis and DelegationTokenManager of Kafka 3.9 (KIP-48, KIP-373).
"""

from odradek.broker.network.outcomes import Outcome, Reply
from odradek.broker.requests.authorization.rules import Asked, GoOn, answered
from odradek.broker.requests.create_delegation_token import refusal, token_owner
from odradek.broker.requests.token_requests import may_ask
from odradek.broker.security.acls import AclOperation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from odradek.zk_schema.znodes.acls import ResourceType


def create(asked: Asked, go_on: GoOn) -> Outcome:
    """Refuse a token that is to speak for somebody else, unless that is allowed."""
    owner, requester = token_owner(asked.request, asked.context), asked.context.principal
    if owner == requester or not may_ask(asked.broker, asked.context):
        return go_on()
    if asked.rights.may(AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        return go_on()
    return Reply(refusal(owner, requester, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED))


def describe(asked: Asked, go_on: GoOn) -> Outcome:
    """Show one's own tokens, and those that one may see."""
    principal = asked.context.principal

    def is_seen(token: DescribedDelegationToken) -> bool:
        owner = (token.principal_type, token.principal_name)
        requester = (token.token_requester_principal_type, token.token_requester_principal_name)
        renewers = [(one.principal_type, one.principal_name) for one in token.renewers]
        return (
            principal in (owner, requester, *renewers)
            or asked.rights.may(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
            or asked.rights.may(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, ":".join(owner))
        )

    def hide(response: DescribeDelegationTokenResponse) -> None:
        response.tokens = [token for token in response.tokens if is_seen(token)]

    return answered(go_on(), hide)
