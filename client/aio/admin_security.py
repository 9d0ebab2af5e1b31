"""Delegation tokens and client quotas, on asyncio."""

from collections.abc import Iterable, Mapping

from odradek.client import arguments
from odradek.client.admin import quotas, tokens
from odradek.client.admin.access_values import ClientQuota, ClientQuotaAlteration, DelegationToken, QuotaMatch
from odradek.client.aio.admin_base import AdminBase


class SecurityAdmin(AdminBase):
    """The part of the administrative client about tokens and quotas. Names are those of Java's Admin."""

    async def create_delegation_token(
        self, renewers: Iterable[str] = (), owner: str | None = None, max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Have a token made that speaks for its owner (None: for oneself), and that `renewers` may renew as well.

        Principals are written `User:alice`. Raises KafkaError (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, …).
        """
        wanted = arguments.texts(renewers, "principal")
        return await self._run(
            "creating a token", lambda cluster, _: tokens.create(cluster, wanted, owner, max_lifetime_ms)
        )

    async def renew_delegation_token(self, hmac: bytes, renew_period_ms: int = -1) -> int:
        """Let a token live on for so long (-1: as long as brokers say); return when it expires."""
        secret = arguments.octets(hmac, "the hmac of a token")
        return await self._run("renewing a token", lambda cluster, _: tokens.renew(cluster, secret, renew_period_ms))

    async def expire_delegation_token(self, hmac: bytes, expiry_time_period_ms: int = -1) -> int:
        """Let a token expire after so long, or (-1) remove it now; return when it expires."""
        secret = arguments.octets(hmac, "the hmac of a token")
        return await self._run(
            "expiring a token", lambda cluster, _: tokens.expire(cluster, secret, expiry_time_period_ms)
        )

    async def describe_delegation_token(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """Return the tokens of some owners or (None) all, as far as one may see them."""
        asked = None if owners is None else arguments.texts(owners, "principal")
        return await self._run("describing tokens", lambda cluster, _: tokens.describe(cluster, asked))

    async def describe_client_quotas(
        self, entity_filter: Mapping[str, str | QuotaMatch | None] | None = None, strict: bool = False
    ) -> list[ClientQuota]:
        """Return the quotas of entities: by kind (`user`, `client-id`, `ip`) a name, None for the default, or ANY.

        Entities with other kinds beside those are taken in too, unless `strict`.
        """
        wanted = dict(arguments.mapping(entity_filter or {}, "entities"))
        return await self._run("describing quotas", lambda cluster, _: quotas.describe(cluster, wanted, strict=strict))

    async def alter_client_quotas(
        self, alterations: Iterable[ClientQuotaAlteration], validate_only: bool = False
    ) -> None:
        """Set quotas of entities, or (None) take them away."""
        wanted = arguments.instances(alterations, ClientQuotaAlteration)
        await self._run(
            "altering quotas",
            lambda cluster, deadline: quotas.alter(cluster, wanted, deadline, validate_only=validate_only),
        )
