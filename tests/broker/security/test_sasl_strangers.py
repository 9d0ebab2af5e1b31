"""Clients that have not logged in at a SASL listener: out of turn, too much, too slow, at random."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.broker.network import socket_server
from odradek.broker.network.limits import AUTHENTICATION_MS_MAX
from odradek.broker.network.outcomes import Client
from odradek.broker.network.sasl_gate import SaslGate, State
from odradek.broker.security.principal import ANONYMOUS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import API_NAMES
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.security.errors import AuthenticationFailed, InvalidCredentials
from odradek.security.scram import ScramClient
from tests.broker.security.sasl_listener import ALICE, ask, handshake, log_in, raw, run


def test_a_mechanism_that_is_not_offered(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await raw(harness)
        answer = await handshake(client, "SCRAM-SHA-256")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN"]
        await client.end()
        with pytest.raises(AuthenticationFailed, match="does not take SCRAM-SHA-256, but PLAIN"):
            await log_in(harness, {"sasl.mechanism": "SCRAM-SHA-256", **ALICE})

    play(scenario, sasl_enabled_mechanisms="PLAIN")


class Ticket:
    """The server's side of an exchange of two messages, as GSSAPI's, with no key distribution center."""

    mechanism, principal, expires_ms, is_token = "GSSAPI", "alice", None, False

    def __init__(self) -> None:
        self.complete = False
        self._begun = False

    def evaluate(self, token: bytes) -> bytes | None:
        if token != (b"last" if self._begun else APPLICATION_0):
            raise InvalidCredentials("not mine")
        self.complete = self._begun
        self._begun = True
        return None if self.complete else b"challenge"


APPLICATION_0 = b"\x60\x82\x01\x00" + bytes(60)
"""Something that begins as a first message of GSSAPI, and not as a request."""


def test_a_client_of_kafka_0_9_begins_with_gssapi_itself(make_harness: Any) -> None:
    """It has no SaslHandshake, which came with 0.10, and was refused as somebody who cannot be understood."""

    async def scenario(harness: Any) -> None:
        listener = harness.security.listener("SASL_PLAINTEXT").sasl
        for mechanisms, comes_in in ((("PLAIN", "GSSAPI"), True), (("PLAIN",), False)):
            listener.mechanisms, listener._new_kerberos = mechanisms, Ticket
            listener._lifetimes = dict.fromkeys(mechanisms, 0)
            client = await raw(harness)
            await client.send(len(APPLICATION_0).to_bytes(4, "big") + APPLICATION_0)
            if not comes_in:
                assert await client.end() == b""
                continue
            assert await client.frame() == b"challenge"
            await client.send(b"\0\0\0\4last" + client.heartbeat("", 7))
            assert await client.number() == 7
            assert str(harness.handlers.contexts[-1].principal) == "User:alice"
            stranger, late = await raw(harness), await raw(harness)
            await stranger.send(b"\0\0\0\x14\x60" + bytes(19))
            assert await stranger.end() == b""
            await ask(late, ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
            await late.send(len(APPLICATION_0).to_bytes(4, "big") + APPLICATION_0)
            assert await late.end() == b"", "whoever has asked for versions knows of the handshake"

    run(make_harness, scenario)


@pytest.mark.parametrize("api_key", sorted(API_NAMES.keys() - {17, 18}))
def test_nothing_else_is_answered_before(make_harness: Any, api_key: int) -> None:
    async def scenario(harness: Any) -> None:
        for before in (False, True):
            client = await raw(harness)
            if before:
                await ask(client, ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
            await client.send(b"\0\0\0\x10" + api_key.to_bytes(2, "big") + b"\0\0" + bytes(4) + b"\0\2me" + bytes(4))
            assert await client.end() == b""

    run(make_harness, scenario)


def test_what_is_out_of_turn(play: Any) -> None:
    versions = ApiVersionsRequest(client_software_name="a", client_software_version="1")

    async def scenario(harness: Any) -> None:
        async def ends(*messages: tuple[Any, int]) -> None:
            client = await raw(harness)
            for message, version in messages[:-1]:
                await ask(client, message, version)
            await client.send(client.encode(*messages[-1]))
            rest = await client.end()
            assert rest == b"", (messages, rest)

        await ends((versions, 3), (versions, 3))
        await ends((SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2))
        assert harness.handlers.handled == []

    play(scenario)


@pytest.mark.parametrize(
    ("message", "version"),
    [(SaslHandshakeRequest(mechanism="PLAIN"), 0), (SaslHandshakeRequest(mechanism="PLAIN"), 1)]
    + [(ApiVersionsRequest(client_software_name="a", client_software_version="1"), version) for version in range(5)],
)
def test_who_begins_anew_amid_an_exchange_is_told_so(play: Any, message: Any, version: int) -> None:
    """As by Kafka: the connection was closed without a word, which clients take for a broker that has gone."""

    async def scenario(harness: Any) -> None:
        client = await raw(harness)
        assert (await handshake(client)).error_code == ErrorCode.NONE
        assert (await ask(client, message, version)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.end() == b""

    play(scenario)


def test_a_message_of_plain_that_lacks_a_part(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await raw(harness)
        await handshake(client)
        refused = await ask(client, SaslAuthenticateRequest(auth_bytes=b"alice\0alice-secret"), 2)
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert refused.error_message == "Invalid SASL/PLAIN response: expected 3 tokens, got 2"

    play(scenario)


def test_a_name_of_software_that_is_refused_may_be_followed_by_a_version_without_one(play: Any) -> None:
    """As in Kafka, where the answer INVALID_REQUEST changes nothing: the second question closed the connection."""

    async def scenario(harness: Any) -> None:
        client = await raw(harness)
        odd = ApiVersionsRequest(client_software_name="-", client_software_version="1")
        assert (await ask(client, odd, 3)).error_code == ErrorCode.INVALID_REQUEST
        assert (await ask(client, ApiVersionsRequest(), 0)).error_code == ErrorCode.NONE
        await client.send(client.encode(ApiVersionsRequest(), 0))
        assert await client.end() == b"", "one that was answered well is the last"

    play(scenario)


def test_who_is_refused_cannot_begin_anew(play: Any) -> None:
    """Even if the connection let its next frame through before it is closed."""

    async def scenario(harness: Any) -> None:
        sasl = harness.security.listener("SASL_PLAINTEXT").sasl
        reached: list[object] = []
        client = Client("client:1", "SASL_PLAINTEXT")
        gate = SaslGate(client, sasl, harness.clock, 100, lambda frame, _: reached.append(frame), lambda: None)
        raw_client = await raw(harness)

        def say(message: Any, version: int) -> Any:
            answer: Any = gate(memoryview(raw_client.encode(message, version)[4:]), client)
            if not isinstance(answer, list):
                answer.outcome.close()
            return answer

        assert isinstance(say(SaslHandshakeRequest(mechanism="PLAIN"), 1), list)
        assert not isinstance(say(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2), list)
        assert not isinstance(say(SaslHandshakeRequest(mechanism="PLAIN"), 1), list)
        assert not isinstance(say(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2), list)
        assert (client.principal, reached, gate.state) == (ANONYMOUS, [], State.REFUSED)

    play(scenario)


def test_a_stranger_may_not_send_much(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await raw(harness)
        await client.send((524_289).to_bytes(4, "big"))
        assert await client.end() == b""
        inside = await log_in(harness, {"sasl.mechanism": "PLAIN", **ALICE})
        await inside.send(inside.heartbeat("x" * 20_000, 3) + b"\0\x10\0\0" + bytes(10))
        assert await inside.number() == 3
        await harness.settle(200)
        assert not inside.ended, "who is in may send as much as anybody"

    play(scenario)


def test_strangers_do_not_fill_the_memory_together(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_server, "UNAUTHENTICATED_BYTES_MAX", 1_000_000)

    async def scenario(harness: Any) -> None:
        strangers = [await raw(harness) for _ in range(6)]
        for number, stranger in enumerate(strangers):
            await stranger.send((500_000).to_bytes(4, "big") + bytes(400_000 - 10_000 * number))
            await harness.settle(10)
        assert [one.ended for one in strangers] == [True, True, True, True, False, False], "the greediest has to go"
        await strangers[4].send(bytes(140_000))
        inside = await log_in(harness, {"sasl.mechanism": "PLAIN", **ALICE})
        await inside.send((1_500_000).to_bytes(4, "big") + bytes(1_200_000))
        await harness.settle(10)
        assert not inside.ended, "who is in is not counted"

    play(scenario)


def test_who_stalls_is_closed(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        silent, begun, half = await raw(harness), await raw(harness), await raw(harness)
        await handshake(begun, "SCRAM-SHA-256")
        first = ScramClient("SCRAM-SHA-256", "alice", "x", "nonce").first()
        await handshake(half, "SCRAM-SHA-256")
        await ask(half, SaslAuthenticateRequest(auth_bytes=first), 2)
        await harness.settle(AUTHENTICATION_MS_MAX + 100)
        assert (silent.ended, begun.ended, half.ended) == (True, True, True)

    play(scenario)


MESSAGES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b"\0\x12\0\0" + bytes(4) + b"\0\2me",
            b"\0\x11\0\1" + bytes(4) + b"\0\2me\0\5PLAIN",
            b"\0\x11\0\0" + bytes(4) + b"\0\2me\0\5PLAIN",
            b"\0\x11\0\1" + bytes(4) + b"\0\2me\0\x0dSCRAM-SHA-256",
            b"\0\x24\0\1" + bytes(4) + b"\0\2me\0\0\0\x0d\0alice\0wrong!",
            b"\0alice\0wrong",
            b"n,,n=alice,r=nonce",
            b"\0\x0c\0\0" + bytes(4) + b"\0\2me\0\0\0\0\0\0\0\0",
        ]
    ),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(MESSAGES, max_size=8), st.integers(0, 40))
def test_no_frames_get_anybody_in(make_harness: Any, frames: list[bytes], cut: int) -> None:
    async def scenario(harness: Any) -> None:
        client = await raw(harness)
        stream = b"".join(len(one).to_bytes(4, "big") + one for one in frames)
        await client.send(stream[: len(stream) - cut] if cut < len(stream) else stream)
        await harness.settle(300)
        assert harness.handlers.handled == []
        sound = await log_in(harness, {"sasl.mechanism": "PLAIN", **ALICE})
        await sound.send(sound.heartbeat("", 1))
        assert await sound.number() == 1, "others are served"

    run(make_harness, scenario)
