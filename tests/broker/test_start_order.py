"""The order in which a broker starts."""

from typing import Any

import pytest

from odradek.broker.server import BrokerServer
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.znodes.brokers import broker_path


def test_its_logs_are_loaded_before_anybody_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long and looks at all that was loaded (the garbage collector) is done then: nobody waits for it."""
    found = []
    start = BrokerServer.start

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, {}) as cluster:

            async def started(server: BrokerServer) -> None:
                def loaded() -> None:
                    logs: Any = server._logs
                    registered = cluster.zookeeper.tree.get(broker_path(0)) is not None
                    found.append((bool(logs.online()), registered, server.sockets.connections))

                server.on_loaded = loaded
                await start(server)

            monkeypatch.setattr(BrokerServer, "start", started)
            broker = cluster.brokers[0]
            await broker.stop()
            await broker.start()
            assert cluster.zookeeper.tree.get(broker_path(0)) is not None

    run_virtual(main)
    assert found == [(True, False, 0)]
