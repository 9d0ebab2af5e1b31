"""Clients on TLS: their settings, and requests through it."""

import random
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from odradek.client.cluster import Cluster
from odradek.client.config import AdminConfig, load
from odradek.client.connection import secured
from odradek.client.errors import ConfigError, NoBrokerReachable
from odradek.security.authority import Authority
from odradek.security.tls_context import TlsSettings, server_context
from odradek.security.tls_endpoint import TlsEndpoint, new_staging
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import HostNetwork, VirtualNetwork
from odradek.world.network import Listener

AUTHORITY = Authority("Test CA")
CA_PEM = AUTHORITY.certificate.public_bytes(Encoding.PEM).decode()
BROKER = AUTHORITY.issue("broker", hosts=["broker"])


def config(**settings: Any) -> AdminConfig:
    return load(AdminConfig, None, {"bootstrap_servers": "broker:9092", "client_id": "test", **settings})


class TlsHost(HostNetwork):
    """A host whose ports speak TLS."""

    def __init__(self, network: VirtualNetwork, clock: VirtualClock) -> None:
        super().__init__(network, "broker")
        keys = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": BROKER.key_pem().decode(),
            "ssl.keystore.certificate.chain": BROKER.chain_pem().decode(),
        }
        self._context, self._clock = server_context(TlsSettings.read(lambda name: keys.get(name))), clock

    def listen(self, host: str, port: int, accepted: Any) -> Any:
        def inside(endpoint: Any) -> None:
            accepted(TlsEndpoint(endpoint, self._context, self._clock, new_staging(), server_side=True))

        listener: Listener = super().listen(host, port, inside)
        return listener


class Hosts:
    """A virtual network in which scripted brokers speak TLS."""

    def __init__(self, network: VirtualNetwork, clock: VirtualClock) -> None:
        self._network, self._clock = network, clock

    def host(self, name: str) -> TlsHost:
        return TlsHost(self._network, self._clock)


@pytest.mark.parametrize(
    "trust",
    [
        {"ssl_truststore_type": "PEM", "ssl_truststore_certificates": CA_PEM},
        {"ssl_cafile": "ca.pem"},
        {"ssl_context": "own"},
    ],
)
def test_requests_through_tls(scripted_broker: Any, tmp_path: Path, trust: dict[str, Any]) -> None:
    settings = dict(trust)
    if "ssl_cafile" in trust:
        settings["ssl_cafile"] = str(tmp_path / "ca.pem")
        (tmp_path / "ca.pem").write_text(CA_PEM)
    if "ssl_context" in trust:
        settings["ssl_context"] = ssl.create_default_context(cadata=CA_PEM)

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        scripted_broker(Hosts(network, clock))
        cluster = Cluster(network.host("client"), clock, random.Random(0), config(security_protocol="SSL", **settings))
        await cluster.refresh()
        assert [node.host for node in cluster.view.nodes.values()] == ["broker"]
        cluster.close()

    run_virtual(main)


def test_a_broker_that_is_not_believed_is_named_with_the_reason(scripted_broker: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        scripted_broker(Hosts(network, clock))
        other = Authority("Another").certificate.public_bytes(Encoding.PEM).decode()
        settings = config(security_protocol="SSL", ssl_truststore_type="PEM", ssl_truststore_certificates=other)
        cluster = Cluster(network.host("client"), clock, random.Random(0), settings)
        with pytest.raises(NoBrokerReachable, match="certificate not accepted: self-signed certificate in"):
            await cluster.refresh()
        cluster.close()

    run_virtual(main)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ssl_cafile": "/nowhere/ca.pem"}, "ssl.truststore.location: /nowhere/ca.pem: No such file"),
        ({"ssl_context": "default"}, "ssl.context must be an ssl.SSLContext, not str"),
        ({"ssl_keystore_type": "PEM", "ssl_keystore_key": "hush"}, "ssl.keystore.key: goes together"),
        ({"ssl_endpoint_identification_algorithm": "ldap"}, "is not https"),
    ],
)
def test_settings_that_cannot_be_obeyed(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        secured(VirtualNetwork.host, None, config(security_protocol="SSL", **settings))  # type: ignore[arg-type]
    assert "hush" not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    shown = repr(config(ssl_keystore_password="hush", ssl_key_password="hush", ssl_keystore_key="hush"))
    assert "hush" not in shown and "bootstrap_servers" in shown
    with pytest.raises(ConfigError, match=r"ssl\.key\.password must be text, not int") as refused:
        config(ssl_key_password=4711)
    assert "4711" not in str(refused.value)
