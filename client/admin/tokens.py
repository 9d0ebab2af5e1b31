"""Delegation tokens (KIP-48, KIP-373). Coroutines for the client's loop."""

from collections.abc import Iterable

from odradek.client.admin.access_values import DelegationToken
from odradek.client.cluster import Cluster
from odradek.client.errors import ConfigError
from odradek.protocol.errors import KafkaError, error_code
from odradek.protocol.messages import create_delegation_token as creation
from odradek.protocol.messages import describe_delegation_token as description
from odradek.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


async def create(cluster: Cluster, renewers: Iterable[str], owner: str | None, max_lifetime_ms: int) -> DelegationToken:
    """Have a broker create a token. Raises KafkaError; ConfigError for a text that is not a principal."""
    named = [_principal(one) for one in renewers]
    owner_type, owner_name = (None, None) if owner is None else _principal(owner)
    request = creation.CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=[creation.CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in named],
        max_lifetime_ms=max_lifetime_ms,
    )
    made = await cluster.request_any(request, creation.CreateDelegationTokenResponse)
    _raise(made.error_code, "no token was created")
    owner = f"{made.principal_type}:{made.principal_name}"
    requester = f"{made.token_requester_principal_type}:{made.token_requester_principal_name}"
    return DelegationToken(
        made.token_id,
        bytes(made.hmac),
        owner,
        owner if requester == ":" else requester,
        tuple(f"{kind}:{name}" for kind, name in named),
        made.issue_timestamp_ms,
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
    )


async def renew(cluster: Cluster, hmac: bytes, period_ms: int) -> int:
    """Renew a token; return when it expires then, in ms since 1970. Raises KafkaError."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    answer = await cluster.request_any(request, RenewDelegationTokenResponse)
    _raise(answer.error_code, "the token was not renewed")
    return answer.expiry_timestamp_ms


async def expire(cluster: Cluster, hmac: bytes, period_ms: int) -> int:
    """Let a token expire after `period_ms` (-1: now); return when, in ms since 1970. Raises KafkaError."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    answer = await cluster.request_any(request, ExpireDelegationTokenResponse)
    _raise(answer.error_code, "the token's expiry was not changed")
    return answer.expiry_timestamp_ms


async def describe(cluster: Cluster, owners: Iterable[str] | None) -> list[DelegationToken]:
    """Return the tokens of these owners (None: all) that the caller may see. Raises KafkaError."""
    asked = None
    if owners is not None:
        asked = [
            description.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, owners)
        ]
    answer = await cluster.request_any(
        description.DescribeDelegationTokenRequest(owners=asked), description.DescribeDelegationTokenResponse
    )
    _raise(answer.error_code, "tokens cannot be read")
    return [_token(one) for one in answer.tokens]


def _token(one: description.DescribedDelegationToken) -> DelegationToken:
    owner = f"{one.principal_type}:{one.principal_name}"
    requester = f"{one.token_requester_principal_type}:{one.token_requester_principal_name}"
    return DelegationToken(
        one.token_id,
        bytes(one.hmac),
        owner,
        owner if requester == ":" else requester,
        tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in one.renewers),
        one.issue_timestamp,
        one.expiry_timestamp,
        one.max_timestamp,
    )


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise ConfigError(f"{text!r} is not a principal, like User:alice")
    return kind, name


def _raise(code: int, said: str) -> None:
    if code:
        raise KafkaError(error_code(code), f"{said}: {error_code(code).name}")
