"""A broker that loses ZooKeeper in the middle of its start waits for it, whatever it was asking, and starts then."""

from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.server import StartFailure
from odradek.testing.embedded import SETTINGS, EmbeddedBroker, EmbeddedCluster
from odradek.testing.memory_store import MemoryStore
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.znodes.brokers import broker_path
from odradek.zk_schema.znodes.cluster import CLUSTER_ID_PATH

SECURED = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "a secret of brokers",
}
SESSION_MS = float(SETTINGS["zookeeper.session.timeout.ms"])


async def started_without(
    cluster: EmbeddedCluster, broker: EmbeddedBroker, number: int, fault: Callable[[MemoryStore], Any]
) -> bool:
    """Start a broker, with a fault in the moment of its so many-th request to ZooKeeper; False if there is none."""
    call, asked = MemoryStore._call, 0

    async def counting(store: MemoryStore, path: str, *args: Any, **kwargs: Any) -> Any:
        nonlocal asked
        if store is broker.store:
            asked += 1
            if asked == number:
                fault(store)
        return await call(store, path, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStore, "_call", counting)
        await broker.start()
    node = cluster.zookeeper.tree.get(broker_path(broker.broker_id))
    identity = broker.server.services.identity
    assert node is not None and node.owner == broker.store.session_id, f"request {number}"
    assert node.czxid == identity.broker_epoch and not identity.session_over, f"request {number}"
    return asked >= number


@pytest.mark.parametrize(("away_ms", "settings"), [(0.0, {}), (SESSION_MS / 2, {}), (SESSION_MS * 2, SECURED)])
def test_whatever_it_was_asking_it_asks_again(away_ms: float, settings: dict[str, str]) -> None:
    """Also in another session: what it asks before it registers does not live with one. 0 ms: an answer is lost."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2, settings) as cluster:
            broker, zookeeper = cluster.brokers[1], cluster.zookeeper

            def fault(store: MemoryStore) -> None:
                if not away_ms:
                    store.lose_next_answer()
                    return
                clock.call_soon(lambda: zookeeper.partition(store))
                clock.call_later(away_ms, lambda: zookeeper.heal(store))

            number, asks = 0, True
            while asks:
                number += 1
                broker.power_failure()  # after which it asks more
                asks = await started_without(cluster, broker, number, fault)
            assert number > 30

    run_virtual(main)


def test_without_a_first_connection_it_ends_and_names_the_setting() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2, {"zookeeper.connection.timeout.ms": "30000"}) as cluster:
            await cluster.brokers[1].stop()
            cluster.zookeeper.stop()
            began_ms = clock.monotonic_ms()
            with pytest.raises(StartFailure, match=r"within 30000 ms \(.*zookeeper.connection.timeout.ms\)"):
                await cluster.brokers[1].start()
            assert clock.monotonic_ms() - began_ms == pytest.approx(30_000)
            cluster.zookeeper.restart()
            await cluster.brokers[1].start()

    run_virtual(main)


def test_a_cluster_id_that_cannot_be_read_is_named() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            await cluster.brokers[1].stop()
            await cluster.brokers[0].store.set(CLUSTER_ID_PATH, b"{")
            with pytest.raises(StartFailure, match=CLUSTER_ID_PATH):
                await cluster.brokers[1].start()

    run_virtual(main)


def test_an_address_of_another_broker_is_refused() -> None:
    """As by Kafka: whoever looked for the one was sent to the other, and neither said a word."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            host, port = cluster.brokers[0].address
            await cluster.brokers[1].stop()
            cluster.overrides["advertised.listeners"] = f"PLAINTEXT://{host}:{port}"
            with pytest.raises(StartFailure, match=f"{host}:{port} in advertised listeners are already .* broker 0"):
                await cluster.brokers[1].start()
            await cluster.brokers[0].stop()
            await cluster.brokers[0].start()
            del cluster.overrides["advertised.listeners"]
            await cluster.brokers[1].start()

    run_virtual(main)
