"""A broker with a SASL listener, on a virtual clock and network, and clients that log in there."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from odradek.broker.config import Given, read_config
from odradek.broker.network.entrance import Entrance
from odradek.broker.requests import sasl_authenticate, sasl_handshake
from odradek.broker.requests.dispatch import Dispatcher
from odradek.broker.requests.registry import served_versions
from odradek.broker.security.listener_security import BrokerSecurity
from odradek.broker.security.scram_credentials import Credentials
from odradek.broker.settings.network_settings import ConnectionSettings
from odradek.protocol.headers import decode_response
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.security.scram import encode_credential, new_credential
from odradek.security.secure_network import ClientSecurity, SecureNetwork
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
        assert harness.server.connections == 0 and not harness.server._entering_bytes

    run_virtual(main)


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
