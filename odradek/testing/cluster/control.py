"""What can be done with a cluster, as coroutines on its own loop.

Tests on a cluster's own loop (odradek.testing.run) use this directly; `Cluster` has the same methods without `async`.
"""

import asyncio
import contextlib
import random
from collections.abc import Mapping
from typing import Any

from odradek.broker.cluster.peer import BrokerUnreachable, Peer
from odradek.broker.network.answers import Answer, Client
from odradek.broker.network.connection import Dispatch
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
from odradek.testing.cluster.options import ClusterError, Options, quick_settings
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster, MachineClock
from odradek.testing.folder_disk import FolderDisk
from odradek.testing.process_loop import SocketLoop
from odradek.testing.socket_network import PortTaken, SocketNetwork
from odradek.testing.virtual_network import VirtualNetwork
from odradek.world.clock import LoopClock
from odradek.zk_schema.znodes.topics import topic_path

HOST = "test"
"""Whose connections are those of this file."""
REQUEST_TIMEOUT_MS = 30_000
WAIT_S = 30.0


class SocketClock(LoopClock):
    """Wall time, which may be set wrong for one machine."""

    def __init__(self, loop: SocketLoop) -> None:
        super().__init__(loop)
        self._socket_loop = loop
        self.wall_offset_ms = 0
        """What is added to the real time."""

    def now_ms(self) -> int:
        return super().now_ms() + self.wall_offset_ms

    def beside(self) -> "SocketClock":
        """A clock of the same loop with a wall clock of its own."""
        return SocketClock(self._socket_loop)


class AsyncCluster:
    """Brokers 0 to n-1 and their ZooKeeper, and all that a test may do to them and see of them."""

    def __init__(
        self, options: Options, clock: MachineClock, network: VirtualNetwork | SocketNetwork, seed: int
    ) -> None:
        """Raises ClusterError."""
        self.options = options
        folder = options.data
        settings = {**quick_settings(options.brokers), **options.settings}
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
        self.conditions = Conditions(clock, lambda awaited: self._arrange_all())
        self.embedded.zookeeper.committed = self.conditions.changed
        self._preparing: asyncio.Future[None] | None = None

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, `host:port,host:port,…`: for `bootstrap.servers`."""
        return ",".join(f"{host}:{port}" for host, port in (broker.address for broker in self.embedded.brokers))

    # life

    async def start(self) -> None:
        """Return when all brokers serve, know each other, and the topics asked for exist."""
        for broker in self.embedded.brokers:
            await self._start(broker)
        await self._until(self._is_whole, "all brokers to know each other")
        for topic, partitions in self.options.topics.items():
            await self.create_topic(topic, partitions)
        self._preparing = asyncio.ensure_future(self._prepare_groups())

    async def _prepare_groups(self) -> None:
        """Have `__consumer_offsets` made: a client that finds no coordinator waits before it asks again."""
        with contextlib.suppress(BrokerUnreachable):  # it was killed: whoever needs it asks again
            await self.ask(self.embedded.brokers[0], FindCoordinatorRequest(key=HOST), 2)

    async def _start(self, broker: EmbeddedBroker) -> None:
        await broker.start()
        broker.server.services.metadata.subscribe(self.conditions.changed)
        self._arrange(broker)

    def _is_whole(self) -> bool:
        running = {broker.broker_id: broker for broker in self.embedded.brokers if broker.running}
        known = [broker.server.services.metadata for broker in running.values()]
        return all(
            metadata.controller_id in running and metadata.brokers.keys() >= running.keys() for metadata in known
        )

    async def close(self) -> None:
        """End all brokers at once; data in a folder are closed as at a shutdown."""
        if self._preparing is not None:
            self._preparing.cancel()
        for broker in self.embedded.brokers:
            broker.resume()
            if self.options.data is not None and broker.running:
                await broker.run(broker.server.abort())
            if broker.alive:
                await self._kill(broker)
        if isinstance(self.network, SocketNetwork):
            self.network.close()

    async def _kill(self, broker: EmbeddedBroker) -> None:
        """As kill -9. What it has just begun to do takes its first step before, unseen: coroutines want to be begun."""
        self.network.end_programs(broker.host)
        for _ in range(2):
            await asyncio.sleep(0)
        if broker.alive:
            broker.kill()

    # what brokers do with requests

    def _arrange_all(self) -> None:
        for broker in self.embedded.brokers:
            if broker.running:
                self._arrange(broker)

    def _arrange(self, broker: EmbeddedBroker) -> None:
        """Put the dispatcher in that does what is asked for now, and nothing else."""
        sockets, dispatch = broker.server.sockets, broker.server.dispatch
        assert dispatch is not None, f"{broker.host} does not serve"
        sockets.dispatch = self._told(dispatch) if self.conditions else dispatch

    def _told(self, dispatch: Dispatch) -> Dispatch:
        """The same, and whoever waits for something looks behind each request."""

        def handle(frame: memoryview, client: Client) -> Answer:
            self.conditions.changed()
            return dispatch(frame, client)

        return handle

    # topics

    async def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replicas: int | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        assignment: Mapping[int, list[int]] | None = None,
    ) -> None:
        """Create it, and return when every broker knows the leaders of its partitions.

        `replicas`: of each partition, three or as many as there are brokers unless it is given. `assignment`: brokers
        by partition, the preferred leader first. Raises KafkaError, ClusterError.
        """
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
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in (settings or {}).items()],
        )
        answer = await self.ask_controller(CreateTopicsRequest(topics=[asked], timeout_ms=REQUEST_TIMEOUT_MS), 5)
        _check(answer.topics[0].error_code, answer.topics[0].error_message)
        count = len(assigned) or partitions
        await self._until(lambda: self._is_led(topic, count), f"all brokers to know {topic}")

    async def delete_topic(self, topic: str) -> None:
        """Delete it, and return when no broker knows it any more. Raises KafkaError."""
        answer = await self.ask_controller(DeleteTopicsRequest(topic_names=[topic], timeout_ms=REQUEST_TIMEOUT_MS), 5)
        _check(answer.responses[0].error_code, answer.responses[0].error_message)
        await self._until(lambda: self._is_gone(topic), f"{topic} to be gone")

    def _is_gone(self, topic: str) -> bool:
        known = any(topic in broker.server.services.metadata.topics for broker in self.running)
        return not known and self.embedded.zookeeper.tree.get(topic_path(topic)) is None

    def _is_led(self, topic: str, partitions: int) -> bool:
        known = [broker.server.services.metadata.topics.get(topic, {}) for broker in self.running]
        return all(len(states) == partitions and all(s.leader >= 0 for s in states.values()) for states in known)

    # finding one's way

    @property
    def running(self) -> list[EmbeddedBroker]:
        """Brokers that have started and were neither stopped nor killed since."""
        return [broker for broker in self.embedded.brokers if broker.running]

    def broker(self, broker_id: int) -> EmbeddedBroker:
        """Raises ClusterError where there is none of that id."""
        if not 0 <= broker_id < len(self.embedded.brokers):
            raise ClusterError(
                f"there is no broker {broker_id}: this cluster has 0 to {len(self.embedded.brokers) - 1}"
            )
        return self.embedded.brokers[broker_id]

    async def ask(self, broker: EmbeddedBroker, request: Message, version: int) -> Any:
        """Raises BrokerUnreachable."""
        peer = Peer(self.network.host(HOST), self.clock, *broker.address, "odradek.testing")
        try:
            return await peer.request(request, version, REQUEST_TIMEOUT_MS)
        finally:
            peer.close()

    async def ask_controller(self, request: Message, version: int) -> Any:
        """The answer of the active controller, as soon as there is one. Raises ClusterError, BrokerUnreachable."""
        await self._until(lambda: bool(self._controllers()), "a controller")
        return await self.ask(self._controllers()[0], request, version)

    def _controllers(self) -> list[EmbeddedBroker]:
        return [broker for broker in self.running if broker.server.services.controller.is_active]

    async def _until(self, condition: Any, what: str, timeout_s: float = WAIT_S) -> None:
        if not await self.conditions.until(condition, timeout_s):
            raise ClusterError(f"not within {timeout_s:g} s: {what}")


def _check(code: int, message: str | None) -> None:
    if code:
        raise KafkaError(error_code(code), message or "")


async def on_sockets(options: Options, loop: SocketLoop) -> AsyncCluster:
    """Make a cluster on real sockets of 127.0.0.1 and wall time, not started. Raises ClusterError."""
    network = SocketNetwork(loop)
    try:
        return AsyncCluster(options, SocketClock(loop), network, seed=random.SystemRandom().randrange(1 << 32))
    except PortTaken as taken:
        network.close()
        raise ClusterError(str(taken.strerror)) from taken
    except BaseException:
        network.close()
        raise
