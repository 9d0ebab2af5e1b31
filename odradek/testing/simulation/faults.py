"""Faults of a simulation. Each fault is a coroutine that begins it, lets some time pass, and ends it."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from odradek.broker.log.checkpoint_format import LEADER_EPOCHS, decode_epochs
from odradek.broker.log.directories.directory_files import parse_partition_name
from odradek.broker.log.errors import UnusableDirectory
from odradek.broker.log.segment import LOG
from odradek.broker.server import StartFailure
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.history import History
from odradek.testing.virtual_network import VirtualNetwork
from odradek.testing.virtual_process import ProcessKilled
from odradek.zk_schema.store import StoreError

CANNOT_START = (StartFailure, StoreError, UnusableDirectory, ProcessKilled)
RESTART_PAUSE_S = 0.5
MOVE_AWAY = "move away what is out of date"
START_ATTEMPTS = 3
STOP_PATIENCE_S = 20.0
LATENCY_MS = (0.1, 1.0)
ZOOKEEPER_LATENCY_MS = (0.0, 2.0)
CLIENTS = (
    "producer-0", "producer-1", "consumer", "member-0", "member-1", "member-2", "transactor-0", "transactor-1",
    "committed-reader", "old-client", "loose-0", "loose-1", "connector-0", "connector-1",
)  # fmt: skip

Latency = tuple[float, float]
"""Least and most, in ms."""


def move_away_older_copies(files: SimulatedFiles) -> None:
    """Remove the older one of two copies of a partition in two log directories, as the person does whom a broker tells
    that it does not start with both.

    There are two when the partition was reassigned away and back while the directory of the first was offline (seed
    39103808), in Kafka too. The newer one has records of later leader epochs, or more of the last one.
    """
    copies: dict[str, dict[str, tuple[int, int]]] = {}
    for path in files.paths():
        folder, _, file = path.rpartition("/")
        name = folder.rpartition("/")[2]
        if parse_partition_name(name) is not None:
            epoch, size_bytes = copies.setdefault(name, {}).get(folder, (-1, 0))
            if file == LEADER_EPOCHS:
                epoch = max((of for of, _ in decode_epochs(files.read(path))), default=-1)
            size_bytes += files.size(path) if file.endswith(LOG) else 0
            copies[name][folder] = (epoch, size_bytes)
    for found in copies.values():
        for folder in sorted(found, key=found.__getitem__)[:-1]:
            for file in files.list_directory(folder):
                files.remove(f"{folder}/{file}")
            files.remove_directory(folder)


class Latencies:
    """Latency of the network, or of ZooKeeper: as usual, or what the fault wants which began last of those that go on.

    A fault that put back what it had found would leave another one's latency behind, which has ended meanwhile.
    """

    def __init__(self, usual: Latency, put: Callable[[Latency], object] = lambda latency_ms: None) -> None:
        """`put` is called with each latency that comes into force."""
        self._usual, self._put = usual, put
        self._wanted: dict[object, Latency] = {}

    @contextlib.contextmanager
    def at(self, latency_ms: Latency) -> Iterator[None]:
        """Have this latency within the context, unless another fault wants one meanwhile."""
        fault = object()
        self._wanted[fault] = latency_ms
        self._put(self.now)
        try:
            yield
        finally:
            del self._wanted[fault]
            self._put(self.now)

    @property
    def now(self) -> Latency:
        """The latency in force."""
        return next(reversed(self._wanted.values()), self._usual)


class Faults:
    """The faults of one cluster. `busy`: brokers that are not to be touched by another fault."""

    def __init__(
        self, cluster: EmbeddedCluster, history: History, administrator: Administrator, source: random.Random, seed: int
    ) -> None:
        self.cluster, self.history, self.administrator = cluster, history, administrator
        assert isinstance(cluster.network, VirtualNetwork)
        self.network = cluster.network
        self.random = source
        self.busy: set[int] = set()
        self.exclusive = False
        self.on_lost_data: Callable[[EmbeddedBroker], object] = lambda broker: None
        """Called when a broker has died and misses some of what was on its disk."""
        self.under_way = 0
        self.network_latency = Latencies(LATENCY_MS, partial(setattr, self.network, "latency_ms"))
        self.zookeeper_latency = Latencies(ZOOKEEPER_LATENCY_MS)
        latencies = random.Random(seed)
        cluster.zookeeper.draw_latency_ms = lambda: latencies.uniform(*self.zookeeper_latency.now)
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self.kill,
            "kill_controller": self.kill_controller,
            "power_failure": self.power_failure,
            "isolate": self.isolate,
            "isolate_from_brokers": self.isolate_from_brokers,
            "one_way": self.one_way,
            "shutdown": self.shutdown,
            "slow_network": self.slow_network,
            "resets": self.resets,
            "suspend": self.suspend,
            "wall_clock": self.wall_clock,
            "topics": self.topics,
            "reassign": self.reassign,
            "elect_leaders": self.elect_leaders,
            "move_directories": self.move_directories,
            "throttle": self.throttle,
            "kill_all": self.kill_all,
            "cut_clients": self.cut_clients,
        }

    # choosing

    def pick(self) -> EmbeddedBroker | None:
        """Return a running broker that no other fault has."""
        free = [one for one in self.cluster.brokers if self.is_free(one)]
        return self.random.choice(free) if free else None

    def is_free(self, broker: EmbeddedBroker) -> bool:
        """Tell whether a broker runs and no other fault has it."""
        return broker.running and broker.broker_id not in self.busy

    def free_controller(self) -> EmbeddedBroker | None:
        """Return the active controller, unless another fault has it."""
        free = [one for one in self.cluster.brokers if self.is_free(one)]
        return next((one for one in free if one.server.services.controller.is_active), None)

    async def pass_time(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self.random.choice((self.random.uniform(least_s, most_s), least_s)))

    # processes and machines

    async def start(self, broker: EmbeddedBroker) -> None:
        """Start it, again and again, as a supervisor does."""
        while not await self.start_once(broker):
            await asyncio.sleep(RESTART_PAUSE_S)

    async def try_to_start(self, broker: EmbeddedBroker) -> None:
        """Start a broker that may never be able to again, a few times."""
        for _ in range(START_ATTEMPTS):
            if await self.start_once(broker):
                return
            await asyncio.sleep(RESTART_PAUSE_S)

    async def start_once(self, broker: EmbeddedBroker) -> bool:
        """Start a broker; tell whether it is up."""
        try:
            await broker.start()
        except CANNOT_START as failure:
            self.history.note(f"broker-{broker.broker_id} cannot start: {failure}")
            if MOVE_AWAY in str(failure):
                move_away_older_copies(broker.files)
            return False
        self.history.note(f"broker-{broker.broker_id} is up")
        return True

    async def start_again_those_with_offline_directories(self) -> None:
        """Kill and start brokers with an offline directory, as a person does after a disk was full or had failed."""
        for broker in self.cluster.brokers:
            directories = broker.server.services.logs.directories if broker.running else {}
            if any(directory.offline is not None for directory in directories.values()):
                self.history.note(f"{broker.host} has offline directories")
                await self.kill_free(broker)

    async def kill_free(self, broker: EmbeddedBroker) -> None:
        """Kill a broker that no other fault has, and keep it from them until it is there again."""
        self.busy.add(broker.broker_id)
        await self.kill_and_start(broker)
        self.busy.discard(broker.broker_id)

    async def kill_and_start(self, broker: EmbeddedBroker) -> None:
        """Kill a broker, and start it again after a while."""
        self.history.note(f"kill broker-{broker.broker_id}")
        broker.kill()
        await self.pass_time(0.05, 12.0)
        await self.start(broker)

    async def kill(self) -> None:
        broker = self.pick()
        if broker is not None:
            await self.kill_free(broker)

    async def kill_controller(self) -> None:
        broker = self.free_controller()
        if broker is not None:
            await self.kill_free(broker)

    async def kill_all(self) -> None:
        """Kill all brokers that are free at once; they come back one after another, in any order."""
        free = [one for one in self.cluster.brokers if self.is_free(one)]
        await asyncio.gather(*(self.kill_free(broker) for broker in free))

    async def power_failure(self) -> None:
        await self.lose_data("power failure", lambda broker: broker.power_failure())

    async def lose_data(self, what: str, strike: Callable[[EmbeddedBroker], object]) -> None:
        """Strike a broker while all is well, and start it again after a while."""

        async def lose(broker: EmbeddedBroker) -> None:
            self.history.note(f"{what} of broker-{broker.broker_id}")
            strike(broker)
            self.on_lost_data(broker)
            await self.pass_time(0.05, 12.0)
            await self.start(broker)

        await self.alone_while_well(lose)

    async def alone_while_well(self, deed: Callable[[EmbeddedBroker], Awaitable[None]]) -> None:
        """Do something to a broker only while all is well, and alone until all is well again: what it loses, another
        replica has."""
        self.exclusive = True
        try:
            if self.busy or not await self._until_well():
                return
            broker = self.pick()
            assert broker is not None
            self.busy.add(broker.broker_id)
            await deed(broker)
            self.busy.discard(broker.broker_id)
            await self._until_well()
        finally:
            self.exclusive = False

    async def _until_well(self) -> bool:
        for _ in range(100):
            if self.all_in_sync():
                return True
            await asyncio.sleep(0.3)
        return False

    def all_in_sync(self) -> bool:
        """Tell whether every broker runs, and every partition has all its replicas in its ISR, as its leader knows."""
        if not all(broker.running for broker in self.cluster.brokers):
            return False
        held = [p for broker in self.cluster.brokers for p in broker.server.services.replicas.partitions.values()]
        led = {(p.topic, p.index) for p in held if p.is_leader and p.committed_isr == set(p.replicas)}
        return {(p.topic, p.index) for p in held} == led

    async def shutdown(self) -> None:
        broker = self.pick()
        if broker is not None:
            await self.shut_down_and_start(broker)

    async def shut_down_and_start(self, broker: EmbeddedBroker) -> None:
        """Shut a broker down that no other fault has, and keep it from them until it is there again."""
        self.busy.add(broker.broker_id)
        await self.stop(broker, broker.kill)
        await self.pass_time(0.05, 10.0)
        await self.start(broker)
        self.busy.discard(broker.broker_id)

    async def stop(self, broker: EmbeddedBroker, strike: Callable[[], object]) -> None:
        """Shut a broker down in a controlled way, and strike it when that takes too long."""
        self.history.note(f"controlled shutdown of broker-{broker.broker_id}")
        stopping = asyncio.ensure_future(broker.stop())
        done, _ = await asyncio.wait([stopping], timeout=STOP_PATIENCE_S)
        if not done:
            self.history.note(f"broker-{broker.broker_id} does not stop: it is struck")
            strike()
        with contextlib.suppress(ProcessKilled):
            await stopping

    async def suspend(self) -> None:
        """Suspend a broker for a while, as SIGSTOP does; the controller as often as not."""
        broker = self.pick()
        if broker is not None and self.random.random() < 0.5:
            broker = self.free_controller() or broker
        if broker is None:
            return
        self.busy.add(broker.broker_id)
        self.history.note(f"suspend broker-{broker.broker_id}")
        broker.suspend()
        await self.pass_time(0.5, 25.0)
        self.history.note(f"resume broker-{broker.broker_id}")
        broker.resume()
        self.busy.discard(broker.broker_id)

    async def wall_clock(self) -> None:
        """Set one machine's clock wrong by seconds, minutes or hours; put it right again, or not."""
        broker = self.random.choice(self.cluster.brokers)
        for _ in range(self.random.randint(1, 4)):
            step_ms = self.random.choice((1, -1)) * self.random.choice((3_000, 60_000, 1_200_000, 20_000_000))
            self.history.note(f"wall clock of {broker.host}: {step_ms} ms")
            broker.clock.wall_offset_ms += step_ms
            await self.pass_time(0.1, 6.0)
        if self.random.random() < 0.7:
            broker.clock.wall_offset_ms = self.cluster.clock.wall_offset_ms

    # the network

    async def _cut(self, ways: list[tuple[str, str]], what: str, most_s: float = 25.0) -> None:
        self.history.note(f"cut {what}")
        for source, target in ways:
            self.cluster.network.cut(source, target, one_way=True)
        await self.pass_time(1.0, most_s)
        self.history.note(f"heal {what}")
        for source, target in ways:
            self.cluster.network.heal_way(source, target)

    def _hosts(self, *, clients: bool) -> list[str]:
        brokers = [broker.host for broker in self.cluster.brokers]
        return [*brokers, *CLIENTS] if clients else brokers

    async def isolate(self) -> None:
        """Cut one broker off from everybody, ZooKeeper too."""
        broker = self.pick()
        if broker is None:
            return
        store, host = broker.store, broker.host
        self.cluster.zookeeper.partition(store, unnoticed_ms=self.random.choice((0, 2_000, 4_000)))
        others = [other for other in self._hosts(clients=True) if other != host]
        await self._cut([(host, o) for o in others] + [(o, host) for o in others], f"{host} off")
        self.cluster.zookeeper.heal(store)

    async def isolate_from_brokers(self) -> None:
        host = self.random.choice(self.cluster.brokers).host
        others = [other for other in self._hosts(clients=False) if other != host]
        some = self.random.sample(others, self.random.randint(1, len(others)))
        await self._cut([(host, o) for o in some] + [(o, host) for o in some], f"{host} off {some}")

    async def one_way(self) -> None:
        source, target = self.random.sample(self._hosts(clients=False), 2)
        await self._cut([(source, target)], f"{source} to {target}")

    async def cut_clients(self) -> None:
        """Cut some clients off from some brokers, in one direction or in both."""
        clients = self.random.sample(CLIENTS, self.random.randint(1, 4))
        hosts = self._hosts(clients=False)
        brokers = self.random.sample(hosts, min(len(hosts), self.random.randint(1, 2)))
        ways = [(client, broker) for client in clients for broker in brokers]
        back = [(broker, client) for client, broker in ways]
        which, said = self.random.choice(((ways, "to"), (back, "from"), (ways + back, "and")))
        await self._cut(which, f"{clients} {said} {brokers}")

    async def resets(self) -> None:
        hosts = self._hosts(clients=True)
        for _ in range(self.random.randint(1, 8)):
            host = self.random.choice(hosts)
            self.history.note(f"reset connections of {host}")
            self.cluster.network.reset(host)
            await self.pass_time(0.01, 1.0)

    async def slow_network(self) -> None:
        most_ms = self.random.choice((20.0, 100.0, 400.0))
        self.history.note(f"latency up to {most_ms} ms")
        with self.network_latency.at((0.1, most_ms)):
            await self.pass_time(1.0, 20.0)

    # administrators

    async def topics(self) -> None:
        await self._administrate(self.administrator.change_topics)

    async def reassign(self) -> None:
        await self._administrate(self.administrator.reassign)

    async def elect_leaders(self) -> None:
        await self._administrate(self.administrator.elect_leaders)

    async def move_directories(self) -> None:
        await self._administrate(self.administrator.move_directories)

    async def throttle(self) -> None:
        await self._administrate(self.administrator.throttle)

    async def _administrate(self, act: Callable[[], Awaitable[None]]) -> None:
        for _ in range(self.random.randint(1, 5)):
            await act()
            await self.pass_time(0.0, 3.0)
