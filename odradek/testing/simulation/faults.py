"""What goes wrong in a simulation. Each fault is a coroutine that begins it, lets some time pass, and ends it."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.broker.network.peer import Peer
from odradek.broker.server import StartFailure
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.history import History
from odradek.testing.virtual_process import ProcessKilled

RESTART_PAUSE_S = 0.5
STOP_PATIENCE_S = 20.0
ADMIN_TIMEOUT_MS = 5_000
LATENCY_MS = (0.1, 1.0)


class Faults:
    """The faults of one cluster. `busy`: brokers that are not to be touched by another fault."""

    def __init__(self, cluster: EmbeddedCluster, history: History, seed: int, topic: str) -> None:
        self.cluster, self.history, self.topic = cluster, history, topic
        self.random = random.Random(seed)
        self.busy: set[int] = set()
        self.exclusive = False
        self.under_way = 0
        self.partitions = 0
        """Of the topic, as far as they are known to have been made."""
        self.topics: list[str] = []
        """Further topics that exist for certain."""
        self._topic_number = 0
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self.kill,
            "kill_controller": self.kill_controller,
            "power_failure": self.power_failure,
            "isolate": self.isolate,
            "isolate_from_brokers": self.isolate_from_brokers,
            "one_way": self.one_way,
            "away_from_zookeeper": self.away_from_zookeeper,
            "session_expiry": self.session_expiry,
            "zookeeper_restart": self.zookeeper_restart,
            "lost_answers": self.lost_answers,
            "shutdown": self.shutdown,
            "slow_network": self.slow_network,
            "resets": self.resets,
            "topics": self.change_topics,
        }

    # choosing

    def _pick(self) -> EmbeddedBroker | None:
        """A running broker that no other fault has."""
        free = [one for one in self.cluster.brokers if one.running and one.broker_id not in self.busy]
        return self.random.choice(free) if free else None

    async def _pass(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self.random.choice((self.random.uniform(least_s, most_s), least_s)))

    # processes and machines

    async def start(self, broker: EmbeddedBroker) -> None:
        """Start it, again and again, as a supervisor does."""
        while True:
            try:
                await broker.start()
            except StartFailure as failure:
                self.history.note(f"broker-{broker.broker_id} cannot start: {failure}")
                await asyncio.sleep(RESTART_PAUSE_S)
            else:
                self.history.note(f"broker-{broker.broker_id} is up")
                return

    async def _kill(self, broker: EmbeddedBroker) -> None:
        self.busy.add(broker.broker_id)
        self.history.note(f"kill broker-{broker.broker_id}")
        broker.kill()
        await self._pass(0.05, 12.0)
        await self.start(broker)
        self.busy.discard(broker.broker_id)

    async def kill(self) -> None:
        broker = self._pick()
        if broker is not None:
            await self._kill(broker)

    async def kill_controller(self) -> None:
        for broker in self.cluster.brokers:
            free = broker.running and broker.broker_id not in self.busy
            if free and broker.server.services.controller.is_active:
                await self._kill(broker)
                return

    async def power_failure(self) -> None:
        """Only while all is well, and alone until all is well again: what it takes away, another replica has."""
        self.exclusive = True
        try:
            if self.busy or not await self._until_well():
                return
            broker = self._pick()
            assert broker is not None
            self.busy.add(broker.broker_id)
            self.history.note(f"power failure of broker-{broker.broker_id}")
            broker.power_failure()
            await self._pass(0.05, 12.0)
            await self.start(broker)
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
        """Every broker runs, and every partition has all its replicas in its ISR, as its leader knows."""
        if not all(broker.running for broker in self.cluster.brokers):
            return False
        held = [p for broker in self.cluster.brokers for p in broker.server.services.replicas.partitions.values()]
        led = {(p.topic, p.index) for p in held if p.is_leader and p.committed_isr == set(p.replicas)}
        return {(p.topic, p.index) for p in held} == led

    async def shutdown(self) -> None:
        broker = self._pick()
        if broker is None:
            return
        self.busy.add(broker.broker_id)
        self.history.note(f"controlled shutdown of broker-{broker.broker_id}")
        stopping = asyncio.ensure_future(broker.stop())
        done, _ = await asyncio.wait([stopping], timeout=STOP_PATIENCE_S)
        if not done:
            self.history.note(f"broker-{broker.broker_id} does not stop: kill")
            broker.kill()
        with contextlib.suppress(ProcessKilled):
            await stopping
        await self._pass(0.05, 10.0)
        await self.start(broker)
        self.busy.discard(broker.broker_id)

    # the network

    async def _cut(self, ways: list[tuple[str, str]], what: str, most_s: float = 25.0) -> None:
        self.history.note(f"cut {what}")
        for source, target in ways:
            self.cluster.network.cut(source, target, one_way=True)
        await self._pass(1.0, most_s)
        self.history.note(f"heal {what}")
        for source, target in ways:
            self.cluster.network.heal_way(source, target)

    def _hosts(self, *, clients: bool) -> list[str]:
        brokers = [broker.host for broker in self.cluster.brokers]
        return brokers + (
            ["producer-0", "producer-1", "consumer", "member-0", "member-1", "member-2"] if clients else []
        )

    async def isolate(self) -> None:
        """One broker from everybody, ZooKeeper too."""
        broker = self._pick()
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

    async def resets(self) -> None:
        hosts = self._hosts(clients=True)
        for _ in range(self.random.randint(1, 8)):
            host = self.random.choice(hosts)
            self.history.note(f"reset connections of {host}")
            self.cluster.network.reset(host)
            await self._pass(0.01, 1.0)

    async def slow_network(self) -> None:
        most_ms = self.random.choice((20.0, 100.0, 400.0))
        self.history.note(f"latency up to {most_ms} ms")
        self.cluster.network.latency_ms = (0.1, most_ms)
        await self._pass(1.0, 20.0)
        self.cluster.network.latency_ms = LATENCY_MS

    # ZooKeeper

    async def away_from_zookeeper(self) -> None:
        broker = self._pick()
        if broker is None:
            return
        store = broker.store
        self.history.note(f"broker-{broker.broker_id} loses ZooKeeper")
        self.cluster.zookeeper.partition(store, unnoticed_ms=self.random.choice((0, 0, 2_000, 4_000)))
        await self._pass(0.5, 15.0)
        self.history.note(f"broker-{broker.broker_id} has ZooKeeper back")
        self.cluster.zookeeper.heal(store)

    async def session_expiry(self) -> None:
        broker = self._pick()
        if broker is not None and self.cluster.zookeeper.has_session(broker.store.session_id):
            self.history.note(f"broker-{broker.broker_id}: session expires")
            self.cluster.zookeeper.expire_session(broker.store.session_id)

    async def zookeeper_restart(self) -> None:
        if self.cluster.zookeeper.serving:
            self.history.note("ZooKeeper stops")
            self.cluster.zookeeper.stop()
            await self._pass(0.2, 12.0)
            self.history.note("ZooKeeper is back")
            self.cluster.zookeeper.restart()

    async def lost_answers(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            broker = self._pick()
            if broker is not None:
                self.history.note(f"broker-{broker.broker_id}: an answer of ZooKeeper is lost")
                broker.store.lose_next_answer()
            await self._pass(0.05, 2.0)

    # topics

    async def change_topics(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            kind = self.random.choice(("create", "create", "delete", "grow"))
            if kind == "create":
                await self._create_topic()
            elif kind == "delete" and self.topics:
                await self._delete_topic(self.topics.pop(self.random.randrange(len(self.topics))))
            elif kind == "grow" and self.partitions < 5:
                asked = CreatePartitionsTopic(name=self.topic, count=self.partitions + 1, assignments=None)
                answer = await self.ask_controller(CreatePartitionsRequest(topics=[asked], timeout_ms=5_000), 3)
                if answer is not None and answer.results[0].error_code == ErrorCode.NONE:
                    self.partitions += 1
            await self._pass(0.0, 3.0)

    async def _create_topic(self) -> None:
        name = f"other-{self._topic_number}"
        self._topic_number += 1
        made = CreatableTopic(name=name, num_partitions=self.random.randint(1, 3), replication_factor=3)
        answer = await self.ask_controller(CreateTopicsRequest(topics=[made], timeout_ms=5_000), 7)
        if answer is not None and answer.topics[0].error_code == ErrorCode.NONE:
            self.topics.append(name)

    async def _delete_topic(self, name: str) -> None:
        await self.ask_controller(DeleteTopicsRequest(topic_names=[name], timeout_ms=5_000), 3)

    async def ask_controller(self, request: Message, version: int) -> Any:
        """The answer of whoever holds the office, or None when it cannot be had."""
        active = [b for b in self.cluster.brokers if b.running and b.server.services.controller.is_active]
        if not active:
            return None
        host = self.cluster.network.host("admin")
        peer = Peer(host, self.cluster.clock, active[0].host, self.cluster.port, "admin")
        try:
            answer = await peer.request(request, version, ADMIN_TIMEOUT_MS)
        except (OSError, TimeoutError) as error:
            self.history.note(f"admin: {type(request).__name__}: {error!r}")
            return None
        finally:
            peer.close()
        self.history.note(f"admin: {type(request).__name__} {answer!r:.150}")
        return answer
