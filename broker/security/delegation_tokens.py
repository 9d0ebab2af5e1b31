"""Delegation tokens (KIP-48): whoever has one may log in as its owner, by SCRAM, until it expires.

ZooKeeper has all of a token but its secret, which every broker computes from its id and a key that all of them share. A
copy in memory answers logins; it follows the change nodes that whoever changes a token writes. Whatever changes a token
reads it again first, and writes with the version that it has read.

Source: DelegationTokenManagerZk of Kafka 3.9.
"""

import asyncio
import base64
import hmac
import logging
import random
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from odradek.broker.security.principal import KafkaPrincipal
from odradek.broker.settings.definition import Value
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.security.scram import LEAST_ITERATIONS, SALT_BYTES, ScramCredential, ScramIdentity, new_credential
from odradek.world.clock import Clock, sleep
from odradek.world.tasks import OnDeath, Tasks
from odradek.zk_schema.change_nodes import ChangeFollower, ChangeNodes, read_each, write_and_tell
from odradek.zk_schema.lost_answers import create_if_missing, in_any_session
from odradek.zk_schema.store import (
    ANY_VERSION,
    BadVersion,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Operation,
    SessionExpired,
    SetData,
    Store,
)
from odradek.zk_schema.znodes.json_data import BadZnode, uuid_text
from odradek.zk_schema.znodes.tokens import (
    TOKEN_CHANGE_PREFIX,
    TOKEN_CHANGES_PATH,
    TOKENS_PATH,
    DelegationToken,
    token_path,
)

log = logging.getLogger(__name__)

UPDATE_ATTEMPTS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The broker's `delegation.token.` settings."""

    secret_key: str = ""
    """Empty: there are no tokens."""
    max_lifetime_ms: int = 7 * 24 * 3_600_000
    expiry_time_ms: int = 24 * 3_600_000
    """Life of a token that nobody renews."""
    expiry_check_interval_ms: int = 3_600_000

    @classmethod
    def of(cls, value: Callable[[str], Value]) -> "TokenSettings":
        """Read the settings by a function that knows all settings by name, the key also under its old one."""

        def milliseconds(name: str) -> int:
            return int(str(value(f"delegation.token.{name}.ms")))

        return cls(
            str(value("delegation.token.secret.key") or value("delegation.token.master.key") or ""),
            milliseconds("max.lifetime"),
            milliseconds("expiry.time"),
            milliseconds("expiry.check.interval"),
        )

    def __repr__(self) -> str:
        return f"TokenSettings(enabled={bool(self.secret_key)})"


def token_hmac(token_id: str, secret_key: str) -> bytes:
    """Compute a token's secret; in base64 it is the password of a login with the token."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


class DelegationTokens:
    """The cluster's tokens as this broker knows them, and what changes them. Loop-thread only."""

    def __init__(
        self, store: Store, clock: Clock, tasks: Tasks, randomness: random.Random, settings: TokenSettings
    ) -> None:
        self.settings = settings
        self._store, self._clock, self._tasks, self._random = store, clock, tasks, randomness
        self._changes = ChangeNodes(store, TOKEN_CHANGES_PATH)
        self._tokens: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}
        """Token ids by the token's secret, as requests name tokens."""
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        """Credentials by mechanism and token, of tokens that somebody has tried to log in with."""
        self._in_turn = asyncio.Lock()
        """Only one task at a time changes the copy, so that nothing older comes last."""
        self._follower = ChangeFollower(
            store, tasks, (TOKEN_CHANGES_PATH,), self._load, self._read_changed, "delegation tokens"
        )

    @property
    def enabled(self) -> bool:
        """True if the broker has the key that tokens are made with."""
        return bool(self.settings.secret_key)

    async def start(self, is_controller: Callable[[], bool]) -> None:
        """Read all tokens, then follow their changes; the controller removes those that have expired."""
        if not self.enabled:
            return
        for path in (TOKEN_CHANGES_PATH, TOKENS_PATH):
            await in_any_session(self._store, partial(create_if_missing, self._store, path))
        await self._follower.start()
        self._tasks.spawn("expired delegation tokens", lambda: self._expire(is_controller), OnDeath.RESTART)

    # ---- questions

    def all(self) -> list[DelegationToken]:
        """List the tokens, expired ones too until they are removed."""
        return list(self._tokens.values())

    def hmac(self, token_id: str) -> bytes:
        """Compute the secret of a token."""
        return token_hmac(token_id, self.settings.secret_key)

    def find(self, mechanism: str, token_id: str) -> ScramIdentity | None:
        """Find whom a token speaks for; None when it is unknown, has expired, or speaks for nobody, which is logged."""
        token = self._tokens.get(token_id)
        if token is None or self._is_over(token):
            return None
        try:
            KafkaPrincipal.parse(token.owner)
        except ValueError as error:  # whoever wrote the znode by hand, or a broker of ours that did not check
            log.error("nobody can log in with delegation token %s, its owner cannot be read: %s", token_id, error)
            return None
        credential = self._credentials.get((mechanism, token_id))
        if credential is None:
            password = base64.b64encode(self.hmac(token_id)).decode("ascii")
            credential = new_credential(mechanism, password, secrets.token_bytes(SALT_BYTES), LEAST_ITERATIONS)
            self._credentials[mechanism, token_id] = credential
        return ScramIdentity(credential, token.owner, token.expiry_timestamp_ms)

    # ---- changes

    async def create(
        self, owner: str, requester: str, renewers: Iterable[str], max_lifetime_ms: int
    ) -> DelegationToken:
        """Make a token that lives for `max_lifetime_ms` at most; 0 or less: as long as the broker allows.

        Raises KafkaError DELEGATION_TOKEN_AUTH_DISABLED.
        """
        self._require_key()
        longest_ms = self.settings.max_lifetime_ms
        lifetime_ms = longest_ms if max_lifetime_ms <= 0 else min(max_lifetime_ms, longest_ms)
        now_ms = self._clock.now_ms()
        token = DelegationToken(
            token_id=uuid_text(self._random.randbytes(16)),
            owner=owner,
            requester=requester,
            renewers=tuple(renewers),
            issue_timestamp_ms=now_ms,
            max_timestamp_ms=now_ms + lifetime_ms,
            expiry_timestamp_ms=now_ms + min(lifetime_ms, self.settings.expiry_time_ms),
        )
        async with self._in_turn:
            create = Create(token_path(token.token_id), token.encode())
            with suppress(NodeExists):  # by us: the answer was lost
                await in_any_session(self._store, lambda: self._write(create, token.token_id))
            self._note(token.token_id, token)
        log.info("delegation token %s is created for %s", token.token_id, owner)
        return token

    async def renew(self, principal: str, secret: bytes, period_ms: int) -> int:
        """Let a token live on for `period_ms`; below 0: for the broker's setting. Return when it expires now, in ms.

        Raises KafkaError.
        """
        return await self._move_expiry(principal, secret, self.settings.expiry_time_ms if period_ms < 0 else period_ms)

    async def expire(self, principal: str, secret: bytes, period_ms: int) -> int:
        """Let a token expire after `period_ms`; below 0: remove it. Return when it expires now, in ms.

        Raises KafkaError.
        """
        if period_ms >= 0:
            return await self._move_expiry(principal, secret, period_ms)
        async with self._in_turn:
            token = (await self._own(principal, secret))[0]
            await self._remove(token.token_id)
        log.info("delegation token %s of %s is removed", token.token_id, token.owner)
        return self._clock.now_ms()

    async def _move_expiry(self, principal: str, secret: bytes, period_ms: int) -> int:
        unheard: DelegationToken | None = None  # as it was written, if the answer was lost
        async with self._in_turn:
            for _ in range(UPDATE_ATTEMPTS_MAX):
                token, version = await self._own(principal, secret)
                if token != unheard:
                    if self._is_over(token):
                        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
                    expires_ms = min(token.max_timestamp_ms, self._clock.now_ms() + period_ms)
                    token = replace(token, expiry_timestamp_ms=expires_ms)
                    try:
                        await self._write(SetData(token_path(token.token_id), token.encode(), version), token.token_id)
                    except (BadVersion, NoNode):
                        continue  # somebody else was quicker
                    except (ConnectionLost, SessionExpired):
                        unheard = token
                        continue
                self._note(token.token_id, token)
                log.info(
                    "delegation token %s of %s expires at %d", token.token_id, token.owner, token.expiry_timestamp_ms
                )
                return token.expiry_timestamp_ms
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the token is changed by others again and again")

    async def _own(self, principal: str, secret: bytes) -> tuple[DelegationToken, int]:
        """Read a token that the principal owns or may renew; return it and its version. Raises KafkaError."""
        self._require_key()
        token_id = self._ids.get(bytes(secret), "")
        found = await in_any_session(self._store, lambda: self._read(token_id)) if token_id else None
        if found is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        if principal not in (found[0].owner, *found[0].renewers):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        return found

    def _require_key(self) -> None:
        if not self.enabled:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def _is_over(self, token: DelegationToken) -> bool:
        return min(token.max_timestamp_ms, token.expiry_timestamp_ms) < self._clock.now_ms()

    async def _remove(self, token_id: str, version: int = ANY_VERSION) -> None:
        """Remove a token, in whichever session that succeeds: others would take one that nobody finds any more."""
        with suppress(NoNode):
            await in_any_session(self._store, lambda: self._write(Delete(token_path(token_id), version), token_id))
        self._note(token_id, None)

    async def _remove_if_over(self, token_id: str) -> None:
        """Remove a token that is over, unless it was renewed and this broker has not heard of that yet."""
        found = await in_any_session(self._store, lambda: self._read(token_id))
        if found is None or not self._is_over(found[0]):
            self._note(token_id, None if found is None else found[0])
            return
        log.info("delegation token %s of %s has expired", token_id, found[0].owner)
        with suppress(BadVersion):  # renewed just now, by a broker whose clock is behind
            await self._remove(token_id, found[1])

    async def _write(self, write: Operation, token_id: str) -> None:
        await write_and_tell(self._store, [write], TOKEN_CHANGE_PREFIX, token_id.encode())

    # ---- the copy

    def _note(self, token_id: str, token: DelegationToken | None) -> None:
        if token is not None:
            self._tokens[token_id] = token
            self._ids[self.hmac(token_id)] = token_id
            return
        self._tokens.pop(token_id, None)
        self._ids.pop(self.hmac(token_id), None)
        for key in [key for key in self._credentials if key[1] == token_id]:
            del self._credentials[key]

    async def _read(self, token_id: str) -> tuple[DelegationToken, int] | None:
        """Read a token and its version; None for one that is not there, or that cannot be understood."""
        try:
            data, stat = await self._store.get(token_path(token_id))
            return DelegationToken.decode(token_id, data), stat.version
        except NoNode:
            return None
        except BadZnode as error:
            log.error("an invalid delegation token is ignored: %s", error)
            return None

    async def _load(self) -> None:
        async with self._in_turn:
            await self._changes.begin()
            names = await self._store.children(TOKENS_PATH)
            for gone in self._tokens.keys() - set(names):
                self._note(gone, None)
            await self._read_all(names)
        log.info("%d delegation tokens", len(names))

    async def _read_changed(self) -> None:
        async with self._in_turn:
            told = [one.data.decode("utf-8", "replace") for one in await self._changes.news()]
            await self._read_all([name for name in dict.fromkeys(told) if name and "/" not in name])

    async def _read_all(self, names: list[str]) -> None:
        async for name, found in read_each(names, self._read):
            self._note(name, None if found is None else found[0])

    async def _expire(self, is_controller: Callable[[], bool]) -> None:
        while True:
            await sleep(self._clock, self.settings.expiry_check_interval_ms)
            if not is_controller():
                continue
            for token_id in [name for name, token in self._tokens.items() if self._is_over(token)]:
                async with self._in_turn:
                    await self._remove_if_over(token_id)
