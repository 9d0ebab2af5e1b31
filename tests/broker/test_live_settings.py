"""Settings that are changed while a broker runs: asked for by a client, obeyed by whoever has to."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.broker.cluster.peer import BrokerUnreachable, Peer
from odradek.broker.config import BrokerConfig
from odradek.broker.setting_changes import LiveSettings
from odradek.broker.settings.catalog import BROKER_SETTINGS
from odradek.broker.settings.definition import Setting, UpdateMode, ValueType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.usual_requests import create_topic_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual

BROKER = 4
LIVE = sorted(
    name
    for name, setting in BROKER_SETTINGS.items()
    if setting.live and setting.update_mode is not UpdateMode.PER_BROKER
)
"""Those of single listeners, which are about security, have tests of their own."""
OTHER_VALUES = {
    "log.cleaner.dedupe.buffer.size": "200000000",
    "log.cleaner.io.buffer.load.factor": "0.8",
    "log.cleaner.min.cleanable.ratio": "0.8",
    "log.cleanup.policy": "compact",
    "log.message.timestamp.type": "LogAppendTime",
    "compression.gzip.level": "5",
    "compression.type": "zstd",
    "max.connections.per.ip.overrides": "elsewhere:5",
    "max.connections": "1000",
    "log.message.timestamp.difference.max.ms": "1000",
    "log.message.timestamp.before.max.ms": "1000",
    "log.message.timestamp.after.max.ms": "1000",
    "log.cleaner.max.compaction.lag.ms": "1000",
    "log.flush.interval.messages": "1000",
    "max.connections.per.ip": "1000",
    "max.connection.creation.rate": "1000",
    "log.cleaner.io.max.bytes.per.second": "1.0E7",
}


def other_value(setting: Setting) -> str:
    """A value that is not the default."""
    if setting.name in OTHER_VALUES:
        return OTHER_VALUES[setting.name]
    if setting.type is ValueType.BOOLEAN:
        return "false" if setting.default == "true" else "true"
    return str(int(setting.default or 5000) + 1)


async def settled(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.1)


async def alter(cluster: EmbeddedCluster, broker_id: int, name: str, text: str, resource: str = "") -> tuple[int, str]:
    """Ask a broker to change one setting, of all brokers unless `resource` names one; the answer's error."""
    peer = Peer(cluster.network.host("admin"), cluster.clock, f"broker-{broker_id}", cluster.port, "admin")
    change = AlterableConfig(name=name, config_operation=0, value=text)
    asked = AlterConfigsResource(resource_type=BROKER, resource_name=resource, configs=[change])
    answer: Any = await peer.request(IncrementalAlterConfigsRequest(resources=[asked]), 1, 10_000)
    peer.close()
    return answer.responses[0].error_code, answer.responses[0].error_message


def play(scenario: Callable[[EmbeddedCluster], Coroutine[Any, Any, None]], brokers: int = 1, **overrides: str) -> None:
    async def main(clock: VirtualClock) -> None:
        settings = {name.replace("_", "."): text for name, text in overrides.items()}
        async with EmbeddedCluster(clock, brokers, settings) as cluster:
            await scenario(cluster)

    run_virtual(main)


def connected(broker: EmbeddedBroker) -> int:
    return broker.server.sockets.connections


def test_whatever_is_said_to_change_live_has_somebody_who_applies_it(monkeypatch: pytest.MonkeyPatch) -> None:
    called: Counter[str] = Counter()
    register = LiveSettings.register

    def recording(live: LiveSettings, applier: str, apply: Callable[[BrokerConfig], object]) -> None:
        def applied(config: BrokerConfig) -> None:
            called[applier] += 1
            apply(config)

        register(live, applier, applied)

    monkeypatch.setattr(LiveSettings, "register", recording)

    async def scenario(cluster: EmbeddedCluster) -> None:
        for name in LIVE:
            setting, before = BROKER_SETTINGS[name], called.copy()
            assert await alter(cluster, 0, name, other_value(setting)) == (0, None), name
            await settled(lambda one=setting: cluster.brokers[0].server.services.config.layers.given(one.name))  # type: ignore[misc]
            assert called - before == {setting.live: 1}, name
            value = getattr(cluster.brokers[0].server.services.config, name.replace(".", "_"))
            read = setting.read(other_value(setting))
            assert name == "max.connections.per.ip.overrides" or value == read, name

    play(scenario)


def test_what_does_not_change_live_is_refused() -> None:
    """Kafka refuses what is read-only, in these words."""

    async def scenario(cluster: EmbeddedCluster) -> None:
        fixed = [
            one
            for one in BROKER_SETTINGS.values()
            if one.update_mode is UpdateMode.READ_ONLY and not one.is_sensitive and one.default is not None
        ]
        assert len(fixed) > 100
        for setting in fixed[::10]:
            error = await alter(cluster, 0, setting.name, setting.default or "", "0")
            message = f"Cannot update these configs dynamically: Set({setting.name})"
            assert error == (ErrorCode.INVALID_REQUEST, message)

    play(scenario)


def test_fewer_connections() -> None:
    """Those that were idle longest go; newcomers wait until there is room."""

    async def scenario(cluster: EmbeddedCluster) -> None:
        (broker,) = cluster.brokers
        network = cluster.network.host("client")
        peers = [Peer(network, cluster.clock, broker.host, cluster.port, f"c{n}") for n in range(5)]
        for peer in peers:
            await peer.request(MetadataRequest(topics=[]), 9, 1000)
            await asyncio.sleep(0.01)
        await settled(lambda: connected(broker) >= 5)
        assert await alter(cluster, 0, "max.connections", "3") == (0, None)
        await settled(lambda: not peers[0].connected)
        assert connected(broker) <= 3
        late = [Peer(network, cluster.clock, broker.host, cluster.port, "late") for _ in range(3)]
        answers = [peer.request(MetadataRequest(topics=[]), 9, 1000) for peer in late]
        found = await asyncio.gather(*answers, return_exceptions=True)
        assert any(isinstance(one, BrokerUnreachable) for one in found)
        assert connected(broker) == 3
        for peer in (*peers, *late):
            peer.close()

    play(scenario)


def test_limits_of_one_listener_count_and_outlast_a_restart() -> None:
    async def scenario(cluster: EmbeddedCluster) -> None:
        (broker,) = cluster.brokers
        assert await alter(cluster, 0, "listener.name.plaintext.max.connections", "2", "0") == (0, None)
        assert await alter(cluster, 0, "max.connections.per.ip", "7") == (0, None)
        await settled(lambda: broker.server.sockets.settings.max_connections_per_ip == 7)
        await broker.stop()
        await broker.start()
        settings = broker.server.sockets.settings
        assert settings.max_connections_per_ip == 7
        assert settings.listener_limit("PLAINTEXT", "max.connections") == 2
        network = cluster.network.host("client")
        peers = [Peer(network, cluster.clock, broker.host, cluster.port, f"c{n}") for n in range(3)]
        answers = [peer.request(MetadataRequest(topics=[]), 9, 1000) for peer in peers]
        found = await asyncio.gather(*answers, return_exceptions=True)
        assert sum(isinstance(one, BrokerUnreachable) for one in found) >= 1
        assert connected(broker) <= 2
        for peer in peers:
            peer.close()

    play(scenario)


def test_no_more_connections_in_a_second_than_allowed() -> None:
    async def scenario(cluster: EmbeddedCluster) -> None:
        assert await alter(cluster, 0, "max.connection.creation.rate", "2") == (0, None)
        await asyncio.sleep(12)
        network = cluster.network.host("client")
        begin_ms = cluster.clock.monotonic_ms()
        peers = [Peer(network, cluster.clock, "broker-0", cluster.port, f"c{n}") for n in range(27)]
        await asyncio.gather(*(peer.request(MetadataRequest(topics=[]), 9, 60_000) for peer in peers))
        assert 4500 < cluster.clock.monotonic_ms() - begin_ms < 8000, "7 more than 2 a second in 10 seconds"
        for peer in peers:
            peer.close()

    play(scenario)


def test_unclean_elections_that_are_allowed_for_all_happen_at_once() -> None:
    async def scenario(cluster: EmbeddedCluster) -> None:
        first, second = cluster.brokers
        peer = Peer(cluster.network.host("client"), cluster.clock, first.host, cluster.port, "c")
        answer: Any = await peer.request(create_topic_request("t", [0, 1]), 7, 20_000)
        assert answer.topics[0].error_code == 0
        second.kill()
        await settled(lambda: first.server.services.metadata.topics["t"][0].isr == [0])
        first.kill()
        await second.start()
        other = Peer(cluster.network.host("client"), cluster.clock, second.host, cluster.port, "c")

        async def leader() -> int:
            request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            found: Any = await other.request(request, 9, 20_000)
            return found.topics[0].partitions[0].leader_id if found.topics[0].partitions else -1

        await settled(lambda: second.server.services.controller.is_active)
        await asyncio.sleep(20)
        assert await leader() == -1
        assert await alter(cluster, 1, "unclean.leader.election.enable", "true") == (0, None)
        await asyncio.sleep(5)
        assert await leader() == 1
        peer.close()
        other.close()

    play(scenario, brokers=2)
