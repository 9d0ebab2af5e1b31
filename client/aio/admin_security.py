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
        """Create a delegation token for an owner (None: oneself), which `renewers` may renew, too.

        Principals are written `User:alice`. Raises KafkaError (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, …).
        """
        wanted = arguments.texts(renewers, "principal")
        return await self._run(
            "creating a token", lambda cluster, _: tokens.create(cluster, wanted, owner, max_lifetime_ms)
        )

    async def renew_delegation_token(self, hmac: bytes, renew_period_ms: int = -1) -> int:
        """Renew a token for `renew_period_ms` (-1: the brokers' default); return when it expires, in ms since 1970."""
        secret = arguments.octets(hmac, "the hmac of a token")
        return await self._run("renewing a token", lambda cluster, _: tokens.renew(cluster, secret, renew_period_ms))

    async def expire_delegation_token(self, hmac: bytes, expiry_time_period_ms: int = -1) -> int:
        """Set a token to expire after `expiry_time_period_ms` (-1: delete it now); return when, in ms since 1970."""
        secret = arguments.octets(hmac, "the hmac of a token")
        return await self._run(
            "expiring a token", lambda cluster, _: tokens.expire(cluster, secret, expiry_time_period_ms)
        )

    async def describe_delegation_token(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """Return the tokens of these owners (None: all) that the caller may see."""
        asked = None if owners is None else arguments.texts(owners, "principal")
        return await self._run("describing tokens", lambda cluster, _: tokens.describe(cluster, asked))

    async def describe_client_quotas(
        self, entity_filter: Mapping[str, str | QuotaMatch | None] | None = None, strict: bool = False
    ) -> list[ClientQuota]:
        """Return quotas. The filter: entity type (`user`, `client-id`, `ip`) → a name, None (the default) or ANY.

        Entities that have other types as well match, too, unless `strict`.
        """
        wanted = dict(arguments.mapping(entity_filter or {}, "entities"))
        return await self._run("describing quotas", lambda cluster, _: quotas.describe(cluster, wanted, strict=strict))

    async def alter_client_quotas(
        self, alterations: Iterable[ClientQuotaAlteration], validate_only: bool = False
    ) -> None:
        """Set the quotas of entities; None removes one."""
        wanted = arguments.instances(alterations, ClientQuotaAlteration)
        await self._run(
            "altering quotas",
            lambda cluster, deadline: quotas.alter(cluster, wanted, deadline, validate_only=validate_only),
        )
