"""Listeners that are added, moved, told anew and removed while the broker runs, as Kafka's AlterConfigs has it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from odradek.aio import Admin
from odradek.broker.cluster.peer import BrokerUnreachable, Peer
from odradek.broker.config import ConfigError, Given, read_config
from odradek.broker.security.password_encoder import PasswordEncoder
from odradek.client.admin.values import ConfigResource, ResourceType
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.security.authority import Authority
from odradek.security.secure_network import ClientSecurity, SecureNetwork
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.znodes.brokers import BrokerRegistration
from odradek.zk_schema.znodes.configs import decode_config

PLAIN = "PLAINTEXT://broker-0:9092"
MAP = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT,SAFE:SASL_PLAINTEXT"


class Broker:
    """Broker 0 of two, changed by requests that come in by its first listener."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock, admin: Admin) -> None:
        self.cluster, self.clock, self._admin = cluster, clock, admin

    async def alter(self, broker: str = "0", **settings: str) -> None:
        given = {name.replace("_", "."): text for name, text in settings.items()}
        resource = ConfigResource(ResourceType.BROKER, broker, given)
        await self._admin.alter_configs([resource], raise_on_unknown=False)

    async def registered(self) -> list[str]:
        store = self.cluster.zookeeper.connect()
        await store.start(1000)
        data, _ = await store.get("/brokers/ids/0")
        await store.close()
        return [one.url for one in BrokerRegistration.decode(0, data).endpoints]

    async def until_registered(self, *urls: str) -> None:
        while await self.registered() != list(urls):
            await asyncio.sleep(0.05)

    def peer(self, port: int) -> Peer:
        return Peer(self.cluster.network.host("client"), self.clock, "broker-0", port, "c")

    async def addresses(self, peer: Peer) -> set[tuple[str, int]]:
        answer: Any = await peer.request(MetadataRequest(topics=[]), 9, 5000)
        return {(one.host, one.port) for one in answer.brokers}

    async def until_addresses(self, peer: Peer, *wanted: tuple[str, int]) -> None:
        while await self.addresses(peer) != set(wanted):
            await asyncio.sleep(0.05)


def play(scenario: Callable[[Broker], Awaitable[None]], overrides: dict[str, str] | None = None) -> None:
    async def main(clock: VirtualClock) -> None:
        async with (
            EmbeddedCluster(clock, 2, overrides) as cluster,
            Admin(bootstrap_servers="broker-0:9092", network=cluster.network.host("a"), clock=clock) as admin,
        ):
            await scenario(Broker(cluster, clock, admin))

    run_virtual(main)


def test_a_listener_is_added_moved_and_removed() -> None:
    async def scenario(broker: Broker) -> None:
        await broker.alter(listeners=f"{PLAIN},EXTRA://broker-0:9500", listener_security_protocol_map=MAP)
        await broker.until_registered(PLAIN, "EXTRA://broker-0:9500")
        extra = broker.peer(9500)
        await broker.until_addresses(extra, ("broker-0", 9500))
        epoch = broker.cluster.brokers[0].server.services.identity.broker_epoch
        await broker.alter(listeners=f"{PLAIN},EXTRA://broker-0:9501")
        await broker.until_registered(PLAIN, "EXTRA://broker-0:9501")
        assert await broker.addresses(extra), "connections of a listener that is moved go on"
        moved = broker.peer(9501)
        await broker.until_addresses(moved, ("broker-0", 9501))
        with pytest.raises(BrokerUnreachable):
            await broker.addresses(broker.peer(9500))
        await broker.alter(listeners=PLAIN)
        await broker.until_registered(PLAIN)
        for gone in (moved, broker.peer(9501)):
            with pytest.raises(BrokerUnreachable):
                await broker.addresses(gone)
        assert broker.cluster.brokers[0].server.services.identity.broker_epoch == epoch, "it is the same registration"

    play(scenario)


def test_names_are_looked_up_beside_the_loop_and_the_last_wish_counts() -> None:
    async def scenario(broker: Broker) -> None:
        listeners = broker.cluster.brokers[0].server._listeners
        asked: list[tuple[str, asyncio.Future[str]]] = []

        def look_up(host: str) -> asyncio.Future[str]:
            asked.append((host, asyncio.get_running_loop().create_future()))
            return asked[-1][1]

        listeners._address_of = look_up
        await broker.alter(listeners=f"{PLAIN},EXTRA://slow:9500", listener_security_protocol_map=MAP)
        while not asked:
            await asyncio.sleep(0.01)
        await broker.alter(listeners=f"{PLAIN},EXTRA://broker-0:9501")
        await asyncio.sleep(5)
        assert [host for host, _ in asked] == ["slow"], "one after another, and the broker has served meanwhile"
        asked[0][1].set_exception(OSError("the resolver is away"))
        while len(asked) < 2:
            await asyncio.sleep(0.01)
        asked[1][1].set_result("broker-0")
        await broker.until_registered(PLAIN, "EXTRA://broker-0:9501")
        await broker.addresses(broker.peer(9501))
        await broker.alter(listeners=f"{PLAIN},EXTRA://nobody:9502")
        while len(asked) < 3:
            await asyncio.sleep(0.01)
        asked[2][1].set_exception(OSError("no such name"))
        await asyncio.sleep(1)
        await broker.addresses(broker.peer(9501))
        assert await broker.registered() == [PLAIN, "EXTRA://broker-0:9501"], "what was before stays"

    play(scenario)


def test_a_listener_that_is_gone_is_closed_while_a_name_is_looked_up() -> None:
    """Its mechanisms went at once, its port did not: whoever came meanwhile was let in without proof."""

    async def scenario(broker: Broker) -> None:
        await broker.alter(
            listeners=f"{PLAIN},SAFE://broker-0:9600",
            listener_name_safe_sasl_enabled_mechanisms="SCRAM-SHA-256",
            listener_security_protocol_map=MAP,
        )
        await broker.until_registered(PLAIN, "SAFE://broker-0:9600")
        asked: list[tuple[str, asyncio.Future[str]]] = []

        def look_up(host: str) -> asyncio.Future[str]:
            asked.append((host, asyncio.get_running_loop().create_future()))
            return asked[-1][1]

        broker.cluster.brokers[0].server._listeners._address_of = look_up
        await broker.alter(listeners=f"{PLAIN},EXTRA://slow:9500", listener_security_protocol_map=MAP)
        while not asked:
            await asyncio.sleep(0.01)
        with pytest.raises(BrokerUnreachable):
            await broker.addresses(broker.peer(9600))
        asked[0][1].set_result("broker-0")
        await broker.until_registered(PLAIN, "EXTRA://slow:9500")

    play(scenario)


def test_what_is_advertised_reaches_clients_through_every_broker() -> None:
    async def scenario(broker: Broker) -> None:
        port = broker.cluster.brokers[1].address[1]
        other = Peer(broker.cluster.network.host("client"), broker.clock, "broker-1", port, "c")
        await broker.until_addresses(other, ("broker-0", 9092), ("broker-1", port))
        await broker.alter(advertised_listeners="PLAINTEXT://elsewhere:19092")
        await broker.until_registered("PLAINTEXT://elsewhere:19092")
        await broker.until_addresses(other, ("elsewhere", 19092), ("broker-1", port))
        other.close()

    play(scenario)


def test_a_listener_with_sasl_is_added_with_its_mechanisms() -> None:
    async def scenario(broker: Broker) -> None:
        with_users = {
            "listener_name_safe_sasl_enabled_mechanisms": "SCRAM-SHA-256",
            "listener_security_protocol_map": MAP,
        }
        await broker.alter(listeners=f"{PLAIN},SAFE://broker-0:9600", **with_users)
        await broker.until_registered(PLAIN, "SAFE://broker-0:9600")
        with pytest.raises(BrokerUnreachable):
            await broker.addresses(broker.peer(9600))
        look = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "u", "sasl.password": "p"}
        security = ClientSecurity.read("SASL_PLAINTEXT", look.get)
        network = SecureNetwork(broker.cluster.network.host("client"), broker.clock, security)
        with pytest.raises(OSError, match="invalid credentials"):
            await network.connect("broker-0", 9600)

    play(scenario)


def test_a_listener_whose_keys_are_not_known_is_not_opened() -> None:
    async def scenario(broker: Broker) -> None:
        await broker.alter(
            listeners=f"{PLAIN},SAFE://broker-0:9600",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SAFE:SSL",
        )
        while not broker.cluster.brokers[0].server.config.layers.dynamic_broker:
            await asyncio.sleep(0.05)
        assert broker.cluster.brokers[0].server.sockets.listeners == ["PLAINTEXT"]
        assert await broker.registered() == [PLAIN]

    play(scenario)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"listeners": f"{PLAIN},EXTRA://broker-0:9500"}, "EXTRA"),
        (
            {"listeners": "EXTRA://broker-0:9500", "listener_security_protocol_map": MAP},
            "not the name of an adv",
        ),
        ({"advertised_listeners": "EXTRA://broker-0:1", "listener_security_protocol_map": MAP}, "is not in listeners"),
        ({"listener_security_protocol_map": "PLAINTEXT:SASL_PLAINTEXT"}, "which exists, cannot be changed"),
        ({"advertised_listeners": "PLAINTEXT://:9092"}, "name the host"),
        ({"inter_broker_listener_name": "PLAINTEXT"}, "Cannot update these configs dynamically"),
        ({"listener_name_plaintext_ssl_engine_factory_class": "a.B"}, "refused, Java classes cannot be loaded"),
    ],
)
def test_what_is_refused(settings: dict[str, str], said: str) -> None:
    async def scenario(broker: Broker) -> None:
        with pytest.raises(KafkaError, match=f"INVALID_REQUEST.*{said}"):
            await broker.alter(**settings)
        assert await broker.registered() == [PLAIN]

    play(scenario)


def test_an_address_of_another_broker_is_refused() -> None:
    """It was advertised, and the broker would not have started with it any more."""

    async def scenario(broker: Broker) -> None:
        host, port = broker.cluster.brokers[1].address
        with pytest.raises(KafkaError, match=r"INVALID_REQUEST.*PLAINTEXT is the address of broker 1"):
            await broker.alter(advertised_listeners=f"PLAINTEXT://{host}:{port}")
        assert await broker.registered() == [PLAIN]
        await broker.alter(advertised_listeners=f"PLAINTEXT://{host}:{port + 1}")
        await broker.until_registered(f"PLAINTEXT://{host}:{port + 1}")

    play(scenario)


def test_listeners_are_a_brokers_own() -> None:
    async def scenario(broker: Broker) -> None:
        for name in ("listeners", "advertised_listeners"):
            with pytest.raises(KafkaError, match="broker id must be specified"):
                await broker.alter("", **{name: PLAIN})

    play(scenario)


def test_a_listener_with_tls_is_added_and_its_key_is_kept_encrypted() -> None:
    authority = Authority("Test CA")
    pair = authority.issue("broker-0", hosts=["broker-0"])
    look = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate.public_bytes(Encoding.PEM).decode(),
        "ssl.endpoint.identification.algorithm": "https",
    }

    async def scenario(broker: Broker) -> None:
        await broker.alter(
            listeners=f"{PLAIN},SAFE://broker-0:9600",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SAFE:SSL",
            listener_name_safe_ssl_keystore_type="PEM",
            listener_name_safe_ssl_keystore_key=pair.key_pem().decode(),
            listener_name_safe_ssl_keystore_certificate_chain=pair.chain_pem().decode(),
        )
        await broker.until_registered(PLAIN, "SAFE://broker-0:9600")
        await broker.alter(log_retention_ms="86400000")  # the others are read, and written again
        store = broker.cluster.zookeeper.connect()
        await store.start(1000)
        data, _ = await store.get("/config/brokers/0")
        assert b"86400000" in data and b"encryptedPassword" in data and b"PRIVATE" not in data
        for unreadable in ("rubbish", "secret".join(pair.key_pem().decode().splitlines(True)[::2])):
            with pytest.raises(KafkaError, match=r"INVALID_REQUEST.*ssl\.keystore\.key: no private key") as refused:
                await broker.alter(listener_name_safe_ssl_keystore_key=unreadable)
            assert "secret" not in str(refused.value) and "rubbish" not in str(refused.value)
        assert (await store.get("/config/brokers/0"))[0] == data, "the next start would have had no keys"
        security = ClientSecurity.read("SSL", look.get)
        network = SecureNetwork(broker.cluster.network.host("client"), broker.clock, security)
        for life in range(2):
            peer = Peer(network, broker.clock, "broker-0", 9600, "c")
            await broker.until_addresses(peer, ("broker-0", 9600))
            peer.close()
            if not life:
                await broker.cluster.brokers[0].stop()
                secrets = {"password.encoder.secret": "another", "password.encoder.old.secret": "a secret"}
                broker.cluster.overrides.update(secrets)
                await broker.cluster.brokers[0].start()
        kept = decode_config("/config/brokers/0", (await store.get("/config/brokers/0"))[0])
        key = kept["listener.name.safe.ssl.keystore.key"]
        assert PasswordEncoder("another").decode(key) == pair.key_pem().decode(), "written anew at the start"

    play(scenario, {"password.encoder.secret": "a secret"})


def test_a_key_store_that_is_replaced_under_its_name_is_read_when_somebody_sets_it_again(tmp_path: Path) -> None:
    """The former certificate was served until it expired, and the broker was started anew."""
    store = tmp_path / "broker.pem"

    def written() -> str:
        authority = Authority("Test CA")
        pair = authority.issue("broker-0", hosts=["broker-0"])
        store.write_text(pair.key_pem().decode() + pair.chain_pem().decode())
        return authority.certificate.public_bytes(Encoding.PEM).decode()

    async def served(broker: Broker, trusted: str) -> None:
        look = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted}
        network = SecureNetwork(
            broker.cluster.network.host("client"), broker.clock, ClientSecurity.read("SSL", look.get)
        )
        peer = Peer(network, broker.clock, "broker-0", 9600, "c")
        await broker.until_addresses(peer, ("broker-0", 9600))
        peer.close()

    async def scenario(broker: Broker) -> None:
        first = written()
        settings = {
            "listeners": f"{PLAIN},SAFE://broker-0:9600",
            "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,SAFE:SSL",
            "listener_name_safe_ssl_keystore_type": "PEM",
            "listener_name_safe_ssl_keystore_location": str(store),
        }
        await broker.alter(**settings)
        await broker.until_registered(PLAIN, "SAFE://broker-0:9600")
        await served(broker, first)
        second = written()
        await broker.alter(**settings)
        await asyncio.sleep(1)
        await served(broker, second)

    play(scenario)


def test_the_controller_has_a_listener_of_its_own() -> None:
    """control.plane.listener.name (KIP-291), with a protocol of its own."""
    overrides = {
        "listeners": "PLAINTEXT://broker-{}:9092,CONTROL://broker-{}:9193",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:SASL_PLAINTEXT",
        "control.plane.listener.name": "control",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.control.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.control.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        'required username="controller" password="c" user_controller="c";',
    }

    async def scenario(broker: Broker) -> None:
        await broker.until_addresses(broker.peer(9092), ("broker-0", 9092), ("broker-1", 9092))
        for each in broker.cluster.brokers:
            sockets = each.server.sockets
            assert sockets.accepted["CONTROL"] == 1, "the controller"

    play(scenario, overrides)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"control.plane.listener.name": "OTHER"}, "is not the name of an advertised listener"),
        ({"control.plane.listener.name": "plaintext"}, "must be another listener than the one between brokers"),
    ],
)
def test_a_control_plane_is_a_listener_of_its_own(settings: dict[str, str], said: str) -> None:
    given = {"zookeeper.connect": "z:2181", "broker.id": "0", "listeners": "PLAINTEXT://b:9092", **settings}
    with pytest.raises(ConfigError, match=said):
        read_config([Given(name, text, "test") for name, text in given.items()])
