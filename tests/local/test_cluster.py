"""The cluster runner, on a real ZooKeeper, with stand-ins for brokers."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.console.actions import ActionRefusedError
from odradek.local.cluster import ClusterFailure, ClusterPlan, LocalCluster
from odradek.local.in_hand import BrokersInHand
from odradek.local.java import NoZooKeeper
from odradek.local.ports import PortInUse, free_port_range, free_ports
from odradek.local.processes import read_pid
from odradek.local.view import ClusterView
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.store import NotAuthorized, Store
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH
from odradek.zk_schema.znodes.controller import CONTROLLER_PATH

pytestmark = [pytest.mark.zookeeper, pytest.mark.cluster]

STAND_IN = (sys.executable, str(Path(__file__).parent / "stand_in_broker.py"))
SESSION_TIMEOUT_MS = 5_000
"""No stand-in is kept waiting for so long by a busy machine, and that a dead one's session lasts on is seen."""


class Setting:
    """A directory, ports, and clusters that are stopped whatever happens."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port_range(3)
        self.zookeeper_port = free_ports(1)[0]
        self._clusters: list[LocalCluster] = []

    def plan(self, **changes: Any) -> ClusterPlan:
        values: dict[str, Any] = {"brokers": 3, "port": self.port, "zookeeper_port": self.zookeeper_port}
        values |= {"broker_command": STAND_IN} | changes
        overrides = {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS), **values.pop("overrides", {})}
        return ClusterPlan(self.directory, overrides=overrides, **values)

    def cluster(self, changed: Callable[[], None] = lambda: None, **changes: Any) -> LocalCluster:
        cluster = LocalCluster(self.plan(**changes), changed)
        self._clusters.append(cluster)
        return cluster

    async def close(self) -> None:
        for cluster in self._clusters:
            await cluster.stop()


def play(directory: Path, scenario: Callable[[Setting], Awaitable[None]]) -> None:
    async def run() -> None:
        setting = Setting(directory)
        try:
            async with asyncio.timeout(2 * PATIENCE_SECONDS):
                await scenario(setting)
        finally:
            await setting.close()

    asyncio.run(run())


def states(cluster: LocalCluster) -> list[str]:
    return [status.state for status in cluster.statuses()]


def test_starts_reports_a_death_and_stops_in_order(tmp_path: Path) -> None:
    async def scenario(setting: Setting) -> None:
        changed = asyncio.Event()
        cluster = setting.cluster(changed.set)

        async def until(condition: Callable[[], bool]) -> None:
            while not condition():
                changed.clear()
                await changed.wait()

        await cluster.start()
        assert states(cluster) == ["registered"] * 3
        assert sum(status.controller for status in cluster.statuses()) == 1
        assert read_pid(tmp_path / "run" / "up.pid") == os.getpid()
        assert read_pid(tmp_path / "run" / "broker-1.pid") == cluster.brokers[1].pid
        os.kill(cluster.brokers[1].pid, signal.SIGKILL)
        await until(lambda: states(cluster)[1] == "was killed by SIGKILL; its ZooKeeper session has not ended yet")
        await until(lambda: states(cluster)[1] == "was killed by SIGKILL")
        assert states(cluster)[0::2] == ["registered", "registered"]
        await cluster.stop()
        stopped = sorted(path.name for path in (tmp_path / "config").glob("*.stopped"))
        assert stopped == ["broker-0.stopped", "broker-2.stopped"]
        assert list((tmp_path / "run").iterdir()) == []
        assert cluster.zookeeper is not None
        assert cluster.zookeeper.child is not None
        assert not cluster.zookeeper.child.alive

    play(tmp_path, scenario)


def test_the_end_of_its_zookeeper_is_told(tmp_path: Path) -> None:
    """Nothing was said but that it cannot be reached, and `up` that was not ready waited on."""

    async def scenario(setting: Setting) -> None:
        changed = asyncio.Event()
        cluster = setting.cluster(changed.set)

        async def kill(cluster: LocalCluster) -> EmbeddedZooKeeper:
            """Kill it when something has been seen in it."""
            await changed.wait()
            assert cluster.zookeeper is not None and cluster.zookeeper.child is not None
            assert cluster.zookeeper.end == ""
            cluster.zookeeper.child.kill()
            return cluster.zookeeper

        await cluster.start()
        zookeeper = await kill(cluster)
        while not zookeeper.end:
            changed.clear()
            await changed.wait()
        assert zookeeper.end.startswith("ZooKeeper was killed by SIGKILL: ")
        assert str(tmp_path / "logs" / "zookeeper.log") in zookeeper.end
        await cluster.stop()
        silent = (sys.executable, "-c", "import signal; signal.pause()")
        cluster = setting.cluster(changed.set, broker_command=silent)
        changed.clear()
        starting = asyncio.create_task(cluster.start())
        await kill(cluster)
        with pytest.raises(NoZooKeeper, match="ZooKeeper was killed by SIGKILL: "):
            await starting

    play(tmp_path, scenario)


def test_brokers_in_hand_are_cut_off_killed_and_started_again(tmp_path: Path) -> None:
    async def scenario(setting: Setting) -> None:
        changed = asyncio.Event()
        cluster = setting.cluster(changed.set, console_port=0)
        in_hand = BrokersInHand(cluster)

        async def until(wanted: str) -> None:
            while (found := in_hand.processes()[1]).state != wanted:
                changed.clear()
                await changed.wait()
            actions.append((wanted, list(found.actions)))

        actions: list[tuple[str, list[str]]] = []
        await cluster.start()
        epoch = cluster.view.registered[1].czxid
        await in_hand.act(1, "isolate")
        await until("cut off from ZooKeeper")
        while 1 in cluster.view.registered:
            changed.clear()
            await changed.wait()
        await in_hand.act(1, "rejoin")
        await in_hand.act(1, "suspend")
        await until("frozen")
        await in_hand.act(1, "resume")
        await in_hand.act(1, "kill")
        await until("was killed by SIGKILL")
        with pytest.raises(ActionRefusedError, match="broker 1 was killed by SIGKILL: 'kill' cannot be done"):
            await in_hand.act(1, "kill")
        with pytest.raises(ActionRefusedError, match="no broker 9"):
            await in_hand.act(9, "kill")
        await in_hand.act(1, "start")
        await until("registered")
        assert cluster.view.registered[1].czxid > epoch
        assert actions == [
            ("cut off from ZooKeeper", ["kill", "stop", "suspend", "rejoin"]),
            ("frozen", ["resume", "kill"]),
            ("was killed by SIGKILL", ["start"]),
            ("registered", ["kill", "stop", "suspend", "isolate"]),
        ]
        await in_hand.act(1, "stop")
        await until("exited with code 0")

    play(tmp_path, scenario)


def test_a_znode_that_cannot_be_read_does_not_end_the_watching(tmp_path: Path) -> None:
    async def scenario(setting: Setting) -> None:
        changed = asyncio.Event()
        cluster = setting.cluster(changed.set)
        await cluster.start()
        store = KazooStore(cluster.plan.zookeeper_connect, LoopClock(asyncio.get_running_loop()))
        await store.start(PATIENCE_SECONDS * 1000)
        await store.set(CONTROLLER_PATH, b"nonsense")
        while any(one.controller for one in cluster.statuses()):
            changed.clear()
            await changed.wait()
        await store.delete(CONTROLLER_PATH)
        os.kill(cluster.brokers[1].pid, signal.SIGKILL)
        while states(cluster)[1] != "was killed by SIGKILL":
            changed.clear()
            await changed.wait()
        await store.close()

    play(tmp_path, scenario)


def test_starts_again_over_existing_data_after_everything_was_killed(tmp_path: Path) -> None:
    async def scenario(setting: Setting) -> None:
        first = setting.cluster()
        await first.start()
        epochs = {number: stat.czxid for number, stat in first.view.registered.items()}
        with pytest.raises(ClusterFailure, match=r"zookeeper of an earlier run still runs \(pid \d+\): odradek stop"):
            await setting.cluster().start()
        first.kill()
        await first.stop()
        second = setting.cluster()
        await second.start()
        assert all(second.view.registered[number].czxid > epoch for number, epoch in epochs.items())

    play(tmp_path, scenario)


def test_a_clock_that_is_set_back_while_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registrations were taken for older ones, and it waited until its time was over."""
    ahead_ns, now_ns = 3_600 * 1_000_000_000, time.time_ns

    async def scenario(setting: Setting) -> None:
        cluster = setting.cluster(brokers=1)
        monkeypatch.setattr(time, "time_ns", lambda: now_ns() + (0 if cluster.zookeeper else ahead_ns))
        await cluster.start()
        assert states(cluster) == ["registered"]

    play(tmp_path, scenario)


def test_an_external_zookeeper_with_a_chroot(tmp_path: Path) -> None:
    async def scenario(setting: Setting) -> None:
        server = EmbeddedZooKeeper(tmp_path / "external", setting.zookeeper_port)
        await server.start()
        try:
            cluster = setting.cluster(zookeeper=f"{server.connect}/clusters/one", brokers=1)
            await cluster.start()
            assert cluster.zookeeper is None
            assert cluster.plan.zookeeper_connect == f"{server.connect}/clusters/one"
            assert states(cluster) == ["registered"]
            await cluster.stop()
            assert server.child is not None
            assert server.child.alive
        finally:
            await server.stop()

    play(tmp_path, scenario)


def test_a_zookeeper_that_refuses_is_an_error_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its access lists are another user's, or none of its servers answers while it starts: that was a traceback."""

    async def refused(store: Store) -> ClusterView:
        raise NotAuthorized(BROKER_IDS_PATH)

    async def scenario(setting: Setting) -> None:
        server = EmbeddedZooKeeper(tmp_path / "external", setting.zookeeper_port)
        await server.start()
        try:
            monkeypatch.setattr("odradek.local.cluster.look", refused)
            with pytest.raises(ClusterFailure, match=r"the ZooKeeper at .*: /brokers/ids: not authorized"):
                await setting.cluster(zookeeper=server.connect, brokers=1).start()
        finally:
            await server.stop()

    play(tmp_path, scenario)


def test_a_broker_that_fails_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    async def scenario(setting: Setting) -> None:
        cluster = setting.cluster(overrides={"stand.in.fails": "2"})
        with pytest.raises(ClusterFailure, match="broker 2 exited with code 1: the stand-in fails as it was told"):
            await cluster.start()

    play(tmp_path, scenario)


@pytest.mark.parametrize("wanted_for", ["broker 1", "ZooKeeper"])
def test_a_port_in_use_is_named(tmp_path: Path, wanted_for: str) -> None:
    async def scenario(setting: Setting) -> None:
        port = setting.port + 1 if wanted_for == "broker 1" else setting.zookeeper_port
        with socket.create_server(("127.0.0.1", port)):
            cluster = setting.cluster()
            with pytest.raises(PortInUse, match=f"port {port} on 127.0.0.1, wanted for {wanted_for}, is in use"):
                await cluster.start()
            assert cluster.brokers == {}

    play(tmp_path, scenario)


def test_no_external_zookeeper_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.local.cluster.EXTERNAL_TIMEOUT_MS", 300)

    async def scenario(setting: Setting) -> None:
        cluster = setting.cluster(zookeeper=f"127.0.0.1:{setting.zookeeper_port}")
        with pytest.raises(ClusterFailure, match=r"no ZooKeeper answers at 127\.0\.0\.1"):
            await cluster.start()

    play(tmp_path, scenario)
