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

The same cluster stands on real sockets and wall time when it is given a `SocketNetwork` and runs on a `SocketLoop`:
odradek.testing.Cluster is made of that.
"""

import random
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Protocol, TypeVar

from odradek.broker.config import BrokerConfig, Given, build_config
from odradek.broker.replication.partition import Partition
from odradek.broker.server import BrokerServer
from odradek.broker.world import World
from odradek.testing.background_work import InlineChildren, SlowBackground
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.socket_network import SocketNetwork
from odradek.testing.virtual_network import VirtualNetwork
from odradek.testing.virtual_process import InsideClock, OutsideClock, VirtualProcess
from odradek.world.clock import Clock
from odradek.world.files import Files
from odradek.zk_schema.store import Store

T = TypeVar("T")

SETTINGS = {
    "log.dirs": "/data",
    "zookeeper.connect": "memory:2181",
    "zookeeper.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
}


class MachineClock(Clock, Protocol):
    """A clock whose wall clock may be set."""

    wall_offset_ms: int

    def beside(self) -> "MachineClock":
        """Return a clock of the same loop with a wall clock of its own."""


class Disk(Files, Protocol):
    """A broker's files, which outlive its process."""

    def kill(self) -> None:
        """End the process that holds them: open files and locks are gone, written bytes stay."""


class EmbeddedBroker:
    """A broker on host `broker-ID`. Its disk stays when it is stopped, and `start` begins another life on it."""

    def __init__(self, cluster: "EmbeddedCluster", broker_id: int) -> None:
        self.broker_id = broker_id
        self.host = f"broker-{broker_id}"
        self.clock = cluster.clock.beside()
        """Clock of its machine: `wall_offset_ms` may be changed."""
        self.address = cluster.network.reserve(self.host, cluster.first_port and cluster.first_port + broker_id)
        """Host and port on which it listens."""
        self.disk: Disk = cluster.make_disk(self)
        self.disk_latency_ms = (0.0, 0.0)
        """Least and most time of what its broker does in the background."""
        self.processor_ms: Callable[[], float] = self.clock.monotonic_ms
        """How long it has worked: no time at all, unless a test says otherwise."""
        self.lives = 0
        self.spans_at_death: dict[tuple[str, int], tuple[int, int]] = {}
        """Log start and end offsets of its replicas when it was stopped or killed last: what its disk holds while it is
        away."""
        self._cluster = cluster
        self._process: VirtualProcess | None = None
        self._server: BrokerServer | None = None
        self._stopping: BrokerServer | None = None
        """Server in a controlled shutdown, which replicates on."""
        self._store: MemoryStore | None = None

    @property
    def running(self) -> bool:
        """True if the broker has started, and was neither stopped nor killed since."""
        return self._server is not None

    @property
    def alive(self) -> bool:
        """True if the broker has a process: it runs, starts or stops."""
        return self._process is not None

    @property
    def suspended(self) -> bool:
        """True if the broker's process is suspended."""
        return self._process is not None and self._process.suspended

    @property
    def files(self) -> SimulatedFiles:
        """Simulated disk of the broker, where it is not real."""
        assert isinstance(self.disk, SimulatedFiles), f"the disk of {self.host} is real"
        return self.disk

    @property
    def server(self) -> BrokerServer:
        assert self._server is not None, f"{self.host} does not run"
        return self._server

    @property
    def store(self) -> MemoryStore:
        """ZooKeeper client of the broker's present life."""
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
                self.disk.kill()

    async def _start(self) -> BrokerServer:
        cluster = self._cluster
        latencies = random.Random(self.lives)
        world = World(
            clock=self.clock,
            files=self.disk,
            network=cluster.network.host(self.host),
            background=SlowBackground(self.clock, lambda: latencies.uniform(*self.disk_latency_ms)),
            random=random.Random(f"{cluster.seed} {self.broker_id} {self.lives}"),
            zookeeper=self._connect,
            children=InlineChildren(self.disk, self.clock),
            processor_ms=self.processor_ms,
        )
        server = BrokerServer(self._config(), world)
        try:
            await server.start()
        except BaseException:
            await server.abort()
            raise
        return server

    def _config(self) -> BrokerConfig:
        host, port = self.address
        own = {"broker.id": str(self.broker_id), "listeners": f"PLAINTEXT://{host}:{port}"}
        settings = {**SETTINGS, **own, **self._cluster.overrides}
        settings = {name: text.replace("{}", str(self.broker_id)) for name, text in settings.items()}
        return build_config([Given(name, text, "settings") for name, text in settings.items()])

    def _connect(self, config: BrokerConfig) -> Store:
        timeout_ms = config.zookeeper_session_timeout_ms
        self._store = self._cluster.zookeeper.connect(session_timeout_ms=timeout_ms, clock=InsideClock(self.clock))
        return self._store

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work that is done as this broker's process, so that a kill ends what comes of it.

        Raises ProcessKilled, and what the work raises.
        """
        assert self._process is not None, f"{self.host} does not run"
        return await self._process.run(work)

    async def stop(self) -> None:
        """Stop in a controlled way. Harmless when the broker does not run. Raises ProcessKilled."""
        server, process = self._server, self._process
        self._remember_spans()
        self._server, self._stopping = None, server
        if server is not None and process is not None:
            try:
                await process.run(server.stop())
            finally:
                if self._process is process:
                    self._process = None
                    self._remember_spans()
                    self._stopping = None

    def log_span(self, topic: str, index: int) -> tuple[int, int] | None:
        """Return the start and end offset of the broker's log of a partition, now or when it was last up; None without
        a log."""
        server = self._server or self._stopping
        partition = None if server is None else server.services.replicas.partitions.get((topic, index))
        return self.spans_at_death.get((topic, index)) if partition is None else _span(partition)

    def log_end(self, topic: str, index: int) -> int | None:
        """Return the end offset, as `log_span` does."""
        span = self.log_span(topic, index)
        return None if span is None else span[1]

    def suspend(self) -> None:
        """Suspend the process, as SIGSTOP does: its machine goes on taking connections and bytes for it."""
        assert self._process is not None and self._store is not None, f"{self.host} does not run"
        self._process.suspend()
        self._cluster.network.suspend_programs(self.host)
        self._cluster.zookeeper.suspend(self._store)

    def resume(self) -> None:
        """Let the process go on, with everything that has come meanwhile. Harmless when it was not suspended."""
        if self._process is not None and self._process.suspended and self._store is not None:
            self._process.resume()
            self._cluster.network.resume_programs(self.host)
            self._cluster.zookeeper.resume(self._store)

    def kill(self) -> None:
        """End its process as kill -9 does, also while it starts or stops: nothing is flushed, checkpointed or said any
        more, its connections break, and its ZooKeeper session is left to expire. What it has written stays."""
        self._die(silently=False)
        self.disk.kill()

    def power_failure(self) -> None:
        """Stop the machine: as with `kill`, nobody is told, and of what was not synced only some is left.

        Some of that may be garbage.
        """
        self._die(silently=True)
        self.files.crash()

    def _remember_spans(self) -> None:
        server = self._server or self._stopping
        if server is not None:
            held = server.services.replicas.partitions
            self.spans_at_death.update({where: _span(partition) for where, partition in held.items()})

    def _die(self, *, silently: bool) -> None:
        self._cluster.dying(self)
        self._remember_spans()
        process, self._process, self._server, self._stopping = self._process, None, None, None
        assert process is not None, f"{self.host} does not run"
        process.kill()
        self._cluster.network.end_programs(self.host, silently=silently)
        if self._store is not None:
            self._cluster.zookeeper.crash(self._store)


def _span(partition: Partition) -> tuple[int, int]:
    return partition.log.log_start_offset, partition.log.log_end_offset


class EmbeddedCluster:
    """Brokers 0 to n-1, each on a host of its own. `overrides`: settings of all of them, by Kafka's names."""

    def __init__(
        self,
        clock: MachineClock,
        brokers: int = 1,
        overrides: Mapping[str, str] | None = None,
        seed: int = 0,
        *,
        network: VirtualNetwork | SocketNetwork | None = None,
        make_disk: Callable[[EmbeddedBroker], Disk] | None = None,
        first_port: int = 0,
        zookeepers: int = 1,
    ) -> None:
        """Stand on a virtual network and simulated disks unless given others. `first_port`: 0 leaves the choice to the
        network. `zookeepers`: servers of ZooKeeper's ensemble. Raises PortTaken."""
        self.clock, self.seed = clock, seed
        replicas = str(min(3, brokers))
        self.overrides = {"offsets.topic.replication.factor": replicas, **(overrides or {})}
        self.network = network or VirtualNetwork(clock, seed)
        self.make_disk = make_disk or self._simulated_disk
        self.first_port = first_port
        self.dying: Callable[[EmbeddedBroker], object] = lambda broker: None
        """Called when a broker is about to be killed: the last look at it."""
        self.zookeeper = MemoryZooKeeper(OutsideClock(clock), members=zookeepers)
        self.brokers = [EmbeddedBroker(self, broker_id) for broker_id in range(brokers)]

    def _simulated_disk(self, broker: EmbeddedBroker) -> Disk:
        return SimulatedFiles(self.seed + broker.broker_id, broker.clock.now_ms)

    @property
    def port(self) -> int:
        """Port of all brokers, when each has a host of its own."""
        return self.brokers[0].address[1]

    async def __aenter__(self) -> "EmbeddedCluster":
        for broker in self.brokers:
            await broker.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for broker in self.brokers:
            broker.resume()  # who is suspended cannot stop
            await broker.stop()
