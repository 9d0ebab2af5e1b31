"""A listener with TLS: requests behind a handshake, whom they speak for, and who does not come through."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from odradek.broker.config import Given, read_config
from odradek.broker.network.entrance import Entrance
from odradek.broker.network.limits import AUTHENTICATION_MS_MAX, UNAUTHENTICATED_MAX
from odradek.broker.security.listener_security import BrokerSecurity, settings_of
from odradek.broker.settings.network_settings import ConnectionSettings
from odradek.security.authority import Authority
from odradek.security.errors import BadSecuritySetting
from odradek.security.secure_network import ClientSecurity, SecureNetwork
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.network import Endpoint
from tests.broker.security.sasl_listener import PLAIN_JAAS

AUTHORITY = Authority("Test CA")
BROKER = AUTHORITY.issue("broker", hosts=["broker"])
ALICE = AUTHORITY.issue("alice", organization="Flights")
STRANGER = Authority("Another CA").issue("stranger")
TRUST = {
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": AUTHORITY.certificate.public_bytes(Encoding.PEM).decode(),
}


def shown(pair: Any) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": pair.key_pem().decode(),
        "ssl.keystore.certificate.chain": pair.chain_pem().decode(),
    }


def config(**changes: str) -> Any:
    settings = {
        "zookeeper.connect": "z:2181",
        "broker.id": "0",
        "listeners": "SSL://broker:9093",
        "security.inter.broker.protocol": "SSL",
        **shown(BROKER),
        **TRUST,
        **{name.replace("_", "."): value for name, value in changes.items()},
    }
    return read_config([Given(name, text, "test") for name, text in settings.items()])[0]


CLIENTS = {
    "listeners": "SSL://broker:9093,PLAINTEXT://broker:9092",
    "security.inter.broker.protocol": "PLAINTEXT",
}
"""Settings with which brokers have a listener of their own."""


def clients_config(**changes: str) -> Any:
    return config(**{**CLIENTS, **changes})


Scenario = Callable[[Any, Any], Awaitable[None]]


@pytest.fixture
def play(make_harness: Any) -> Callable[..., None]:
    """Runs a scenario with a harness that has a TLS listener, and the broker's security; keywords are its settings."""

    def run(scenario: Scenario, **changes: str) -> None:
        async def main(clock: VirtualClock) -> None:
            harness = make_harness(clock, ConnectionSettings())
            security = BrokerSecurity(config(**changes), harness.network.host("broker"), clock, lambda *names: None)
            harness.server.entrance = Entrance(clock, security.listener, 100)
            harness.secure_port = harness.server.listen("SSL", "broker", 0)
            await scenario(harness, security)
            harness.server.close()
            await harness.settle()
            assert harness.server.connections == 0

        run_virtual(main)

    return run


async def endpoint_to(harness: Any, **settings: Any) -> Endpoint:
    security = ClientSecurity.read("SSL", {**TRUST, **settings}.get)
    network = SecureNetwork(harness.network.host("client"), harness.clock, security)
    return await network.connect("broker", harness.secure_port)


async def connect(harness: Any, **settings: Any) -> Any:
    raw_client = type(await harness.connect())
    return raw_client(await endpoint_to(harness, **settings))


def test_requests_behind_tls(play: Any) -> None:
    async def scenario(harness: Any, security: Any) -> None:
        client = await connect(harness)
        whole = b"".join(client.heartbeat("", number) for number in range(300))
        await client.send(whole)
        assert [await client.number() for _ in range(300)] == list(range(300))
        assert str(harness.handlers.contexts[-1].principal) == "User:ANONYMOUS"
        await client.send(client.heartbeat("wait", 1) + client.heartbeat("close", 2))
        await harness.settle()
        harness.finish(1)
        assert [await client.number(), await client.number()] == [1, 2]
        assert await client.end() == b""
        assert harness.server.authentications == {("SSL", "successful-authentication-total"): 1}

    play(scenario)


@pytest.mark.parametrize(
    ("rules", "name"), [("DEFAULT", "CN=alice,O=Flights"), ("RULE:^CN=(.*?),O=Flights$/$1/", "alice")]
)
def test_a_certificate_says_who_asks(play: Any, rules: str, name: str) -> None:
    async def scenario(harness: Any, security: Any) -> None:
        client = await connect(harness, **shown(ALICE))
        await client.send(client.heartbeat("", 1))
        assert await client.number() == 1
        assert harness.handlers.contexts[-1].principal == ("User", name)

    play(scenario, ssl_client_auth="required", ssl_principal_mapping_rules=rules)


def test_who_shows_no_certificate_is_refused_after_a_while(play: Any, caplog: Any) -> None:
    async def scenario(harness: Any, security: Any) -> None:
        client = await connect(harness)
        await client.end()
        await harness.settle(80)
        assert harness.server.connections == 2
        await harness.settle(40)
        assert harness.server.connections == 1
        assert harness.handlers.handled == []
        assert "TLS handshake failed: peer did not return a certificate" in caplog.text

    play(scenario, ssl_client_auth="required")


@pytest.mark.parametrize(
    ("certificate", "said"),
    [
        ({}, "certificate required (the other side wants a certificate of us)"),
        (shown(STRANGER), "unknown ca (the other side does not accept our certificate)"),
    ],
)
def test_a_client_that_is_refused_after_its_own_handshake_is_told_why_in_words(
    play: Any, certificate: dict[str, str], said: str
) -> None:
    """With TLS 1.3. It was `[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert … (_ssl.c:2580)`."""

    async def scenario(harness: Any, security: Any) -> None:
        endpoint = await endpoint_to(harness, **certificate)
        await harness.settle()
        with pytest.raises(ssl.SSLError) as refused:
            endpoint.receive_into(memoryview(bytearray(100)))
        endpoint.close()
        assert str(refused.value).startswith("TLS failed: tls") and str(refused.value).endswith(said)

    play(scenario, ssl_client_auth="required")


def test_plain_bytes_on_a_tls_port_are_refused(play: Any, caplog: Any) -> None:
    async def scenario(harness: Any, security: Any) -> None:
        client = await harness.connect(port=harness.secure_port)
        await client.send(client.heartbeat("", 1) + bytes(1000))
        await client.end()
        assert harness.handlers.handled == []
        assert "TLS handshake failed: wrong version number (the other side does not speak TLS here)" in caplog.text
        await harness.settle()
        assert harness.server.authentications == {("SSL", "failed-authentication-total"): 1}

    play(scenario)


@pytest.mark.parametrize("sent", [0, 1, 5, 100])
def test_who_stalls_in_the_handshake_is_closed(play: Any, sent: int) -> None:
    async def scenario(harness: Any, security: Any) -> None:
        client = await harness.connect(port=harness.secure_port)
        await client.send((b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(1000))[:sent])
        await harness.settle(AUTHENTICATION_MS_MAX - 1000)
        assert not client.ended
        await harness.settle(2000)
        assert client.ended

    play(scenario)


def test_only_so_many_may_stall_at_once(play: Any) -> None:
    async def scenario(harness: Any, security: Any) -> None:
        clients = [await harness.connect(port=harness.secure_port) for _ in range(UNAUTHENTICATED_MAX + 3)]
        await harness.settle()
        assert [client.ended for client in clients[:4]] == [True, True, True, False]
        assert harness.server.connections == UNAUTHENTICATED_MAX
        done = await connect(harness)
        await done.send(done.heartbeat("", 5))
        assert await done.number() == 5, "who comes through is served"

    play(scenario)


def test_where_one_has_to_log_in_besides_a_handshake_lets_nobody_in(play: Any) -> None:
    async def scenario(harness: Any, security: Any) -> None:
        stalled, asking = await connect(harness), await connect(harness)
        await asking.send(asking.heartbeat("", 1))
        assert await asking.end() == b"" and harness.handlers.handled == []
        assert harness.server.authentications == {("SSL", "failed-authentication-total"): 1}
        await harness.settle(AUTHENTICATION_MS_MAX)
        assert stalled.ended

    changes = {
        **CLIENTS,
        "listener.security.protocol.map": "SSL:SASL_SSL,PLAINTEXT:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.ssl.plain.sasl.jaas.config": PLAIN_JAAS,
    }
    play(scenario, **changes)


def test_keys_are_replaced_for_connections_to_come(play: Any) -> None:
    other = Authority("Next CA")

    async def scenario(harness: Any, security: Any) -> None:
        before = await connect(harness)
        security.configure(clients_config(**shown(other.issue("broker", hosts=["broker"]))))
        await before.send(before.heartbeat("", 1))
        assert await before.number() == 1
        pem = other.certificate.public_bytes(Encoding.PEM).decode()
        after = await connect(harness, **{"ssl.truststore.certificates": pem})
        await after.send(after.heartbeat("", 2))
        assert await after.number() == 2
        with pytest.raises(BadSecuritySetting):
            security.configure(clients_config(ssl_client_auth="required", ssl_keystore_key="nonsense"))
        assert await connect(harness, **{"ssl.truststore.certificates": pem}), "what was before stays"

    play(scenario, **CLIENTS)


def test_brokers_do_not_take_keys_with_which_they_could_not_connect_to_each_other(play: Any) -> None:
    """They did, and followers fell behind from their next connection on. Both keys and what is trusted may change,
    but not at once: others have the former ones for a while (SslFactory.SslEngineValidator)."""
    other = Authority("Next CA")
    next_keys = shown(other.issue("broker", hosts=["broker"]))
    next_trust = {**TRUST, "ssl.truststore.certificates": other.certificate.public_bytes(Encoding.PEM).decode()}
    both = {
        **TRUST,
        "ssl.truststore.certificates": "".join(one["ssl.truststore.certificates"] for one in (TRUST, next_trust)),
    }

    async def scenario(harness: Any, security: Any) -> None:
        in_use = security.listener("SSL")
        for refused in (next_keys, {**next_keys, **next_trust}, {**next_keys, **both}, next_trust):
            with pytest.raises(BadSecuritySetting, match="could not connect to each other"):
                security.configure(config(**refused))
        assert security.listener("SSL") is in_use
        for taken in (both, {**both, **next_keys}, {**next_trust, **next_keys}):
            security.configure(config(**taken))

    play(scenario)


def test_a_renewed_certificate_is_of_the_same_name_unless_another_is_allowed(play: Any) -> None:
    """Access lists name it: a broker under another name would be nobody to the others (KIP-978)."""
    renamed, moved = AUTHORITY.issue("broker-2", hosts=["broker"]), AUTHORITY.issue("broker", hosts=["elsewhere"])
    more = AUTHORITY.issue("Broker", hosts=["broker", "elsewhere"])

    async def scenario(harness: Any, security: Any) -> None:
        with pytest.raises(BadSecuritySetting, match=r"CN=broker-2 .* CN=broker .*ssl\.allow\.dn\.changes"):
            security.configure(config(**shown(renamed)))
        with pytest.raises(BadSecuritySetting, match=r"ssl\.allow\.san\.changes"):
            security.configure(config(**shown(moved)))
        security.configure(config(**shown(more)))
        security.configure(config(**shown(renamed), ssl_allow_dn_changes="true", ssl_allow_san_changes="true"))

    play(scenario)


def test_a_listeners_own_settings_come_before_the_brokers() -> None:
    look = settings_of(config(**{"listener.name.ssl.ssl.client.auth": "required", "ssl.protocol": "TLSv1.2"}), "SSL")
    assert (look("ssl.client.auth"), look("ssl.protocol")) == ("required", "TLSv1.2")
    assert settings_of(config(), "SSL")("ssl.client.auth") == "none"


@pytest.mark.parametrize(
    ("changes", "verified"),
    [
        ({"ssl.client.auth": "required"}, ssl.CERT_NONE),
        ({"ssl.client.auth": "required", "listener.name.login.ssl.client.auth": "requested"}, ssl.CERT_OPTIONAL),
        ({"listener.name.login.ssl.client.auth": "required"}, ssl.CERT_REQUIRED),
    ],
)
def test_who_logs_in_shows_a_certificate_only_where_the_listener_itself_asks_for_one(
    changes: dict[str, str], verified: ssl.VerifyMode
) -> None:
    """The broker's own ssl.client.auth is for SSL listeners: clients of SASL_SSL were refused by it (KIP-684)."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=a;"
    asked = config(
        **{
            "listeners": "SSL://broker:9093,LOGIN://broker:9094",
            "listener.security.protocol.map": "SSL:SSL,LOGIN:SASL_SSL",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": login,
            **changes,
        }
    )
    security = BrokerSecurity(asked, None, VirtualClock(asyncio.new_event_loop()), lambda *names: None)  # type: ignore[arg-type]
    of_login, of_tls = security.listener("LOGIN"), security.listener("SSL")
    assert of_login and of_login.tls and of_login.tls.context.verify_mode is verified
    expected = ssl.CERT_REQUIRED if "ssl.client.auth" in changes else ssl.CERT_NONE
    assert of_tls and of_tls.tls and of_tls.tls.context.verify_mode is expected
