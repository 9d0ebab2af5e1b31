"""Exchanges of single mechanisms: for whom somebody may log in, and for how long they may stay."""

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.security.sasl_listener import SaslListener
from odradek.broker.security.sasl_mechanisms import BearerServer, PlainServer, ValidToken
from odradek.security.errors import AuthenticationFailed
from tests.broker.security.sasl_listener import PLAIN_JAAS, ask, handshake, raw, run


def plain(message: bytes) -> PlainServer:
    server = PlainServer({"alice": "alice-secret", "empty": ""})
    assert server.evaluate(message) == b""
    return server


@pytest.mark.parametrize("message", [b"\0alice\0alice-secret", b"alice\0alice\0alice-secret"])
def test_a_user_of_plain_may_name_itself_twice(message: bytes) -> None:
    server = plain(message)
    assert server.complete and server.principal == "alice"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"bob\0alice\0alice-secret", "an authorization id that is different from username"),
        (b"Alice\0alice\0alice-secret", "an authorization id that is different from username"),
        (b"bob\0alice\0wrong", "Invalid username or password"),
        (b"\0\0alice-secret", "username not specified"),
        (b"\0empty\0", "password not specified"),
        (b"\0alice", "expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "expected 3 tokens, got 4"),
    ],
)
def test_nobody_logs_in_for_somebody_else_by_plain_or_without_a_password(message: bytes, said: str) -> None:
    with pytest.raises(AuthenticationFailed, match=said):
        plain(message)


def bearer(authorization: str) -> BearerServer:
    server = BearerServer(lambda token: ValidToken(token, 9000))
    assert server.evaluate(f"n,{authorization},\x01auth=Bearer alice\x01\x01".encode()) == b""
    return server


def test_nobody_logs_in_for_somebody_else_by_a_token() -> None:
    for authorization in ("", "a=alice"):
        server = bearer(authorization)
        assert (server.complete, server.principal, server.expires_ms) == (True, "alice", 9000)
    with pytest.raises(AuthenticationFailed, match=r"authorization id \(bob\) that is different"):
        bearer("a=bob")


@pytest.mark.parametrize(
    ("limit_ms", "expires_ms", "lifetime_ms"),
    [
        ("0", None, None),
        ("0", 5000, 4000),
        ("0", 900, 0),
        ("3000", None, 3000),
        ("3000", 5000, 3000),
        ("3000", 2000, 1000),
        ("3000", 900, 0),
    ],
)
def test_a_session_ends_with_what_the_client_has_shown_or_sooner(
    limit_ms: str, expires_ms: int | None, lifetime_ms: int | None
) -> None:
    settings: dict[str, Any] = {
        "sasl.enabled.mechanisms": ["PLAIN"],
        "sasl.server.max.receive.size": 1000,
        "plain.sasl.jaas.config": PLAIN_JAAS,
        "plain.connections.max.reauth.ms": limit_ms,
    }
    listener = SaslListener(settings.get, lambda *_: None, lambda *_: lambda token: ValidToken(token, 0))
    server: Any = SimpleNamespace(mechanism="PLAIN", expires_ms=expires_ms)
    assert listener.session_lifetime_ms(server, 1000) == lifetime_ms


def test_who_authenticates_again_may_send_no_more_than_at_first(make_harness: Any) -> None:
    from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest

    message = SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret")

    async def scenario(harness: Any) -> None:
        client, greedy = await raw(harness), await raw(harness)
        for one in (client, greedy):
            await handshake(one)
            await ask(one, message, 2)
        await harness.settle(2000)
        for one in (client, greedy):
            await handshake(one)
        assert (await ask(client, message, 2)).error_code == 0
        await greedy.send(greedy.encode(SaslAuthenticateRequest(auth_bytes=bytes(2000)), 2))
        assert await greedy.end() == b""

    run(make_harness, scenario, connections_max_reauth_ms="5000", sasl_server_max_receive_size="1000")
