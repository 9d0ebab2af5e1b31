"""The gate before the requests of a SASL listener: each mechanism lets in and refuses, and sessions end."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from odradek.broker.config import Given, read_config
from odradek.broker.security.bearer_tokens import SignedTokens, UnsecuredTokens
from odradek.broker.security.listener_security import BrokerSecurity
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import decode_response
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.security.bearer_login import unsecured_token
from odradek.security.errors import AuthenticationFailed, BadSecuritySetting, InvalidCredentials
from odradek.security.kerberos import kerberos_login
from odradek.testing.foreign.kerberos import kerberos
from odradek.testing.needs import need
from odradek.testing.virtual_clock import VirtualClock
from tests.broker.security.sasl_listener import ALICE, SETTINGS, ask, find_scram, handshake, log_in, raw

HANDLER = "sasl.server.callback.handler.class"


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
        (bearer(unsecuredLoginStringClaim_sub=""), '{"status":"invalid_token"}'),
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
        UnsecuredTokens({})(f"{header}.{body}.")


@pytest.mark.parametrize("text", ["[]", "1", "{}", '{"keys": 1}', '{"keys": ["k"]}', '{"keys": []}', "[" * 100_000])
def test_keys_of_an_issuer_that_are_none(text: str, tmp_path: Path) -> None:
    """Some of these ended the broker's start as an error of ours, others the thread that fetches them anew."""
    (tmp_path / "keys").write_text(text)
    look = {"sasl.oauthbearer.jwks.endpoint.refresh.ms": 1000}.get
    with pytest.raises(BadSecuritySetting, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
        SignedTokens(f"file://{tmp_path}/keys", look)


def test_a_header_that_pyjwt_cannot_read_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With older versions of it anybody could bring a RecursionError about, which was an error of ours."""
    public = {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())), "kid": "k1"}
    (tmp_path / "keys").write_text(json.dumps({"keys": [public]}))
    tokens = SignedTokens(f"file://{tmp_path}/keys", {"sasl.oauthbearer.jwks.endpoint.refresh.ms": 1000}.get)

    def read(token: str) -> Any:
        raise RecursionError("maximum recursion depth exceeded while decoding a JSON array")

    monkeypatch.setattr(jwt, "get_unverified_header", read)
    with pytest.raises(InvalidCredentials):
        tokens("[[[[.e30.c2ln")


def test_a_token_for_ever_ends_where_an_answer_can_say_it(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await raw(harness)
        await handshake(client, "OAUTHBEARER")
        first = f"n,,\x01auth=Bearer {unsecured_token({'sub': 'alice', 'exp': 10**400}, 0)}\x01\x01"
        answer = await ask(client, SaslAuthenticateRequest(auth_bytes=first.encode()), 2)
        assert answer.error_code == ErrorCode.NONE and 1 << 61 < answer.session_lifetime_ms < 1 << 62

    play(scenario)


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
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED and "cannot change" in answer.error_message
        await harness.settle(600)
        await late.send(late.heartbeat("", 2))
        assert await late.number() == 2, "not over yet"
        await harness.settle(600)
        await again.send(again.heartbeat("", 1))
        assert await again.number() == 1
        await late.send(late.heartbeat("", 1))
        await late.end()
        assert other.ended and changed.ended and harness.handlers.handled == [2, 1]

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


def signed(key: Any = KEY, algorithm: str = "ES256", kid: str | None = "k1", **claims: Any) -> str:
    body = {"sub": "alice", "iat": 1, "exp": 1 << 40, "aud": "kafka", "iss": "https://issuer", **claims}
    known = {name: value for name, value in body.items() if value is not None}
    return jwt.encode(known, key, algorithm, headers=None if kid is None else {"kid": kid})


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
            "no time of issue": signed(iat=None),
            "no audience": signed(aud=None),
            "early": signed(nbf=1 << 40),
            "another key": signed(ec.generate_private_key(ec.SECP256R1())),
            "alg none": unsecured_token({"sub": "alice", "aud": "kafka", "iss": "https://issuer"}, 3600),
            "the public key as a secret": signed("x" * 64, "HS256"),
            "cut": signed()[:-5],
        }
        assert {name for name, token in wrong.items() if judge(token)} == set()
        deep = base64.urlsafe_b64encode(b"[" * 99_999).decode()
        assert not judge(f"{deep}.e30.c2ln")
        assert with_token(signed())
        keys.unlink()
        harness.security.configure(harness.config)
        assert judge(signed()), "a change of a listener asks nobody for keys"

    play(
        scenario,
        sasl_oauthbearer_jwks_endpoint_url=f"file://{keys}".replace("_", "_"),
        sasl_oauthbearer_expected_audience="kafka",
        sasl_oauthbearer_expected_issuer="https://issuer",
        listener_name_sasl__plaintext_oauthbearer_sasl_server_callback_handler_class="x.OAuthBearerValidatorCallbackHandler",
    )


def test_a_token_for_a_certain_audience_is_refused_where_nobody_has_said_which_one_this_is(tmp_path: Path) -> None:
    """As by Kafka: a token that was issued for another service let its owner in here."""
    keys = tmp_path / "keys.json"
    public = {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())), "kid": "k1", "use": "sig"}
    keys.write_text(json.dumps({"keys": [public]}))
    asked = {**SETTINGS, "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}"}
    validate = SignedTokens(f"file://{keys}", read_config([Given(*one, "test") for one in asked.items()])[0].value)
    assert validate(signed(aud=None)).principal == "alice"
    with pytest.raises(InvalidCredentials, match=r"not valid: .*audience"):
        validate(signed(aud="wiki"))


def test_an_rsa_key_that_says_no_algorithm_is_for_all_of_them(tmp_path: Path) -> None:
    """As at Kafka: only RS256 was accepted of it, so nobody came in with a token of RS512 or PS256. Keys for something
    else than signatures do not count, and a token that names no key is checked with the first that is left."""
    keys, key = tmp_path / "keys.json", rsa.generate_private_key(65537, 2048)
    known: dict[str, Any] = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    del known["key_ops"]
    other = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key()))
    told = [{**known, "kid": "k1", "use": "enc"}, {**other, "kid": "k2"}, {**known, "kid": "k3"}]
    told.append({**known, "kid": "k4", "alg": "RS384"})
    keys.write_text(json.dumps({"keys": told}))
    asked = {**SETTINGS, "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}"}
    validate = SignedTokens(f"file://{keys}", read_config([Given(*one, "test") for one in asked.items()])[0].value)
    for algorithm in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"):
        assert validate(signed(key, algorithm, "k3", aud=None)).principal == "alice", algorithm
        assert validate(signed(key, algorithm, None, aud=None)).principal == "alice", algorithm
        with pytest.raises(InvalidCredentials, match="called 'k1'"):
            validate(signed(key, algorithm, "k1", aud=None))
    assert validate(signed(key, "RS384", "k4", aud=None)).principal == "alice"
    with pytest.raises(InvalidCredentials, match="'k4' and for RS256"):
        validate(signed(key, "RS256", "k4", aud=None))
    assert validate(signed(KEY, "ES256", None, aud=None)).principal == "alice"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sasl.enabled.mechanisms": "NTLM"}, "NTLM is not known"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": "nonsense"}, "LoginModule required"),
        (
            {f"listener.name.sasl_plaintext.oauthbearer.{HANDLER}": "x.OAuthBearerValidatorCallbackHandler"},
            r"sasl\.oauthbearer\.jwks\.endpoint\.url: OAUTHBEARER needs it",
        ),
        ({"sasl.mechanism.inter.broker.protocol": "NTLM"}, "NTLM is not known"),
        *(
            (
                {f"listener.name.sasl_plaintext.{mechanism}.{HANDLER}": "x.AsksLdap"},
                rf"{mechanism}.{HANDLER}: x.AsksLdap: Java",
            )
            for mechanism in ("plain", "scram-sha-256", "oauthbearer")
        ),
    ],
)
def test_settings_that_cannot_be_obeyed(changes: dict[str, str], said: str) -> None:
    """Who was to be asked about passwords was not, without a word."""
    config = read_config([Given(*one, "test") for one in {**SETTINGS, **changes}.items()])[0]
    with pytest.raises(BadSecuritySetting, match=said) as refused:
        BrokerSecurity(config, None, VirtualClock(asyncio.new_event_loop()), find_scram)  # type: ignore[arg-type]
    assert "secret" not in str(refused.value)


def test_kafkas_own_handlers_are_what_mechanisms_do_anyway() -> None:
    own = {"plain": "plain.internals.Plain", "scram-sha-256": "scram.internals.Scram"}
    listener, package = "listener.name.sasl_plaintext", "org.apache.kafka.common.security"
    named = {f"{listener}.{one}.{HANDLER}": f"{package}.{name}ServerCallbackHandler" for one, name in own.items()}
    config = read_config([Given(*one, "test") for one in {**SETTINGS, **named}.items()])[0]
    BrokerSecurity(config, None, VirtualClock(asyncio.new_event_loop()), find_scram)  # type: ignore[arg-type]
