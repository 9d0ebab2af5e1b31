"""The gate before the requests of a SASL listener: each mechanism, each state, and everything that is out of turn."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.broker.config import Given, read_config
from odradek.broker.network import socket_server
from odradek.broker.network.entrance import Entrance
from odradek.broker.network.limits import AUTHENTICATION_MS_MAX
from odradek.broker.network.outcomes import Client
from odradek.broker.network.sasl_gate import SaslGate, State
from odradek.broker.requests import sasl_authenticate, sasl_handshake
from odradek.broker.requests.dispatch import Dispatcher
from odradek.broker.requests.registry import served_versions
from odradek.broker.security.bearer_tokens import UnsecuredTokens
from odradek.broker.security.credentials import Credentials
from odradek.broker.security.listener_security import BrokerSecurity
from odradek.broker.security.principal import ANONYMOUS
from odradek.broker.settings.network_settings import ConnectionSettings
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import API_NAMES, decode_response
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.security.bearer_login import unsecured_token
from odradek.security.errors import AuthenticationFailed, BadSecuritySetting, InvalidCredentials
from odradek.security.kerberos import kerberos_login
from odradek.security.scram import ScramClient, encode_credential, new_credential
from odradek.security.secure_network import ClientSecurity, SecureNetwork
from odradek.testing.foreign.kerberos import kerberos
from odradek.testing.needs import need
from odradek.testing.virtual_clock import VirtualClock, run_virtual

PLAIN_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="brokers" user_broker="brokers" user_alice="alice-secret";'
)
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
SETTINGS = {
    "zookeeper.connect": "z:2181",
    "broker.id": "0",
    "listeners": "SASL_PLAINTEXT://broker:9092",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_JAAS,
    "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
}
ALICE = {"sasl.username": "alice", "sasl.password": "alice-secret"}


def credentials() -> Credentials:
    made = Credentials()
    texts = {
        mechanism: encode_credential(new_credential(mechanism, "alice-secret", b"0123456789", 4096))
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    }
    made.set_user("alice", texts)
    return made


CREDENTIALS = credentials()


def find_scram(mechanism: str, name: str, token: bool) -> Any:
    return None if token else CREDENTIALS.find(mechanism, name)


Scenario = Callable[[Any], Awaitable[None]]


def run(make_harness: Any, scenario: Scenario, **changes: str) -> None:
    async def main(clock: VirtualClock) -> None:
        named = {name.replace("__", "-").replace("_", ".").replace("-", "_"): text for name, text in changes.items()}
        config = read_config([Given(*one, "test") for one in {**SETTINGS, **named}.items()])[0]
        harness = make_harness(clock, ConnectionSettings())
        modules = {**harness.handlers.modules(), 17: sasl_handshake, 36: sasl_authenticate}
        harness.server.serve(
            Dispatcher(SimpleNamespace(served_versions=served_versions(modules)), modules, clock).dispatch
        )
        security = BrokerSecurity(config, harness.network.host("broker"), clock, find_scram)
        harness.server.entrance = Entrance(clock, security.listener, 100)
        harness.secure_port = harness.server.listen("SASL_PLAINTEXT", "broker", 0)
        harness.security, harness.config = security, config
        await scenario(harness)
        harness.server.close()
        await harness.settle()
        assert harness.server.connections == 0

    run_virtual(main)


@pytest.fixture
def play(make_harness: Any) -> Callable[..., None]:
    """Runs a scenario with a harness that has a SASL listener; keywords are settings, `_` for `.` and `__` for `_`."""
    return lambda scenario, **changes: run(make_harness, scenario, **changes)


async def log_in(harness: Any, look: dict[str, Any]) -> Any:
    security = ClientSecurity.read("SASL_PLAINTEXT", look.get)
    network = SecureNetwork(harness.network.host("client"), harness.clock, security)
    endpoint = await network.connect("broker", harness.secure_port)
    return type(await harness.connect())(endpoint)


async def raw(harness: Any) -> Any:
    return await harness.connect(port=harness.secure_port)


async def ask(client: Any, message: Any, version: int) -> Any:
    await client.send(client.encode(message, version))
    return decode_response(message.API_KEY, version, await client.frame())[1]


async def handshake(client: Any, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return await ask(client, SaslHandshakeRequest(mechanism=mechanism), version)


def bearer(**options: str) -> dict[str, Any]:
    texts = " ".join(f'{name}="{text}"' for name, text in options.items())
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{module} required {texts};"}


@pytest.mark.parametrize(
    "look",
    [
        {"sasl.mechanism": "PLAIN", **ALICE},
        {"sasl.mechanism": "SCRAM-SHA-256", **ALICE},
        {"sasl.mechanism": "SCRAM-SHA-512", **ALICE},
        {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="alice" password="alice-secret";',
        },
        bearer(unsecuredLoginStringClaim_sub="alice"),
    ],
)
def test_every_mechanism_lets_in(play: Any, look: dict[str, Any]) -> None:
    async def scenario(harness: Any) -> None:
        client = await log_in(harness, look)
        whole = b"".join(client.heartbeat("", number) for number in range(50))
        await client.send(whole)
        assert [await client.number() for _ in range(50)] == list(range(50))
        assert {str(one.principal) for one in harness.handlers.contexts} == {"User:alice"}

    play(scenario)


def test_brokers_log_in_to_each_other(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        endpoint = await harness.security.network("SASL_PLAINTEXT").connect("broker", harness.secure_port)
        client = type(await harness.connect())(endpoint)
        await client.send(client.heartbeat("", 1))
        assert await client.number() == 1
        assert str(harness.handlers.contexts[-1].principal) == "User:broker"

    play(scenario)


@pytest.mark.parametrize(
    ("look", "said"),
    [
        ({"sasl.mechanism": "PLAIN", **ALICE, "sasl.password": "x"}, "Authentication failed: Invalid username or pass"),
        ({"sasl.mechanism": "PLAIN", **ALICE, "sasl.username": "x"}, "Authentication failed: Invalid username or pass"),
        (
            {"sasl.mechanism": "SCRAM-SHA-256", **ALICE, "sasl.password": "x"},
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", **ALICE, "sasl.username": "x"},
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512",
        ),
        (bearer(unsecuredLoginStringClaim_sub=""), '{"status": "invalid_token"}'),
        (bearer(unsecuredLoginStringClaim_sub="alice", unsecuredLoginLifetimeSeconds="-9"), "invalid_token"),
    ],
)
def test_who_is_refused_hears_it_late_and_is_closed(play: Any, look: dict[str, Any], said: str) -> None:
    async def scenario(harness: Any) -> None:
        begun_ms = harness.clock.monotonic_ms()
        with pytest.raises(AuthenticationFailed, match=said):
            await log_in(harness, look)
        assert harness.clock.monotonic_ms() - begun_ms >= 100
        await harness.settle()
        assert harness.server.connections == 0
        assert harness.handlers.handled == []

    play(scenario)


@pytest.mark.parametrize(
    "claims",
    [f'{{"sub": "alice", "exp": {time}}}' for time in ("Infinity", "NaN", "1e308", "9" * 5000)] + ["[" * 100_000, "{}"],
)
def test_tokens_that_json_allows_and_no_clock(claims: str) -> None:
    header, body = (base64.urlsafe_b64encode(one.encode()).decode().rstrip("=") for one in ('{"alg": "none"}', claims))
    with pytest.raises(InvalidCredentials):
        UnsecuredTokens("sub", 0)(f"{header}.{body}.")


def test_a_token_for_ever_ends_where_an_answer_can_say_it(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await raw(harness)
        await handshake(client, "OAUTHBEARER")
        first = f"n,,\x01auth=Bearer {unsecured_token({'sub': 'alice', 'exp': 10**400}, 0)}\x01\x01"
        answer = await ask(client, SaslAuthenticateRequest(auth_bytes=first.encode()), 2)
        assert answer.error_code == ErrorCode.NONE and 1 << 61 < answer.session_lifetime_ms < 1 << 62

    play(scenario)


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


def test_tokens_without_headers_after_an_old_handshake(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await raw(harness)
        assert (await handshake(client, version=0)).error_code == 0
        token = b"\0alice\0alice-secret"
        await client.send(len(token).to_bytes(4, "big") + token + client.heartbeat("", 9))
        assert await client.frame() == b""
        assert await client.number() == 9
        wrong = await raw(harness)
        assert (await handshake(wrong, version=0)).error_code == 0
        await wrong.send(len(token).to_bytes(4, "big") + b"\0alice\0alice-secreT")
        assert await wrong.end() == b"", "there is no way to say it"

    play(scenario)


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

        plain = SaslHandshakeRequest(mechanism="PLAIN")
        await ends((versions, 3), (versions, 3))
        await ends((versions, 3), (plain, 1), (versions, 3))
        await ends((plain, 1), (plain, 1))
        await ends((SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2))
        assert harness.handlers.handled == []

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


def test_kerberos_at_the_gate(play: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Who is refused hears no reason, and who may come again nothing; each leaves one line in the log."""
    need("kerberos")
    with kerberos(tmp_path) as kdc:
        module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
        jaas = f'{module} keyTab="{kdc.keytab("kafka", "kafka/localhost")}" principal="kafka/localhost";'
        login = kerberos_login({"sasl.kerberos.keytab": str(kdc.keytab("alice", "alice"))}.get, None)

        async def scenario(harness: Any) -> None:
            async def say(client: Any, token: bytes) -> Any:
                return await ask(client, SaslAuthenticateRequest(auth_bytes=token), 2)

            good = await raw(harness)
            exchange: Any = login.new("localhost")
            await handshake(good, "GSSAPI")
            message = exchange.first()
            while message is not None:
                answer = await say(good, message)
                assert answer.error_code == ErrorCode.NONE
                message = exchange.respond(bytes(answer.auth_bytes))
            await good.send(good.heartbeat("", 1))
            assert await good.number() == 1 and str(harness.handlers.contexts[-1].principal) == "User:alice"
            old = await raw(harness)
            await handshake(old, "GSSAPI", version=0)
            exchange = login.new("localhost")
            for message in (exchange.first(), b""):
                await old.send(len(message).to_bytes(4, "big") + message)
                message = exchange.respond(await old.frame())
            await old.send(len(message).to_bytes(4, "big") + message + old.heartbeat("", 2))
            assert await old.number() == 2, "the last message has no answer where messages have no headers"
            caplog.clear()
            garbage = await raw(harness)
            await handshake(garbage, "GSSAPI")
            refused = await say(garbage, b"`" + bytes(60))
            assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert refused.error_message == (
                "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
            )
            assert await garbage.end() == b""
            again = await raw(harness)
            await handshake(again, "GSSAPI")
            await again.send(again.encode(SaslAuthenticateRequest(auth_bytes=exchange.first()), 2))
            assert await again.end() == b"", "a replay"
            lines = [one.getMessage() for one in caplog.records if "refusing" in one.getMessage()]
            assert len(lines) == 2 and "invalid credentials" in lines[0] and "replay" in lines[1], lines

        name = "listener_name_sasl__plaintext_gssapi_sasl_jaas_config"
        play(scenario, sasl_enabled_mechanisms="GSSAPI,PLAIN", **{name: jaas})


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


def test_a_session_has_an_end_unless_the_same_user_authenticates_again(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        async def enter(client: Any, user: str = "alice", mechanism: str = "PLAIN") -> Any:
            assert (await handshake(client, mechanism)).error_code == 0
            secret = {"alice": "alice-secret", "broker": "brokers"}[user]
            return await ask(client, SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{secret}".encode()), 2)

        again, late, other, changed = [await raw(harness) for _ in range(4)]
        for client in (again, late, other, changed):
            assert (await enter(client)).session_lifetime_ms == 5000
        await harness.settle(4000)
        assert (await enter(again)).session_lifetime_ms == 5000
        answer = await handshake(again)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE, "not twice in a second"
        assert (await enter(other, "broker")).error_message.startswith("Cannot change principals during re-auth")
        answer = await enter(changed, mechanism="SCRAM-SHA-256")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        await harness.settle(2000)
        await again.send(again.heartbeat("", 1))
        assert await again.number() == 1
        await late.send(late.heartbeat("", 1))
        await late.end()
        assert other.ended and changed.ended and harness.handlers.handled == [1]

    play(scenario, connections_max_reauth_ms="5000")


def test_without_an_end_nobody_authenticates_again(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await log_in(harness, {"sasl.mechanism": "PLAIN", **ALICE})
        await client.send(client.heartbeat("", 1))
        assert await client.number() == 1
        await client.send(client.encode(SaslHandshakeRequest(mechanism="PLAIN"), 1))
        _, answer = decode_response(17, 1, await client.frame())
        assert isinstance(answer, SaslHandshakeResponse) and answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        refused = await ask(client, SaslAuthenticateRequest(auth_bytes=b"x"), 2)
        assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE

    play(scenario)


KEY = ec.generate_private_key(ec.SECP256R1())


def signed(key: Any = KEY, algorithm: str = "ES256", **claims: Any) -> str:
    body = {"sub": "alice", "exp": 1 << 40, "aud": "kafka", "iss": "https://issuer", **claims}
    return jwt.encode(body, key, algorithm, headers={"kid": "k1"})


def test_signed_tokens(play: Any, tmp_path: Any) -> None:
    keys = tmp_path / "keys.json"
    public = {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())), "kid": "k1", "use": "sig"}
    keys.write_text(json.dumps({"keys": [public]}))

    def with_token(token: str) -> dict[str, Any]:
        (tmp_path / "token").write_text(token)
        return {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": f"file://{tmp_path}/token"}

    async def scenario(harness: Any) -> None:
        from odradek.broker.security.sasl_mechanisms import BearerServer

        def judge(token: str) -> bool:
            server: Any = harness.security.listener("SASL_PLAINTEXT").sasl.server("OAUTHBEARER")
            assert isinstance(server, BearerServer)
            server.evaluate(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
            return server.complete

        assert judge(signed())
        assert judge(signed(aud=["other", "kafka"]))
        wrong = {
            "audience": signed(aud="other"),
            "issuer": signed(iss="https://other"),
            "expired": signed(exp=1),
            "a text for a time": signed(exp="1099511627776"),
            "no subject": signed(sub=""),
            "early": signed(nbf=1 << 40),
            "another key": signed(ec.generate_private_key(ec.SECP256R1())),
            "alg none": unsecured_token({"sub": "alice", "aud": "kafka", "iss": "https://issuer"}, 3600),
            "the public key as a secret": signed("x" * 64, "HS256"),
            "cut": signed()[:-5],
        }
        assert {name for name, token in wrong.items() if judge(token)} == set()
        assert with_token(signed())
        keys.unlink()
        harness.security.configure(harness.config)
        assert judge(signed()), "a change of a listener asks nobody for keys"

    play(
        scenario,
        sasl_oauthbearer_jwks_endpoint_url=f"file://{keys}".replace("_", "_"),
        sasl_oauthbearer_expected_audience="kafka",
        sasl_oauthbearer_expected_issuer="https://issuer",
        listener_name_sasl__plaintext_oauthbearer_sasl_server_callback_handler_class="x.SomethingSecured",
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sasl.enabled.mechanisms": "NTLM"}, "NTLM is not known"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": "nonsense"}, "LoginModule required"),
        (
            {"listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": "x.Secured"},
            r"sasl\.oauthbearer\.jwks\.endpoint\.url: OAUTHBEARER needs it",
        ),
        ({"sasl.mechanism.inter.broker.protocol": "NTLM"}, "NTLM is not known"),
    ],
)
def test_settings_that_cannot_be_obeyed(changes: dict[str, str], said: str) -> None:
    config = read_config([Given(*one, "test") for one in {**SETTINGS, **changes}.items()])[0]
    with pytest.raises(BadSecuritySetting, match=said) as refused:
        BrokerSecurity(config, None, VirtualClock(asyncio.new_event_loop()), find_scram)  # type: ignore[arg-type]
    assert "secret" not in str(refused.value)


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
