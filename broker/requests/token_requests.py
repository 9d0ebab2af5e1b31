"""Rules that the four requests about delegation tokens share (KIP-48).

Source: KafkaApis of Kafka 3.9 (allowTokenRequests).
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.security.principal import ANONYMOUS, KafkaPrincipal
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenResponse
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse
from odradek.zk_schema.store import StoreError

T = TypeVar("T")
Move = Callable[[str, bytes, int], Coroutine[Any, Any, int]]
"""Change of a token by principal, secret and period in ms; returns when the token expires now."""
Answer = type[ExpireDelegationTokenResponse] | type[RenewDelegationTokenResponse]


def may_ask(broker: Services, context: RequestContext) -> bool:
    """Tell whether a connection may ask about tokens. One without authentication may not; nor may one that was opened
    with a token, whose holder could then make it last for ever."""
    protocol = next((one.protocol for one in broker.config.listeners if one.name == context.listener), "PLAINTEXT")
    unknown = protocol == "PLAINTEXT" or (protocol == "SSL" and context.principal == ANONYMOUS)
    return not unknown and not context.by_token


async def or_error(work: Coroutine[Any, Any, T], otherwise: T) -> tuple[T, ErrorCode]:
    """Await a change of tokens; return its result and NONE, or `otherwise` and the error."""
    try:
        return await work, ErrorCode.NONE
    except KafkaError as error:
        return otherwise, error.code
    except StoreError:
        return otherwise, ErrorCode.UNKNOWN_SERVER_ERROR


def move_expiry(
    broker: Services, context: RequestContext, secret: bytes | memoryview, period_ms: int, move: Move, response: Answer
) -> Outcome:
    """Have `move` set when a token expires; answer with that time, in ms since 1970, or with the error."""
    if not may_ask(broker, context):
        return Reply(response(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1))
    return _moved(move(str(context.principal), bytes(secret), period_ms), response)


async def _moved(change: Coroutine[Any, Any, int], response: Answer) -> Reply:
    expires_ms, error = await or_error(change, -1)
    return Reply(response(error_code=error, expiry_timestamp_ms=expires_ms))


def split_principal(text: str) -> KafkaPrincipal:
    """Read a principal of a token, `User:alice`; one without a type is a user."""
    try:
        return KafkaPrincipal.parse(text)
    except ValueError:
        return KafkaPrincipal("User", text)
