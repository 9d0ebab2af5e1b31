"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554), through a whole broker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from odradek.security.scram import decode_credential, new_credential, salted_password
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.znodes.configs import decode_config, encode_config

SALT = b"salt of some length"
SHA_256, SHA_512 = 1, 2
CREDENTIAL = "salt=AAAA,stored_key=AAAA,server_key=AAAA,iterations=%d"
NAMES = {SHA_256: "SCRAM-SHA-256", SHA_512: "SCRAM-SHA-512"}


def upsert(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    salted = salted_password(NAMES.get(mechanism, NAMES[SHA_256]), "secret", SALT, iterations)
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def delete(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


Ask = Callable[[Any], Awaitable[Any]]


def play(scenario: Callable[[EmbeddedCluster, Ask], Awaitable[None]], **overrides: str) -> None:
    async def main(clock: VirtualClock) -> None:
        settings = {name.replace("_", "."): text for name, text in overrides.items()}
        async with EmbeddedCluster(clock, 1, settings) as cluster:
            peer = Peer(cluster.network.host("admin"), clock, "broker-0", cluster.port, "admin")

            async def ask(request: Any) -> Any:
                return await peer.request(request, 0, 30_000)

            await scenario(cluster, ask)
            peer.close()

    run_virtual(main)


async def altered(ask: Ask, *changes: Any) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )
    return {one.user: (one.error_code, one.error_message) for one in (await ask(request)).results}


async def described(ask: Ask, *users: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    answer = await ask(DescribeUserScramCredentialsRequest(users=[UserName(name=one) for one in users] or None))
    return [
        (one.user, one.error_code, [(info.mechanism, info.iterations) for info in one.credential_infos])
        for one in answer.results
    ]


def test_credentials_are_made_shown_and_taken_away() -> None:
    async def scenario(cluster: EmbeddedCluster, ask: Ask) -> None:
        assert await altered(ask, upsert("al ice"), upsert("al ice", SHA_512, 8192), upsert("bob")) == {
            "al ice": (0, None),
            "bob": (0, None),
        }
        store = cluster.zookeeper.connect()
        await store.start(1000)
        path = "/config/users/al%20ice"
        settings = decode_config(path, (await store.get(path))[0])
        assert decode_credential(settings["SCRAM-SHA-256"]) == new_credential("SCRAM-SHA-256", "secret", SALT, 4096)
        assert await described(ask) == [
            ("al ice", 0, [(SHA_256, 4096), (SHA_512, 8192)]),
            ("bob", 0, [(SHA_256, 4096)]),
        ]
        while cluster.brokers[0].server.setting_changes.credentials.find("SCRAM-SHA-512", "al ice") is None:
            await asyncio.sleep(0.1)
        assert await altered(ask, delete("al ice"), delete("bob")) == {"al ice": (0, None), "bob": (0, None)}
        assert await described(ask) == [("al ice", 0, [(SHA_512, 8192)])]
        while cluster.brokers[0].server.setting_changes.credentials.find("SCRAM-SHA-256", "al ice") is not None:
            await asyncio.sleep(0.1)

    play(scenario)


def test_what_is_wrong_holds_for_one_user_alone() -> None:
    async def scenario(cluster: EmbeddedCluster, ask: Ask) -> None:
        empty = upsert("empty")  # Java's keys cannot be empty; who logs in would need no password
        empty.salted_password = b""
        found = await altered(
            ask,
            empty,
            upsert(""),
            upsert("unknown", 3),
            upsert("few", iterations=4095),
            upsert("many", iterations=16_385),
            upsert("twice"),
            upsert("twice"),
            delete("absent"),
            upsert("sound"),
        )
        assert {user: code for user, (code, _) in found.items()} == {
            "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "unknown": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "empty": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "twice": ErrorCode.DUPLICATE_RESOURCE,
            "absent": ErrorCode.RESOURCE_NOT_FOUND,
            "sound": 0,
        }
        assert await described(ask, "sound", "few", "sound") == [
            ("sound", ErrorCode.DUPLICATE_RESOURCE, []),
            ("few", ErrorCode.RESOURCE_NOT_FOUND, []),
        ]

    play(scenario)


@pytest.mark.parametrize(
    "stored",
    [b"{", encode_config({"SCRAM-SHA-256": "salt"}), encode_config({"SCRAM-SHA-256": CREDENTIAL % 2**31})],
)
def test_a_user_whose_credentials_are_damaged_spoils_nobody_elses(stored: bytes) -> None:
    async def scenario(cluster: EmbeddedCluster, ask: Ask) -> None:
        await altered(ask, upsert("alice"))
        store = cluster.zookeeper.connect()
        await store.start(1000)
        await store.create("/config/users/bob", stored)
        damaged: tuple[str, int, list[tuple[int, int]]] = ("bob", ErrorCode.UNKNOWN_SERVER_ERROR, [])
        assert await described(ask) == [("alice", 0, [(SHA_256, 4096)]), damaged]
        assert await described(ask, "bob", "carol") == [damaged, ("carol", ErrorCode.RESOURCE_NOT_FOUND, [])]

    play(scenario)


def test_who_may_not_ask_is_told_so() -> None:
    async def scenario(cluster: EmbeddedCluster, ask: Ask) -> None:
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert {code for code, _ in (await altered(ask, upsert("alice"))).values()} == {denied}
        assert (await ask(DescribeUserScramCredentialsRequest(users=None))).error_code == denied

    play(scenario, authorizer_class_name="kafka.security.authorizer.AclAuthorizer")


def test_zookeeper_that_is_away_is_an_error_in_the_answer() -> None:
    """The connection was closed, as after an error of ours: clients asked again and again, and nobody said why."""

    async def scenario(cluster: EmbeddedCluster, ask: Ask) -> None:
        await altered(ask, upsert("alice"))
        cluster.zookeeper.stop()
        for users in (None, [UserName(name="alice")]):
            answer = await ask(DescribeUserScramCredentialsRequest(users=users))
            assert (answer.error_code, answer.results) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
            assert answer.error_message.endswith("no connection to ZooKeeper")

    play(scenario)
