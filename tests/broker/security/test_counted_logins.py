"""What a broker counts of logins, as Kafka's socket-server-metrics do: who tries passwords shows."""

from typing import Any

import pytest

from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.security.errors import AuthenticationFailed, NotNow
from tests.broker.security.sasl_listener import ALICE, ask, handshake, log_in, raw, run


class Replayed:
    """An exchange that cannot be decided now, as that of a ticket which somebody seems to repeat."""

    complete = False

    def evaluate(self, token: bytes) -> bytes:
        raise NotNow("a replay")


def counts(harness: Any) -> dict[str, int]:
    listeners = {listener for listener, _ in harness.server.authentications}
    assert listeners <= {"SASL_PLAINTEXT"}
    return {name: count for (_, name), count in harness.server.authentications.items()}


def test_logins_and_those_that_fail(make_harness: Any) -> None:
    async def scenario(harness: Any) -> None:
        for _ in range(3):
            (await log_in(harness, {"sasl.mechanism": "SCRAM-SHA-256", **ALICE})).endpoint.close()
        for password in ("wrong", "x"):
            with pytest.raises(AuthenticationFailed):
                await log_in(harness, {"sasl.mechanism": "PLAIN", **ALICE, "sasl.password": password})
        (await raw(harness)).endpoint.close()
        unknown = await raw(harness)
        await handshake(unknown, "NTLM")
        await unknown.end()
        await harness.settle()
        assert counts(harness) == {"successful-authentication-total": 3, "failed-authentication-total": 3}

    run(make_harness, scenario)


def test_what_cannot_be_decided_now_is_no_failure(make_harness: Any) -> None:
    async def scenario(harness: Any) -> None:
        harness.security.listener("SASL_PLAINTEXT").sasl.server = lambda mechanism: Replayed()
        for version in (0, 1):
            client = await raw(harness)
            await handshake(client, version=version)
            message = client.encode(SaslAuthenticateRequest(auth_bytes=b"x"), 2)
            await client.send(message if version else b"\0\0\0\1x")
            assert await client.end() == b""
        assert counts(harness) == {}

    run(make_harness, scenario)


def test_sessions_that_go_on_end_or_change_hands(make_harness: Any) -> None:
    async def scenario(harness: Any) -> None:
        async def enter(client: Any, user: str, secret: str) -> Any:
            await handshake(client)
            return await ask(client, SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{secret}".encode()), 2)

        again, late, other = [await raw(harness) for _ in range(3)]
        for client in (again, late, other):
            await enter(client, "alice", "alice-secret")
        await harness.settle(4000)
        await enter(again, "alice", "alice-secret")
        await enter(other, "broker", "brokers")
        await harness.settle(2000)
        await late.send(late.heartbeat("", 1))
        assert await late.end() == b"" and other.ended and not again.ended
        assert counts(harness) == {
            "successful-authentication-total": 3,
            "successful-reauthentication-total": 1,
            "failed-reauthentication-total": 1,
            "expired-connections-killed-count": 1,
        }

    run(make_harness, scenario, connections_max_reauth_ms="5000")
