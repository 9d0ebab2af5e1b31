"""Clients and brokers authenticate again before a SASL session ends (KIP-368), on the same connection."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from odradek.aio import Admin, Consumer, Producer
from odradek.broker.cluster.peer import BrokerUnreachable, Peer
from odradek.client.admin.values import NewTopic
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.security.scram import encode_credential, new_credential
from odradek.security.secure_network import ClientSecurity, SecureNetwork
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.znodes.configs import encode_config

SESSION_MS = 3000
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISM = "SCRAM-SHA-256"
USER = {"sasl.mechanism": MECHANISM, "sasl.username": "u", "sasl.password": "secret"}
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": MECHANISM,
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f'{MODULE} required username="u" password="secret";',
    "connections.max.reauth.ms": str(SESSION_MS),
    "min.insync.replicas": "2",
}


class Torn:
    """An endpoint that takes and gives a few bytes at a time, and now and then none."""

    def __init__(self, endpoint: Any, chance: random.Random) -> None:
        self._endpoint, self._chance = endpoint, chance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._endpoint, name)

    def receive_into(self, buffer: memoryview, /) -> int:
        count: int = self._endpoint.receive_into(buffer[: self._chance.randint(1, 30)])
        return count

    def send(self, data: Any, *, more: bool = False) -> int:
        if self._chance.random() < 0.2:
            raise BlockingIOError
        count: int = self._endpoint.send(memoryview(data)[: self._chance.randint(1, 30)])
        return count


class TornNetwork:
    """Makes such connections."""

    def __init__(self, network: Any, seed: int) -> None:
        self._network, self._chance = network, random.Random(seed)

    async def connect(self, host: str, port: int) -> Any:
        return Torn(await self._network.connect(host, port), self._chance)


async def users(cluster: EmbeddedCluster, *, password: str = "secret") -> None:
    store = cluster.zookeeper.connect()
    await store.start(1000)
    data = encode_config({MECHANISM: encode_credential(new_credential(MECHANISM, password, b"some salt", 4096))})
    await store.create("/config/users/u", data, parents=True)


def accepted(cluster: EmbeddedCluster) -> list[int]:
    return [broker.server.sockets.accepted.total() for broker in cluster.brokers]


def test_clients_and_brokers_keep_their_connections_beyond_the_session() -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = EmbeddedCluster(clock, 2, SETTINGS)
        await users(cluster)
        look: dict[str, Any] = {
            "bootstrap_servers": "broker-0:9092",
            "security_protocol": "SASL_PLAINTEXT",
            "network": cluster.network.host("client"),
            "clock": clock,
            **{name.replace(".", "_"): text for name, text in USER.items() if name != "sasl.username"},
            "sasl_plain_username": "u",
            "sasl_plain_password": "secret",
        }
        look.pop("sasl_password")
        async with cluster, Admin(**look) as admin, Producer(**look) as producer:
            await admin.create_topics([NewTopic("t", num_partitions=1, replication_factor=2)])
            async with Consumer("t", auto_offset_reset="earliest", group_id="g", **look) as consumer:
                before: list[int] = []
                for number in range(24):
                    await (await producer.send("t", str(number).encode()))
                    assert (await anext(consumer)).value == str(number).encode()
                    await asyncio.sleep(SESSION_MS / 1000 / 7)
                    if number == 3:
                        before = accepted(cluster)
                assert accepted(cluster) == before, "somebody has connected anew"

    run_virtual(main)


@pytest.mark.parametrize("seed", range(2))
def test_frames_in_any_pieces(seed: int) -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = EmbeddedCluster(clock, 1, {**SETTINGS, "min.insync.replicas": "1"})
        await users(cluster)
        async with cluster:
            security = ClientSecurity.read("SASL_PLAINTEXT", USER.get)
            torn: Any = TornNetwork(cluster.network.host("client"), seed)
            peer = Peer(SecureNetwork(torn, clock, security), clock, "broker-0", cluster.port, "torn")
            request = MetadataRequest(topics=[])
            await peer.request(request, 9, 60_000)
            before = accepted(cluster)
            for _ in range(20):
                answers = await asyncio.gather(*(peer.request(request, 9, 60_000) for _ in range(5)))
                assert len({str(one) for one in answers}) == 1
                await asyncio.sleep(0.5)
            assert accepted(cluster) == before
            peer.close()

    run_virtual(main)


def play(change: Callable[[EmbeddedCluster], Any]) -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = EmbeddedCluster(clock, 1, {**SETTINGS, "min.insync.replicas": "1"})
        await users(cluster)
        async with cluster:
            security = ClientSecurity.read("SASL_PLAINTEXT", USER.get)
            network = SecureNetwork(cluster.network.host("client"), clock, security)
            peer = Peer(network, clock, "broker-0", cluster.port, "u")
            await peer.request(MetadataRequest(topics=[]), 9, 10_000)
            change(cluster)
            await peer.request(MetadataRequest(topics=[]), 9, 10_000)
            await asyncio.sleep(SESSION_MS / 1000)
            with pytest.raises(BrokerUnreachable, match=r"SCRAM-SHA-256, again: .*invalid credentials"):
                await peer.request(MetadataRequest(topics=[]), 9, 10_000)
            peer.close()

    run_virtual(main)


def test_a_user_who_is_gone_is_told_so_when_the_session_ends() -> None:
    play(lambda cluster: cluster.brokers[0].server.setting_changes.credentials.set_user("u", {}))
