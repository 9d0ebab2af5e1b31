"""Keys that were changed while a broker ran: with them it starts, whatever its file says (KIP-226)."""

import asyncio
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from odradek.aio import Admin
from odradek.broker.server import StartFailure
from odradek.client.admin.values import ConfigResource, ResourceType
from odradek.security import authority
from odradek.security.authority import Authority
from odradek.security.key_stores import KeyPair
from odradek.security.secure_network import ClientSecurity, SecureNetwork
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual

PREFIX = "listener.name.inside.ssl."


def shown(pair: KeyPair) -> dict[str, str]:
    return {
        f"{PREFIX}keystore.type": "PEM",
        f"{PREFIX}keystore.key": pair.key_pem().decode(),
        f"{PREFIX}keystore.certificate.chain": pair.chain_pem().decode(),
    }


def trusted(*authorities: Authority) -> dict[str, str]:
    pem = "".join(one.certificate.public_bytes(Encoding.PEM).decode() for one in authorities)
    return {f"{PREFIX}truststore.type": "PEM", f"{PREFIX}truststore.certificates": pem}


def issued(by: Authority) -> KeyPair:
    return by.issue("brokers", hosts=["broker-0", "broker-1"])


def in_file(pair: KeyPair, *authorities: Authority) -> dict[str, str]:
    return {
        "listeners": "PLAINTEXT://broker-{}:9092,INSIDE://broker-{}:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SSL",
        "inter.broker.listener.name": "INSIDE",
        "password.encoder.secret": "a secret",
        **shown(pair),
        **trusted(*authorities),
    }


async def changed(admin: Admin, settings: dict[str, str]) -> None:
    for broker in ("0", "1"):
        await admin.alter_configs([ConfigResource(ResourceType.BROKER, broker, settings)], raise_on_unknown=False)


async def served(cluster: EmbeddedCluster, clock: VirtualClock, by: Authority) -> None:
    """Return when broker 0 shows a certificate of that authority."""
    look: dict[str, Any] = {one.replace(PREFIX, "ssl."): text for one, text in trusted(by).items()}
    network = SecureNetwork(cluster.network.host("client"), clock, ClientSecurity.read("SSL", look.get))
    while True:
        try:
            (await network.connect("broker-0", 9093)).close()
            return
        except OSError:
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("expired", [False, True])
def test_a_broker_starts_with_the_keys_that_it_was_given_last(
    *, expired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were compared with those of its file, which the others do not trust any more: it went on with the latter,
    and was alone. If the certificate in the file had expired it did not start."""
    first, second = Authority("First CA"), Authority("Second CA")

    async def main(clock: VirtualClock) -> None:
        cluster = EmbeddedCluster(clock, 2, in_file(issued(first), first))
        admin = Admin(bootstrap_servers="broker-1:9092", network=cluster.network.host("a"), clock=clock)
        async with cluster, admin:
            await changed(admin, trusted(first, second))
            await changed(admin, shown(issued(second)))
            await changed(admin, trusted(second))
            await served(cluster, clock, second)
            await cluster.brokers[0].stop()
            if expired:
                monkeypatch.setattr(authority, "DEFAULT_DAYS", -0.01)
                cluster.overrides.update(shown(issued(first)))
            await cluster.brokers[0].start()
            async with asyncio.timeout(60):
                await served(cluster, clock, second)

    run_virtual(main)


def test_a_broker_does_not_start_with_keys_that_no_other_would_trust() -> None:
    first, second = Authority("First CA"), Authority("Second CA")

    async def main(clock: VirtualClock) -> None:
        cluster = EmbeddedCluster(clock, 1, in_file(issued(second), first))
        with pytest.raises(StartFailure, match="could not connect to each other"):
            await cluster.brokers[0].start()

    run_virtual(main)
