"""ZooKeeper and brokers as processes of this machine: started together, watched, stopped in order.

A broker that dies stays dead: this only says so. Whoever else notices learns it from ZooKeeper, as in any cluster.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from odradek.broker.cluster.peer import BrokerUnreachable, Peer
from odradek.local.broker_files import HOST, SESSION_TIMEOUT_MS, BrokerFile
from odradek.local.ports import check_port_free
from odradek.local.processes import Child, described, locked, read_pid
from odradek.local.relay import Relay
from odradek.local.view import NO_CONTROLLER, ClusterView, Watcher, look
from odradek.local.zookeeper import NAME, SESSION_TIMEOUT_MAX_MS, EmbeddedZooKeeper
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.world.clock import LoopClock
from odradek.world.network import Network
from odradek.world.tasks import OnDeath, Tasks
from odradek.world.tcp import TcpNetwork
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.store import ConnectionLost, Stat, StoreError

if TYPE_CHECKING:
    from odradek.local.secure import SecureFiles

log = logging.getLogger(__name__)

READY_TIMEOUT_SECONDS = 150.0
"""Limit for a process that hangs; one that ends is noticed at once. A machine at its limit may need a minute."""
EXTERNAL_TIMEOUT_MS = 10_000
PROBE_TIMEOUT_MS = 2000
PROBE_PAUSE_SECONDS = 0.02
METADATA_VERSION = 4
GIVEN_BY_UP = {
    "broker.id": "which counts its brokers from 0",
    "zookeeper.connect": "which looks there for its brokers: `--zookeeper HOST:PORT/CHROOT` names another",
}
"""Settings that cannot be overridden → why, for the text of the error."""
BROKER_GRACE_SECONDS = 30.0
BROKER_COMMAND = (sys.executable, "-m", "odradek.broker")
UP_PID = "up.pid"
STARTING, REGISTERED, STOPPING = "starting", "registered", "stopping"
FROZEN, CUT_OFF = "frozen", "cut off from ZooKeeper"


class ClusterFailure(Exception):  # noqa: N818 (a sentence for a person)
    """The cluster could not be started; the text says why in one line."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Plan of a local cluster, as `odradek up` was asked for it."""

    directory: Path
    brokers: int = 3
    port: int = 9092
    """Port of broker 0; the others have the next ones."""
    zookeeper_port: int = 2181
    zookeeper: str | None = None
    """An external ZooKeeper, as in `zookeeper.connect`, instead of the embedded one."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    broker_command: Sequence[str] = BROKER_COMMAND
    secure: "SecureFiles | None" = None
    """Files that make the cluster a secure one."""
    metrics_port: int = 0
    """Port of broker 0's metrics; the others have the next ones. 0: none of them has one."""
    console_port: int | None = None
    """Port of a web page that can cut the brokers' way to the embedded ZooKeeper. 0: a free one; None: no page."""

    @property
    def zookeeper_connect(self) -> str:
        return self.zookeeper or f"{HOST}:{self.zookeeper_port}"

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.broker_files())

    def zookeeper_settings(self) -> dict[str, str]:
        """Return settings of the embedded ZooKeeper: it grants sessions as long as brokers are told to ask for."""
        asked = self.overrides.get("zookeeper.session.timeout.ms", "")
        longer = asked.isdecimal() and int(asked) > SESSION_TIMEOUT_MAX_MS
        return {"maxSessionTimeout": asked} if longer else {}

    def remarks(self) -> list[str]:
        """Return lines for people about settings that are unknown or have no effect.

        Raises ConfigError when no broker would start with these settings, or under a number that is not its own.
        """
        from odradek.broker.config import ConfigError, Given, read_config

        for name, instead in GIVEN_BY_UP.items():  # else all would wait for a broker that never registers there
            if name in self.overrides:
                raise ConfigError(f"--override: {name} is given by up, {instead}")
        settings = self.broker_files()[0].settings()
        return read_config(
            [Given(name, text, "--override" if name in self.overrides else "up") for name, text in settings.items()]
        )[1]

    def broker_files(self) -> list[BrokerFile]:
        directory = self.directory.resolve()
        return [
            BrokerFile(
                number,
                self.port + number,
                self.brokers,
                self.zookeeper_connect,
                directory,
                self.overrides,
                {} if self.secure is None else self.secure.broker_settings(number, self.port + number),
                self.metrics_port + number if self.metrics_port else 0,
            )
            for number in range(self.brokers)
        ]


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A broker, for a person who looks."""

    broker_id: int
    address: str
    pid: int
    state: str
    """`starting`, `registered`, `not registered`, `stopping`, `frozen`, `cut off …`, or how it ended. For people."""
    controller: bool


class LocalCluster:
    """A cluster's life. `changed` is called when something that a person may want to see has changed."""

    def __init__(self, plan: ClusterPlan, changed: Callable[[], None] = lambda: None) -> None:
        self.plan = plan
        self.brokers: dict[int, Child] = {}
        self.view = ClusterView({})
        self.zookeeper: EmbeddedZooKeeper | None = None
        self.ready = False
        self.changed_users: tuple[str, ...] = ()
        """Users of a secure cluster whose passwords are no longer those in the files that `up` has made."""
        self._stopping = False
        self.relays: dict[int, Relay] = {}
        """Each broker's way to ZooKeeper, where it can be cut."""
        self._files = {broker.broker_id: broker for broker in plan.broker_files()}
        self._changed = changed
        self._something_changed = asyncio.Event()
        self._started_ms, self._started_monotonic_ms = 0, 0.0
        self._past_epochs: set[int] = set()
        self._epochs_at_end: dict[int, int | None] = {}
        self._clock = LoopClock(asyncio.get_running_loop())
        self.tasks = Tasks(self._clock, log.critical)
        self._store = KazooStore(plan.zookeeper_connect, self._clock, session_timeout_ms=SESSION_TIMEOUT_MS)
        self._up_pid = plan.directory.resolve() / "run" / UP_PID
        self._own_pid: TextIO | None = None

    @property
    def directory(self) -> Path:
        return self.plan.directory.resolve()

    async def start(self) -> None:
        """Start all; return when it is ready. Raises ClusterFailure, NoZooKeeper, PortInUse; `stop` it then as well."""
        self._check_nothing_runs()
        self._started_ms, self._started_monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        self._up_pid.parent.mkdir(parents=True, exist_ok=True)
        self._own_pid = locked(self._up_pid)
        os.write(self._own_pid.fileno(), b"%d\n" % os.getpid())  # at once: of a full disk nothing is left to flush
        try:
            async with asyncio.timeout(READY_TIMEOUT_SECONDS):
                if self.plan.zookeeper is None:
                    await self._start_with_embedded()
                else:
                    await self._start_with_external()
                await self._wait_ready()
        except TimeoutError:
            raise ClusterFailure(self._why_not_ready()) from None
        except StoreError as error:
            raise ClusterFailure(f"the ZooKeeper at {self.plan.zookeeper_connect}: {error}") from None
        self.ready = True

    async def _start_with_embedded(self) -> None:
        """Brokers wait for ZooKeeper by themselves, so all are started at once."""
        self.zookeeper = EmbeddedZooKeeper(
            self.directory, self.plan.zookeeper_port, HOST, settings=self.plan.zookeeper_settings()
        )
        await self.zookeeper.launch()
        if self.plan.secure is None:
            await self._launch_brokers()
        await self.zookeeper.wait_ready()
        self.tasks.spawn("end-of-zookeeper", partial(self._await_end_of_zookeeper, self.zookeeper), OnDeath.REPORT)
        await self._store.start(READY_TIMEOUT_SECONDS * 1000)
        if self.plan.secure is not None:  # the brokers log in to each other: their user has to be there first
            await self._write_users()
            await self._launch_brokers()
        self._watch()

    async def _start_with_external(self) -> None:
        try:
            await self._store.start(EXTERNAL_TIMEOUT_MS)
        except ConnectionLost:
            raise ClusterFailure(f"no ZooKeeper answers at {self.plan.zookeeper_connect}") from None
        await self._write_users()
        past = await look(self._store)
        self._past_epochs = {stat.czxid for stat in past.registered.values()}
        await self._launch_brokers()
        self._watch()

    async def _write_users(self) -> None:
        if self.plan.secure is not None:
            self.changed_users = await self.plan.secure.write_to(self._store, self._clock)

    async def _launch_brokers(self) -> None:
        if self.plan.console_port is not None and self.plan.zookeeper is None:
            await self._take_in_hand()
        for broker in self._files.values():
            broker.write()
            await self.launch(broker.broker_id)

    async def _take_in_hand(self) -> None:
        for number, file in self._files.items():
            relay = self.relays[number] = Relay((HOST, self.plan.zookeeper_port), self.tasks)
            self._files[number] = replace(file, zookeeper=f"{HOST}:{await relay.listen()}")

    async def launch(self, broker_id: int) -> None:
        """Start a broker, which must not be running, from its properties file."""
        broker = self._files[broker_id]
        child = await Child.start(broker.name, [*self.plan.broker_command, str(broker.path)], self.directory)
        self.brokers[broker_id] = child
        self.tasks.spawn(f"end-of-{broker.name}", partial(self._await_end, broker_id, child), OnDeath.REPORT)

    def _check_nothing_runs(self) -> None:
        up_pid = read_pid(self._up_pid)
        if up_pid not in (None, os.getpid()):
            user = f"another `odradek up` ({described(up_pid)})"
            raise ClusterFailure(f"{self.directory} is in use by {user}: odradek stop")
        for name in (NAME, *(broker.name for broker in self._files.values())):
            pid = read_pid(self.directory / "run" / f"{name}.pid")
            if pid is not None:
                raise ClusterFailure(f"{name} of an earlier run still runs ({described(pid)}): odradek stop")
        for broker in self._files.values():
            check_port_free(HOST, broker.port, f"broker {broker.broker_id}")

    # While it runs.

    async def _await_end(self, broker_id: int, child: Child) -> None:
        await child.wait()
        self._epochs_at_end[broker_id] = self._epoch(broker_id)
        self.tell()

    async def _await_end_of_zookeeper(self, zookeeper: EmbeddedZooKeeper) -> None:
        await zookeeper.until_end()
        self.tell()

    def _epoch(self, broker_id: int) -> int | None:
        """Return the broker epoch of the registration that ZooKeeper has (its czxid); None when it has none."""
        stat = self.view.registered.get(broker_id)
        return None if stat is None else stat.czxid

    def _watch(self) -> None:
        self.tasks.spawn("watcher", Watcher(self._store, self._see).run, OnDeath.RESTART)

    def _see(self, view: ClusterView) -> None:
        self.view = view
        self.tell()

    def tell(self) -> None:
        """Say that something has changed."""
        self._something_changed.set()
        self._changed()

    def statuses(self) -> list[BrokerStatus]:
        """List the status of every broker, by id."""
        return [self._status(broker_id, child) for broker_id, child in sorted(self.brokers.items())]

    def _status(self, broker_id: int, child: Child) -> BrokerStatus:
        epoch = self._epoch(broker_id)
        if child.alive and self._stopping:
            state = STOPPING
        elif child.alive and child.suspended:
            state = FROZEN
        elif child.alive and broker_id in self.relays and self.relays[broker_id].is_cut:
            state = CUT_OFF
        elif child.alive and epoch is None:
            state = "not registered" if self.ready else STARTING
        elif child.alive:
            state = REGISTERED
        elif epoch is None:
            state = child.describe_end()
        elif epoch == self._epochs_at_end.get(broker_id):
            state = f"{child.describe_end()}; its ZooKeeper session has not ended yet"
        else:
            state = f"{REGISTERED} (started by somebody else)"
        controller = epoch is not None and self.view.controller_id == broker_id
        return BrokerStatus(broker_id, self._files[broker_id].address, child.pid, state, controller)

    # Readiness.

    async def _wait_ready(self) -> None:
        """Wait until all are registered, one of them as controller, and every broker's Metadata names all of them."""
        while not self._all_registered():
            self._check_all_alive()
            self._something_changed.clear()
            await self._something_changed.wait()
        network = self._network(TcpNetwork(asyncio.get_running_loop()))
        await asyncio.gather(*(self._wait_for_metadata(network, one) for one in self._files.values()))

    def _network(self, network: Network) -> Network:
        """Return the network to reach the brokers by; in a secure cluster it logs in as their own user."""
        if self.plan.secure is None:
            return network
        from odradek.local.secure import BROKER, LISTENER
        from odradek.security.secure_network import ClientSecurity, SecureNetwork

        settings = {**self.plan.secure.client_settings(BROKER), "ssl.endpoint.identification.algorithm": "https"}
        return SecureNetwork(network, self._clock, ClientSecurity.read(LISTENER, settings.get))

    def _all_registered(self) -> bool:
        registered = {number for number, stat in self.view.registered.items() if self._is_new(stat)}
        return set(self._files) <= registered and self.view.controller_id in self._files

    def _is_new(self, stat: Stat) -> bool:
        """Tell whether a registration is of this run, and not of one that was killed a moment ago.

        The clock of an external ZooKeeper may be another than ours; the embedded one has no past that we could have
        seen before the brokers. Where our clock was set back meanwhile, the start counts from the time that has passed.
        """
        if self.plan.zookeeper is None:
            passed_ms = self._clock.monotonic_ms() - self._started_monotonic_ms
            return stat.created_ms >= min(self._started_ms, self._clock.now_ms() - passed_ms)
        return stat.czxid not in self._past_epochs

    async def _wait_for_metadata(self, network: Network, broker: BrokerFile) -> None:
        peer = Peer(network, self._clock, HOST, broker.port, "odradek-up")
        try:
            while not self._knows_all(await self._ask(peer)):
                self._check_all_alive()
                await asyncio.sleep(PROBE_PAUSE_SECONDS)
        finally:
            peer.close()

    async def _ask(self, peer: Peer) -> MetadataResponse | None:
        try:
            answer = await peer.request(MetadataRequest(topics=[]), METADATA_VERSION, PROBE_TIMEOUT_MS)
        except (BrokerUnreachable, MalformedMessage):
            return None
        assert isinstance(answer, MetadataResponse), answer
        return answer

    def _knows_all(self, answer: MetadataResponse | None) -> bool:
        if answer is None:
            return False
        return set(self._files) <= {broker.node_id for broker in answer.brokers} and answer.controller_id in self._files

    def _check_all_alive(self) -> None:
        if self.zookeeper is not None:
            self.zookeeper.check_alive()
        for broker_id, child in self.brokers.items():
            if not child.alive:
                raise ClusterFailure(f"broker {broker_id} {child.describe_end()}: {child.last_line()}")

    def _why_not_ready(self) -> str:
        missing = sorted(set(self._files) - set(self.view.registered))
        seconds = f"within {READY_TIMEOUT_SECONDS:.0f} s"
        if missing:
            return f"brokers {missing} did not register {seconds}: see {self.directory / 'logs'}"
        if self.view.controller_id == NO_CONTROLLER:
            return f"no controller was elected {seconds}: see {self.directory / 'logs'}"
        return f"not every broker learnt of all others {seconds}: see {self.directory / 'logs'}"

    # The end.

    def kill(self) -> None:
        """Kill everything at once and without a word, for a person who cannot wait."""
        children = [*self.brokers.values(), *([self.zookeeper.child] if self.zookeeper else [])]
        for child in children:
            if child is not None:
                child.kill()

    async def stop(self) -> None:
        """Stop the brokers, in a controlled way and all at once, then ZooKeeper. Harmless at any time."""
        self._stopping = True
        self.tell()
        for relay in self.relays.values():
            relay.mend()
        await asyncio.gather(*(child.stop(BROKER_GRACE_SECONDS) for child in self.brokers.values()))
        self.tasks.close()
        await self._store.close()
        for relay in self.relays.values():
            relay.close()
        if self.zookeeper is not None:
            await self.zookeeper.stop()
        if self._own_pid is not None:
            self._up_pid.unlink(missing_ok=True)
            self._own_pid.close()
