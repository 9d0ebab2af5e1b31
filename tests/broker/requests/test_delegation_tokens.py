"""Delegation tokens (KIP-48), through whole brokers: made, used, renewed, shown, removed, and who may not do so."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.broker.network.outcomes import RequestContext
from odradek.broker.requests.token_requests import may_ask
from odradek.broker.security import delegation_tokens
from odradek.broker.security.principal import KafkaPrincipal
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from odradek.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.security.errors import AuthenticationFailed
from odradek.security.scram import encode_credential, new_credential
from odradek.security.secure_network import ClientSecurity, SecureNetwork
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.change_nodes import write_and_tell
from odradek.zk_schema.store import ConnectionLost, Operation, Store
from odradek.zk_schema.znodes.acls import AclEntry, ResourcePattern, ResourceType, encode_acls
from odradek.zk_schema.znodes.configs import encode_config
from odradek.zk_schema.znodes.tokens import DelegationToken, token_path

MECHANISM = "SCRAM-SHA-256"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
HOUR_MS = 3_600_000
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": MECHANISM,
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f'{MODULE} required username="broker" password="b";',
    "delegation.token.secret.key": "the key of all brokers",
}
USERS = {"broker": "b", "alice": "a", "bob": "b", "carol": "c"}


class Cluster:
    """Brokers, and connections of users and of tokens to them."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock) -> None:
        self.brokers, self.clock = cluster.brokers, clock
        self.zookeeper = cluster.zookeeper.connect()
        self._cluster = cluster
        self._peers: dict[tuple[str, int], Peer] = {}

    async def prepare(self) -> None:
        await self.zookeeper.start(1000)
        for user, password in USERS.items():
            credential = encode_credential(new_credential(MECHANISM, password, b"salt and pepper", 4096))
            path = f"/config/users/{user}"
            await self.zookeeper.create(path, encode_config({MECHANISM: credential}), parents=True)

    async def ask(self, user: str, request: Any, broker: int = 0, version: int | None = None) -> Any:
        peer = self._peers.setdefault((user, broker), self._connect(broker, user, USERS[user]))
        return await peer.request(request, request.VERSIONS[1] if version is None else version, 30_000)

    async def ask_by_token(self, token: Any, request: Any, broker: int = 0) -> Any:
        password = base64.b64encode(bytes(token.hmac)).decode()
        peer = self._connect(broker, token.token_id, password, "tokenauth=true")
        try:
            return await peer.request(request, request.VERSIONS[1], 30_000)
        finally:
            peer.close()

    async def log_in(self, token_id: str, secret: bytes) -> None:
        """Raises AuthenticationFailed."""
        password = base64.b64encode(secret).decode()
        (await self._network(token_id, password, "tokenauth=true").connect("broker-0", self._cluster.port)).close()

    def _connect(self, broker: int, user: str, password: str, options: str = "") -> Peer:
        return Peer(self._network(user, password, options), self.clock, f"broker-{broker}", self._cluster.port, "t")

    def _network(self, user: str, password: str, options: str) -> SecureNetwork:
        look = {
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{MODULE} required username="{user}" password="{password}" {options};',
        }
        security = ClientSecurity.read("SASL_PLAINTEXT", look.get)
        return SecureNetwork(self._cluster.network.host("client"), self.clock, security)

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()


def play(scenario: Callable[[Cluster], Awaitable[None]], brokers: int = 1, **changes: str) -> None:
    async def main(clock: VirtualClock) -> None:
        settings = {**SETTINGS, **{name.replace("_", "."): text for name, text in changes.items()}}
        embedded = EmbeddedCluster(clock, brokers, settings)
        cluster = Cluster(embedded, clock)
        await cluster.prepare()
        async with embedded:
            await scenario(cluster)
            cluster.close()

    run_virtual(main)


def create(*renewers: str, owner: str | None = None, max_lifetime_ms: int = -1, kind: str = "User") -> Any:
    return CreateDelegationTokenRequest(
        owner_principal_type="User" if owner else None,
        owner_principal_name=owner,
        renewers=[CreatableRenewers(principal_type=kind, principal_name=one) for one in renewers],
        max_lifetime_ms=max_lifetime_ms,
    )


def describe(*owners: str) -> Any:
    named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=one) for one in owners]
    return DescribeDelegationTokenRequest(owners=named or None)


def renew(token: Any, period_ms: int = -1) -> Any:
    return RenewDelegationTokenRequest(hmac=bytes(token.hmac), renew_period_ms=period_ms)


def expire(token: Any, period_ms: int = -1) -> Any:
    return ExpireDelegationTokenRequest(hmac=bytes(token.hmac), expiry_time_period_ms=period_ms)


async def ids(cluster: Cluster, user: str, *owners: str, broker: int = 0) -> list[str]:
    answer = await cluster.ask(user, describe(*owners), broker)
    assert answer.error_code == 0
    return [one.token_id for one in answer.tokens]


def test_a_token_speaks_for_its_owner_on_every_broker_until_it_is_removed() -> None:
    async def scenario(cluster: Cluster) -> None:
        token = await cluster.ask("alice", create("bob"))
        now_ms = cluster.clock.now_ms()
        assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "alice")
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 7 * 24 * HOUR_MS
        assert token.expiry_timestamp_ms - token.issue_timestamp_ms == 24 * HOUR_MS
        expected = hmac.new(b"the key of all brokers", token.token_id.encode(), hashlib.sha512).digest()
        assert bytes(token.hmac) == expected, "as DelegationTokenManager.createHmac computes it"
        data, _ = await cluster.zookeeper.get(token_path(token.token_id))
        assert DelegationToken.decode(token.token_id, data).renewers == ("User:bob",)
        while cluster.brokers[1].server.services.tokens.find(MECHANISM, token.token_id) is None:
            await asyncio.sleep(0.1)
        for broker in (0, 1):
            refused = await cluster.ask_by_token(token, describe(), broker)  # it has come in, but may not ask this
            assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        identity = cluster.brokers[1].server.services.tokens.find(MECHANISM, token.token_id)
        assert identity is not None and (identity.principal, identity.expires_ms) == (
            "User:alice", token.expiry_timestamp_ms,
        )  # fmt: skip
        renewed = await cluster.ask("bob", renew(token, HOUR_MS), broker=1)
        assert renewed.error_code == 0 and renewed.expiry_timestamp_ms - now_ms == pytest.approx(HOUR_MS, abs=60_000)
        removed = await cluster.ask("alice", expire(token))
        assert removed.error_code == 0 and removed.expiry_timestamp_ms <= cluster.clock.now_ms()
        assert await cluster.zookeeper.exists(token_path(token.token_id)) is None
        while cluster.brokers[1].server.services.tokens.find(MECHANISM, token.token_id) is not None:
            await asyncio.sleep(0.1)
        with pytest.raises(AuthenticationFailed):
            await cluster.log_in(token.token_id, bytes(token.hmac))

    play(scenario, brokers=2)


def test_a_token_that_is_too_large_for_zookeeper_is_refused() -> None:
    """It was written again and again, for which the broker was cut off from ZooKeeper, and nobody got a token."""

    async def scenario(cluster: Cluster) -> None:
        refused = await cluster.ask("alice", create(*(f"{n:05}{'x' * 30_000}" for n in range(40))))
        assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await cluster.ask("alice", create("bob"))).error_code == 0

    play(scenario)


def test_who_changes_a_token_must_own_it_or_be_a_renewer() -> None:
    async def scenario(cluster: Cluster) -> None:
        token = await cluster.ask("alice", create("bob"))
        for request in (renew(token), expire(token), expire(token, HOUR_MS)):
            assert (await cluster.ask("carol", request)).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        token.hmac = b"something else"
        for request in (renew(token), expire(token)):
            answer = await cluster.ask("alice", request)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
            assert answer.expiry_timestamp_ms == -1
        refused = await cluster.ask("alice", create("x", kind="Group"))
        assert (refused.error_code, refused.issue_timestamp_ms) == (ErrorCode.INVALID_PRINCIPAL_TYPE, -1)

    play(scenario)


def test_a_token_expires_and_the_controller_removes_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        token = await cluster.ask("alice", create(max_lifetime_ms=2 * HOUR_MS))
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 2 * HOUR_MS
        assert token.expiry_timestamp_ms == token.max_timestamp_ms, "not beyond the end of its life"
        sooner = await cluster.ask("alice", expire(token, HOUR_MS))
        assert sooner.error_code == 0
        assert sooner.expiry_timestamp_ms < token.max_timestamp_ms
        await cluster.log_in(token.token_id, bytes(token.hmac))
        await asyncio.sleep(HOUR_MS / 1000 + 1)
        cluster.close()
        with pytest.raises(AuthenticationFailed):
            await cluster.log_in(token.token_id, bytes(token.hmac))
        again = Cluster(cluster._cluster, cluster.clock)
        assert (await again.ask("alice", renew(token))).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
        again.close()
        while await cluster.zookeeper.exists(token_path(token.token_id)) is not None:
            await asyncio.sleep(60)

    play(scenario, delegation_token_expiry_check_interval_ms=str(3 * HOUR_MS))


def test_nobody_makes_or_renews_a_token_beyond_the_longest_life() -> None:
    async def scenario(cluster: Cluster) -> None:
        token = await cluster.ask("alice", create("bob", max_lifetime_ms=100 * HOUR_MS))
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 3 * HOUR_MS
        assert token.expiry_timestamp_ms - token.issue_timestamp_ms == HOUR_MS
        for period_ms in (3 * HOUR_MS, 100 * HOUR_MS):
            renewed = await cluster.ask("bob", renew(token, period_ms))
            assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, token.max_timestamp_ms)
        later = await cluster.ask("bob", expire(token, 100 * HOUR_MS))
        assert (later.error_code, later.expiry_timestamp_ms) == (0, token.max_timestamp_ms)
        renewed = await cluster.ask("bob", renew(token))
        assert 0 <= renewed.expiry_timestamp_ms - token.expiry_timestamp_ms < 10_000, "an hour from now"
        assert await ids(cluster, "bob") == await ids(cluster, "bob", "bob") == [token.token_id], "as its renewer"

    play(scenario, delegation_token_max_lifetime_ms=str(3 * HOUR_MS), delegation_token_expiry_time_ms=str(HOUR_MS))


def test_what_is_gone_when_all_tokens_are_read_anew_lets_nobody_in() -> None:
    """Whoever removes a token by hand tells nobody."""

    async def scenario(cluster: Cluster) -> None:
        token = await cluster.ask("alice", create())
        await cluster.zookeeper.delete(token_path(token.token_id))
        await cluster.brokers[0].server.services.tokens._load()
        with pytest.raises(AuthenticationFailed):
            await cluster.log_in(token.token_id, bytes(token.hmac))

    play(scenario)


@pytest.mark.parametrize(
    ("protocol", "name", "by_token", "allowed"),
    [
        ("PLAINTEXT", "alice", False, False),
        ("SSL", "ANONYMOUS", False, False),
        ("SSL", "CN=alice", False, True),
        ("SASL_PLAINTEXT", "alice", False, True),
        ("SASL_SSL", "alice", False, True),
        ("SASL_SSL", "alice", True, False),
    ],
)
def test_who_may_ask_about_tokens(protocol: str, name: str, by_token: bool, allowed: bool) -> None:
    listeners = [SimpleNamespace(name="L", protocol=protocol), SimpleNamespace(name="M", protocol="SASL_SSL")]
    broker: Any = SimpleNamespace(config=SimpleNamespace(listeners=listeners))
    context = RequestContext(3, "c", "1.2.3.4:5", "L", KafkaPrincipal("User", name), by_token)
    assert may_ask(broker, context) is allowed


def test_tokens_are_shown_to_their_people_and_to_whom_the_access_lists_name() -> None:
    async def scenario(cluster: Cluster) -> None:
        refused = await cluster.ask("carol", create(owner="alice"))
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        pattern = ResourcePattern(ResourceType.USER, "User:alice")
        entry = AclEntry("User:carol", "Allow", "CreateTokens")
        await cluster.zookeeper.create(pattern.path, encode_acls([entry]), parents=True)
        await cluster.zookeeper.create(pattern.change_prefix, pattern.encode_change(), sequential=True)
        token = await cluster.ask("carol", create(owner="alice"))
        while token.error_code:
            await asyncio.sleep(0.1)
            token = await cluster.ask("carol", create(owner="alice"))
        assert (token.principal_name, token.token_requester_principal_name) == ("alice", "carol")
        own = await cluster.ask("bob", create())
        assert await ids(cluster, "alice") == [token.token_id]
        assert await ids(cluster, "carol") == [token.token_id], "who has asked for a token may see it"
        assert await ids(cluster, "bob", "bob", "alice") == [own.token_id]
        assert await ids(cluster, "broker") == [], "who may do nothing sees nothing"
        assert (await cluster.ask("bob", DescribeDelegationTokenRequest(owners=[]))).tokens == []
        assert (await cluster.ask("carol", renew(token))).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH

    play(scenario, authorizer_class_name="kafka.security.authorizer.AclAuthorizer")


def test_without_a_key_there_are_no_tokens() -> None:
    async def scenario(cluster: Cluster) -> None:
        nothing = CreateDelegationTokenResponse(hmac=b"x")
        for request in (create(), renew(nothing), expire(nothing), describe()):
            assert (await cluster.ask("alice", request)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    play(scenario, delegation_token_secret_key="")


def test_whoever_has_not_authenticated_hears_that_they_may_not_ask() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, {"delegation.token.secret.key": "k"}) as cluster:
            peer = Peer(cluster.network.host("admin"), clock, "broker-0", cluster.port, "admin")
            for version in range(4):
                answer: object = await peer.request(create(), version, 30_000)
                assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED  # type: ignore[attr-defined]
            peer.close()

    run_virtual(main)


def test_a_token_that_somebody_else_writes_counts_at_once() -> None:
    """As a broker of Kafka's writes it, and as `kafka-delegation-tokens --bootstrap-server` of another broker ends."""

    async def scenario(cluster: Cluster) -> None:
        now_ms = cluster.clock.now_ms()
        token = DelegationToken("an-id", "User:alice", "User:alice", (), now_ms, now_ms + HOUR_MS, now_ms + HOUR_MS)
        await cluster.zookeeper.create(token_path("an-id"), token.encode())
        change = "/delegation_token/token_changes/token_change_"
        over = DelegationToken("over", "User:alice", "User:alice", (), now_ms, now_ms - 1, now_ms + HOUR_MS)
        await cluster.zookeeper.create(token_path("over"), over.encode())
        for name in (b"over", b"an-id"):
            await cluster.zookeeper.create(change, name, sequential=True)
        tokens = cluster.brokers[0].server.services.tokens
        while tokens.find(MECHANISM, "an-id") is None:
            await asyncio.sleep(0.1)
        assert len(tokens.all()) == 2 and tokens.find(MECHANISM, "over") is None, "its longest life has ended"
        await cluster.log_in("an-id", tokens.hmac("an-id"))
        await cluster.zookeeper.set(token_path("an-id"), b"no token")
        await cluster.zookeeper.create(change, b"an-id", sequential=True)
        while tokens.find(MECHANISM, "an-id") is not None:
            await asyncio.sleep(0.1)

    play(scenario)


def test_a_token_whose_owner_cannot_be_read_lets_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    """Each login with it ended as an error of ours."""

    async def scenario(cluster: Cluster) -> None:
        now_ms = cluster.clock.now_ms()
        token = DelegationToken(
            "an-id", "alice", "User:alice", ("User:bob",), now_ms, now_ms + HOUR_MS, now_ms + HOUR_MS
        )
        await cluster.zookeeper.create(token_path("an-id"), token.encode())
        await cluster.zookeeper.create("/delegation_token/token_changes/token_change_", b"an-id", sequential=True)
        while await ids(cluster, "bob") != ["an-id"]:
            await asyncio.sleep(0.1)
        secret = cluster.brokers[0].server.services.tokens.hmac("an-id")
        with pytest.raises(AuthenticationFailed):
            await cluster.log_in("an-id", secret)
        assert "nobody can log in with delegation token an-id, its owner cannot be read: " in caplog.text
        assert [one.levelname for one in caplog.records if one.exc_info] == []
        assert (await cluster.ask("bob", expire(CreateDelegationTokenResponse(hmac=secret)))).error_code == 0

    play(scenario)


def test_an_expiry_whose_answer_was_lost_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token was found expired, which had been asked for."""

    async def scenario(cluster: Cluster) -> None:
        token = await cluster.ask("alice", create())
        write = write_and_tell

        async def write_unheard(store: Store, writes: Sequence[Operation], prefix: str, data: bytes) -> None:
            monkeypatch.setattr(delegation_tokens, "write_and_tell", write)
            await write(store, writes, prefix, data)
            await asyncio.sleep(2)
            raise ConnectionLost(writes[0].path)

        monkeypatch.setattr(delegation_tokens, "write_and_tell", write_unheard)
        answer = await cluster.ask("alice", expire(token, 0))
        assert (answer.error_code, answer.expiry_timestamp_ms) == (0, pytest.approx(cluster.clock.now_ms(), abs=60_000))
        assert (await cluster.ask("alice", expire(token, 0))).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED

    play(scenario)


@pytest.mark.parametrize("kind", [None, ""])
def test_an_owner_without_a_type_is_refused(kind: str | None) -> None:
    """The token was made, and each login with it ended as an error of ours: its owner could not be read."""

    async def scenario(cluster: Cluster) -> None:
        request = create(owner="bob")
        request.owner_principal_type = kind
        token = await cluster.ask("alice", request)
        assert token.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        assert await ids(cluster, "alice") == []

    play(scenario)
