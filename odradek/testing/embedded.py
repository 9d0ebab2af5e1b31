"""A cluster inside this process: the very same brokers, on a virtual clock, network, disk and ZooKeeper.

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=3) as cluster:
            endpoint = await cluster.network.host("client").connect("broker-0", cluster.port)
            cluster.network.cut("broker-0", "broker-1")
            cluster.zookeeper.partition(cluster.brokers[1].store)

    run_virtual(main)

Nothing is waited for in real time, and a run with the same seed is the same run. Faults are asked of the parts:
`network` (cut, heal, reset), `zookeeper` (partition, expire_session, stop, …), each broker's `files`, and the brokers
themselves (`kill`, `suspend`, `power_failure`, `clock.wall_offset_ms`).
"""

import random
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, TypeVar

from odradek.broker.config import BrokerConfig, Given, build_config
from odradek.broker.server import BrokerServer
from odradek.broker.world import World
from odradek.testing.deferred_background import SlowBackground
from odradek.testing.inline_children import InlineChildren
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import VirtualClock
from odradek.testing.virtual_network import VirtualNetwork
from odradek.testing.virtual_process import InsideClock, OutsideClock, VirtualProcess
from odradek.zk_schema.store import Store

T = TypeVar("T")

PORT = 9092
SETTINGS = {
    "log.dirs": "/data",
    "zookeeper.connect": "memory:2181",
    "zookeeper.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
}


class EmbeddedBroker:
    """One broker on host `broker-ID`. Its disk stays when it is stopped, and `start` begins another life on it."""

    def __init__(self, cluster: "EmbeddedCluster", broker_id: int) -> None:
        self.broker_id = broker_id
        self.host = f"broker-{broker_id}"
        self.clock = cluster.clock.beside()
        """Its machine's: `wall_offset_ms` may be changed."""
        self.files = SimulatedFiles(cluster.seed + broker_id, self.clock.now_ms)
        self.disk_latency_ms = (0.0, 0.0)
        """Of what its broker does in the background: least and most."""
        self.lives = 0
        self._cluster = cluster
        self._process: VirtualProcess | None = None
        self._server: BrokerServer | None = None
        self._store: MemoryStore | None = None

    @property
    def running(self) -> bool:
        """It has started, and was neither stopped nor killed since."""
        return self._server is not None

    @property
    def server(self) -> BrokerServer:
        assert self._server is not None, f"{self.host} does not run"
        return self._server

    @property
    def store(self) -> MemoryStore:
        """Its ZooKeeper client of this life."""
        assert self._store is not None, f"{self.host} has not been started"
        return self._store

    async def start(self) -> None:
        """Return when it serves and is registered. Raises ProcessKilled, and, having cleared up, what
        BrokerServer.start raises."""
        assert self._process is None, f"{self.host} runs already"
        process = self._process = VirtualProcess(self.host)
        self.lives += 1
        try:
            self._server = await process.run(self._start())
        finally:
            if self._server is None and self._process is process:  # as a process that ends by itself
                self._process = None
                process.kill()
                self._cluster.network.end_programs(self.host)
                self.files.kill()

    async def _start(self) -> BrokerServer:
        cluster = self._cluster
        latencies = random.Random(self.lives)
        world = World(
            clock=self.clock,
            files=self.files,
            network=cluster.network.host(self.host),
            background=SlowBackground(self.clock, lambda: latencies.uniform(*self.disk_latency_ms)),
            random=random.Random(f"{cluster.seed} {self.broker_id} {self.lives}"),
            zookeeper=self._connect,
            children=InlineChildren(self.files, self.clock),
        )
        server = BrokerServer(self._config(), world)
        try:
            await server.start()
        except BaseException:
            await server.abort()
            raise
        return server

    def _config(self) -> BrokerConfig:
        own = {"broker.id": str(self.broker_id), "listeners": f"PLAINTEXT://{self.host}:{PORT}"}
        settings = {**SETTINGS, **own, **self._cluster.overrides}
        return build_config([Given(name, text, "the embedded cluster") for name, text in settings.items()])

    def _connect(self, config: BrokerConfig) -> Store:
        timeout_ms = config.zookeeper_session_timeout_ms
        self._store = self._cluster.zookeeper.connect(session_timeout_ms=timeout_ms, clock=InsideClock(self.clock))
        return self._store

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result; done as this broker's process, so that a kill ends what comes of it. Raises ProcessKilled."""
        assert self._process is not None, f"{self.host} does not run"
        return await self._process.run(work)

    async def stop(self) -> None:
        """In a controlled way. Harmless when it does not run. Raises ProcessKilled."""
        server, process = self._server, self._process
        self._server = None
        if server is not None and process is not None:
            try:
                await process.run(server.stop())
            finally:
                if self._process is process:
                    self._process = None

    def suspend(self) -> None:
        """Its process stands still, as by SIGSTOP: its machine goes on taking connections and bytes for it."""
        assert self._process is not None and self._store is not None, f"{self.host} does not run"
        self._process.suspend()
        self._cluster.network.suspend_programs(self.host)
        self._cluster.zookeeper.suspend(self._store)

    def resume(self) -> None:
        """Its process goes on, with everything that has come meanwhile. Harmless when it was not suspended."""
        if self._process is not None and self._process.suspended and self._store is not None:
            self._process.resume()
            self._cluster.network.resume_programs(self.host)
            self._cluster.zookeeper.resume(self._store)

    def kill(self) -> None:
        """End its process as kill -9 does, also while it starts or stops: nothing is flushed, checkpointed or said any
        more, its connections break, and its ZooKeeper session is left to expire. What it has written stays."""
        self._die(silently=False)
        self.files.kill()

    def power_failure(self) -> None:
        """Its machine stops: as `kill`, nobody is told, and of what was not synced only some is left, or garbage."""
        self._die(silently=True)
        self.files.crash()

    def _die(self, *, silently: bool) -> None:
        process, self._process, self._server = self._process, None, None
        assert process is not None, f"{self.host} does not run"
        process.kill()
        self._cluster.network.end_programs(self.host, silently=silently)
        if self._store is not None:
            self._cluster.zookeeper.crash(self._store)


class EmbeddedCluster:
    """Brokers 0 to n-1 on port 9092 of hosts of their own. `overrides`: settings of all of them, by Kafka's names."""

    def __init__(
        self, clock: VirtualClock, brokers: int = 1, overrides: Mapping[str, str] | None = None, seed: int = 0
    ) -> None:
        self.clock, self.seed, self.port = clock, seed, PORT
        replicas = str(min(3, brokers))
        self.overrides = {"offsets.topic.replication.factor": replicas, **(overrides or {})}
        self.network = VirtualNetwork(clock, seed)
        self.zookeeper = MemoryZooKeeper(OutsideClock(clock))
        self.brokers = [EmbeddedBroker(self, broker_id) for broker_id in range(brokers)]

    async def __aenter__(self) -> "EmbeddedCluster":
        for broker in self.brokers:
            await broker.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for broker in self.brokers:
            await broker.stop()
