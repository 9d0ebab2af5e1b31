"""The brokers of a cluster, on its own loop: their life, their topics, and how this side finds its way about them."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from odradek.broker.cluster.peer import BrokerUnreachable, Peer
from odradek.broker.config import ConfigError
from odradek.broker.log.errors import UnusableDirectory
from odradek.broker.network.outcomes import Answer, Client, Dispatch
from odradek.broker.requests.dispatch import Dispatcher
from odradek.broker.server import StartFailure
from odradek.protocol.errors import KafkaError, error_code
from odradek.protocol.fields import Message
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.testing.cluster.conditions import Conditions
from odradek.testing.cluster.options import QUICK_SETTINGS, ClusterError, Options, setting_texts, small_settings
from odradek.testing.cluster.protocol_faults import Fault, ProtocolFaults
from odradek.testing.cluster.trace import Trace
from odradek.testing.cluster.views import Moment
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster, MachineClock
from odradek.testing.memory_tree import Change
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.socket_network import OUTSIDE, SocketNetwork
from odradek.testing.virtual_network import VirtualNetwork
from odradek.world.files import File
from odradek.world.os_files import OsFiles
from odradek.zk_schema.store import StoreError, WatchKind
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH, broker_path
from odradek.zk_schema.znodes.controller import CONTROLLER_PATH, ControllerRegistration
from odradek.zk_schema.znodes.topics import TOPICS_PATH, PartitionState, topic_path


class FolderDisk(OsFiles):
    """Files of the operating system. The locks of a killed broker end with it, though this process lives on."""

    def __init__(self) -> None:
        self._locks: list[File] = []

    def lock(self, path: str) -> File:
        lock = super().lock(path)
        self._locks.append(lock)
        return lock

    def kill(self) -> None:
        """End the process that holds them: open files and locks are gone, written bytes stay."""
        for lock in self._locks:
            lock.close()
        self._locks.clear()


HOST = "test"
"""Host whose connections are those of this file."""
REQUEST_TIMEOUT_MS = 30_000
WAIT_S = PATIENCE_SECONDS
MOMENTS_MAX = 10_000
"""Moments that are remembered, the last ones."""


class ClusterCore:
    """Brokers 0 to n-1 and their ZooKeeper."""

    def __init__(
        self, options: Options, clock: MachineClock, network: VirtualNetwork | SocketNetwork, seed: int
    ) -> None:
        """Raises ClusterError."""
        self.options = options
        folder = options.data
        quick = QUICK_SETTINGS if isinstance(network, SocketNetwork) else {}
        settings = {**small_settings(options.brokers), **quick, **options.settings}
        if folder is not None:
            if any(folder.glob("broker-*")):
                raise ClusterError(f"{folder} has the data of another cluster, whose topics nobody knows any more")
            settings.setdefault("log.dirs", str(folder.absolute() / "broker-{}"))
        self.embedded = EmbeddedCluster(
            clock,
            options.brokers,
            settings,
            seed,
            network=network,
            make_disk=(lambda broker: FolderDisk()) if folder is not None else None,
            first_port=options.port,
        )
        self.clock, self.network = clock, network
        self.conditions = Conditions(clock, lambda awaited: self.arrange_all())
        self.embedded.zookeeper.committed = self._committed
        self.faults = ProtocolFaults(network)
        self.faults.spared = frozenset({HOST, *(broker.host for broker in self.embedded.brokers)})
        self.faults.changed = self._faults_changed
        self.trace = Trace(clock, self.is_client) if options.trace else None
        self._began_ms = clock.monotonic_ms()
        self.moments: deque[Moment] = deque(maxlen=MOMENTS_MAX)
        self._partitions: dict[str, str] = {}
        self.ending: list[asyncio.Future[Any]] = []
        """What goes on in the background, and ends with the cluster."""

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, `host:port,host:port,…`: for `bootstrap.servers`."""
        return ",".join(f"{host}:{port}" for host, port in (broker.address for broker in self.embedded.brokers))

    # life

    async def start(self) -> None:
        """Return when all brokers serve, know each other, and the topics asked for exist."""
        for broker in self.embedded.brokers:
            await self.start_broker(broker)
        await self.until(self.is_whole, "all brokers to know each other")
        for topic, partitions in self.options.topics.items():
            await self.create_topic(topic, partitions)
        self.ending.append(asyncio.ensure_future(self._prepare_groups()))

    async def _prepare_groups(self) -> None:
        """Have `__consumer_offsets` made: a client that finds no coordinator waits before it asks again."""
        with contextlib.suppress(BrokerUnreachable):  # it was killed: whoever needs it asks again
            await self.ask(self.embedded.brokers[0], FindCoordinatorRequest(key=HOST), 2)

    async def start_broker(self, broker: EmbeddedBroker) -> None:
        """Begin a life of it. Raises ClusterError, ProcessKilled."""
        try:
            await broker.start()
        except (StartFailure, StoreError, UnusableDirectory) as failure:
            raise ClusterError(f"broker {broker.broker_id} cannot start: {failure}") from failure
        except ConfigError as error:
            raise ClusterError(str(error)) from error
        broker.server.services.metadata.subscribe(self.conditions.changed)
        self._arrange(broker)

    def is_whole(self) -> bool:
        """Tell whether all brokers that run are registered, and the controller and all of them know it.

        Metadata alone may be of before: who has lost its session is in them until the controller hears of it.
        """
        running = {broker.broker_id: broker for broker in self.embedded.brokers if broker.running}
        nodes = {broker: self.embedded.zookeeper.tree.get(broker_path(broker)) for broker in running}
        epochs = {broker: node.czxid for broker, node in nodes.items() if node is not None}
        if not running or epochs.keys() != running.keys():
            return not running
        states = [controller.server.services.controller.state for controller in self.controllers()]
        heard = [{one: known.epoch for one, known in state.brokers.items()} for state in states if state is not None]
        if len(heard) != 1 or any(heard[0].get(broker) != epoch for broker, epoch in epochs.items()):
            return False
        known = [broker.server.services.metadata for broker in running.values()]
        return all(
            metadata.controller_id in running and metadata.brokers.keys() >= running.keys() for metadata in known
        )

    async def close(self) -> None:
        """End all brokers at once; data in a folder are closed as at a shutdown."""
        for background in self.ending:
            background.cancel()
        for broker in self.embedded.brokers:
            broker.resume()
            if self.options.data is not None and broker.running:
                await broker.run(broker.server.abort())
        await self.end_brokers(*self.embedded.brokers)
        if isinstance(self.network, SocketNetwork):
            self.network.close()

    async def end_brokers(self, *brokers: EmbeddedBroker) -> None:
        """End the brokers as kill -9 does.

        What they have just begun to do takes its first step before, unseen: coroutines want to begin.
        """
        for broker in brokers:
            self.network.end_programs(broker.host)
        for _ in range(2):
            await asyncio.sleep(0)
        for broker in brokers:
            if broker.alive:
                broker.kill()

    # what brokers do with requests

    def is_client(self, peer: str) -> bool:
        """Tell whether an address is that of a client: of none of the brokers, nor of this side."""
        return self.network.owner(peer) not in self.faults.spared

    async def age_ms(self) -> float:
        """Milliseconds since the cluster began, as `timeline` counts."""
        return self.clock.monotonic_ms() - self._began_ms

    def note(self, who: str, text: str) -> None:
        """A moment of the timeline."""
        self.moments.append(Moment(self.clock.monotonic_ms() - self._began_ms, who, text))

    def _committed(self, changes: Sequence[Change]) -> None:
        """ZooKeeper holds something else."""
        self.conditions.changed()
        for change in changes:
            path = change.path
            if path.startswith(BROKER_IDS_PATH + "/"):
                gone = change.kind is WatchKind.DELETED
                self.note("zookeeper", f"broker {path.rpartition('/')[2]} {'is gone' if gone else 'is registered'}")
            elif path == CONTROLLER_PATH and change.kind is WatchKind.CREATED:
                elected = ControllerRegistration.decode(self.embedded.zookeeper.data(path)).broker_id
                self.note("zookeeper", f"broker {elected} is controller")
            elif path.startswith(TOPICS_PATH) and path.endswith("/state"):
                self._note_partition(path, change.kind)

    def _note_partition(self, path: str, kind: WatchKind) -> None:
        _, _, _, topic, _, partition, _ = path.split("/")
        if kind is WatchKind.DELETED:
            self.note("zookeeper", f"{topic}-{partition} is deleted")
            return
        state = PartitionState.decode(topic, int(partition), self.embedded.zookeeper.data(path))
        leader = f"led by {state.leader}" if state.leader >= 0 else "without leader"
        text = f"{topic}-{partition} is {leader}, in sync {', '.join(map(str, sorted(state.isr)))}"
        if self._partitions.get(path) != text:
            self._partitions[path] = text
            self.note("zookeeper", text)

    def _faults_changed(self, struck: Fault, client: str) -> None:
        """A fault has struck, and perhaps for the last time."""
        self.note("test", f"{struck} struck {client or 'a client'}")
        self.conditions.changed()
        if not self.faults:
            self.arrange_all()

    def arrange_all(self) -> None:
        for broker in self.embedded.brokers:
            if broker.running:
                self._arrange(broker)

    def _arrange(self, broker: EmbeddedBroker) -> None:
        """Put the dispatcher in that does what is asked for now, and nothing else."""
        server = broker.server
        assert server.dispatch is not None, f"{broker.host} does not serve"
        faulty = (
            Dispatcher(server.services, self.faults.modules(), self.embedded.clock).dispatch if self.faults else None
        )
        dispatch = faulty or server.dispatch
        if self.conditions:
            dispatch = self._told(dispatch)
        server.sockets.dispatch = dispatch if self.trace is None else self.trace.around(dispatch, broker.broker_id)

    def _told(self, dispatch: Dispatch) -> Dispatch:
        """Return a dispatcher that does the same, and has whoever waits for something look behind each request."""

        def handle(frame: memoryview, client: Client) -> Answer:
            self.conditions.changed()
            return dispatch(frame, client)

        return handle

    async def is_running(self, broker: int) -> bool:
        """Tell whether a broker has started and was neither stopped nor killed since."""
        return self.broker(broker).running

    async def is_plain(self) -> bool:
        """Tell whether nothing stands between the requests of all brokers and their handlers now."""
        return self.trace is None and all(one.server.sockets.dispatch == one.server.dispatch for one in self.running)

    # topics

    async def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replicas: int | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        assignment: Mapping[int, list[int]] | None = None,
    ) -> None:
        """Create a topic, and return when every broker knows the leaders of its partitions.

        `replicas`: of each partition; None: three, or the number of brokers if that is less. `settings`: topic configs
        by Kafka's names. `assignment`: partition → brokers, the preferred leader first, in place of `partitions` and
        `replicas`. Raises KafkaError, ClusterError.
        """
        for broker_id in {number for brokers in (assignment or {}).values() for number in brokers}:
            self.broker(broker_id)  # Kafka's controller would wait for it
        assigned = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in (assignment or {}).items()
        ]
        copies = -1 if replicas is None else replicas
        asked = CreatableTopic(
            name=topic,
            num_partitions=-1 if assigned else partitions,
            replication_factor=-1 if assigned else copies,
            assignments=assigned,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in setting_texts(settings).items()],
        )
        answer = await self.ask_controller(CreateTopicsRequest(topics=[asked], timeout_ms=REQUEST_TIMEOUT_MS), 5)
        check(answer.topics[0].error_code, answer.topics[0].error_message)
        count = answer.topics[0].num_partitions  # -1 asked for the brokers' default
        await self.until(lambda: self._is_led(topic, count), f"all brokers to know {topic}")

    async def delete_topic(self, topic: str) -> None:
        """Delete it, and return when no broker knows it any more. Raises KafkaError."""
        answer = await self.ask_controller(DeleteTopicsRequest(topic_names=[topic], timeout_ms=REQUEST_TIMEOUT_MS), 5)
        check(answer.responses[0].error_code, answer.responses[0].error_message)
        await self.until(lambda: self._is_gone(topic), f"{topic} to be gone")

    async def topics(self) -> list[str]:
        """Names of all topics but Kafka's own, in order."""
        held = self.embedded.zookeeper.tree.get(TOPICS_PATH)
        return sorted(name for name in (held.children if held is not None else ()) if not name.startswith("__"))

    def _is_gone(self, topic: str) -> bool:
        known = any(topic in broker.server.services.metadata.topics for broker in self.running)
        return not known and self.embedded.zookeeper.tree.get(topic_path(topic)) is None

    def _is_led(self, topic: str, partitions: int) -> bool:
        known = [broker.server.services.metadata.topics.get(topic, {}) for broker in self.running]
        return all(len(states) == partitions and all(s.leader >= 0 for s in states.values()) for states in known)

    # finding one's way

    def client_hosts(self) -> list[str]:
        """Hosts of all clients."""
        return [OUTSIDE]

    @property
    def running(self) -> list[EmbeddedBroker]:
        """Brokers that have started and were neither stopped nor killed since."""
        return [broker for broker in self.embedded.brokers if broker.running]

    def broker(self, broker_id: int) -> EmbeddedBroker:
        """Return a broker. Raises ClusterError where there is none of that id."""
        if not isinstance(broker_id, int) or not 0 <= broker_id < len(self.embedded.brokers):
            raise ClusterError(
                f"there is no broker {broker_id!r}: this cluster has 0 to {len(self.embedded.brokers) - 1}"
            )
        return self.embedded.brokers[broker_id]

    async def ask(self, broker: EmbeddedBroker, request: Message, version: int) -> Any:
        """Ask a broker; return its answer. Raises BrokerUnreachable."""
        peer = Peer(self.network.host(HOST), self.clock, *broker.address, "odradek.testing")
        try:
            return await peer.request(request, version, REQUEST_TIMEOUT_MS)
        finally:
            peer.close()

    async def ask_controller(self, request: Message, version: int) -> Any:
        """Ask the active controller, as soon as there is one. Raises ClusterError, BrokerUnreachable."""
        await self.until(lambda: bool(self.controllers()), "a controller")
        return await self.ask(self.controllers()[0], request, version)

    def controllers(self) -> list[EmbeddedBroker]:
        """Return the broker that is the active controller, if there is one now."""
        return [broker for broker in self.running if broker.server.services.controller.is_active]

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        """Wait until a condition holds. Raises ClusterError, with what was waited for."""
        if not await self.conditions.until(condition, timeout_s):
            raise ClusterError(f"not within {timeout_s:g} s: {what}")


def check(code: int, message: str | None) -> None:
    if code:
        raise KafkaError(error_code(code), message or "")
