"""A simulated run: brokers, producers, a consumer and a group, faults for a while, then calm, then the verdict.

    report = simulate(Plan(seed=7))
    assert report.violation is None, report.text()

Everything is decided by the seed. The faults end at `faults_s`; after that all must come to rest within PATIENCE_S.
"""

import asyncio
import math
import random
from functools import partial

from odradek.client.records import TopicPartition
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation import loose_topic
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.awkward_moments import AwkwardMoments
from odradek.testing.simulation.bit_rot import BitRot
from odradek.testing.simulation.client_faults import ClientFaults
from odradek.testing.simulation.clients import SimulatedConsumer, SimulatedProducer
from odradek.testing.simulation.connectors import OwnedPartitions, SimulatedConnector
from odradek.testing.simulation.coordinators import Coordinators
from odradek.testing.simulation.cut_moments import CutMoments
from odradek.testing.simulation.decisions import Decisions
from odradek.testing.simulation.derived_state import DerivedState
from odradek.testing.simulation.disk_faults import DiskFaults
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.fences import Fences
from odradek.testing.simulation.group_members import DepartedMembers, Generations
from odradek.testing.simulation.history import History, logs_noted
from odradek.testing.simulation.inspection import Inspection
from odradek.testing.simulation.liveness import Lagging, Waits, Work
from odradek.testing.simulation.loose_topic import LooseTopic
from odradek.testing.simulation.old_clients import OldClients
from odradek.testing.simulation.operations import Operations
from odradek.testing.simulation.plans import (
    ALONE,
    CALM,
    DRAWN,
    FAULT_KINDS,
    DrawnHere,
    Occurrence,
    Plan,
    Report,
)
from odradek.testing.simulation.producer_id_moments import ProducerIdMoments
from odradek.testing.simulation.repeated_requests import RepeatedRequests
from odradek.testing.simulation.request_moments import RequestMoments
from odradek.testing.simulation.safety import Safety
from odradek.testing.simulation.stale_requests import StaleRequests
from odradek.testing.simulation.transaction_moments import TransactionMoments
from odradek.testing.simulation.transactional_positions import TOPIC as TRANSACTIONAL_TOPIC
from odradek.testing.simulation.transactions import PARTITIONS as TRANSACTIONAL_PARTITIONS
from odradek.testing.simulation.transactions import CommittedReader, Transactions
from odradek.testing.simulation.transactions_by_hand import ByHandMoments
from odradek.testing.simulation.under_way_moments import UnderWayMoments
from odradek.testing.simulation.verdict import Verdict
from odradek.testing.simulation.zookeeper_faults import MEMBERS, ZooKeeperFaults
from odradek.testing.virtual_clock import VirtualClock, run_virtual

TOPIC = "t"
GROUP = "g"
PARTITIONS = 2
LOOK_EVERY_S = 0.05
PATIENCE_S = 150.0
LONGEST_FAULT_S = 120.0
"""Time by which the last fault may end later than planned, its broker's restart included."""
LASTING = (TOPIC, TRANSACTIONAL_TOPIC, loose_topic.TOPIC, CONSUMER_OFFSETS, TRANSACTION_STATE)
LIFE, GUEST = 10, 50
"""Distance between the seeds of the lives of a client, and between those of guests."""


class Simulation:
    """A run."""

    def __init__(self, clock: VirtualClock, plan: Plan) -> None:
        self.plan, self.clock = plan, clock
        self.random = random.Random(plan.seed)
        self.history = History(clock)
        self.cluster = EmbeddedCluster(clock, plan.brokers, plan.of_brokers, seed=plan.seed * 1000, zookeepers=MEMBERS)
        self._make_consumer = partial(SimulatedConsumer, self.cluster, self.history, unusual=plan.unusual)
        self.is_static = plan.seed % 2 == 1
        self.consumer: SimulatedConsumer | None = None
        self.transactions: Transactions | None = None
        self.old: OldClients | None = None
        self._log_starts: dict[TopicPartition, int] = {}
        self._occurrences: list[Occurrence] = []
        self._begun_ms = 0.0
        self._restarts: list[asyncio.Future[None]] = []
        self._over = asyncio.Event()
        self.coordinators = Coordinators(self.cluster, self.history)
        self._make_faults()
        self._make_watchers()

    def _make_faults(self) -> None:
        """Make what may happen; the order of the kinds is what a seed draws from."""
        plan, source = self.plan, DrawnHere()
        directories = plan.of_brokers["log.dirs"].split(",")
        expires = self.history.expires = plan.retention_bytes is not None
        self.administrator = Administrator(self.cluster, self.history, source, TOPIC, directories)
        # A static leader that comes back assigns nothing and knows of no growth meanwhile (KIP-814, as in Kafka)
        self.administrator.may_grow = not self.is_static
        self.faults = Faults(self.cluster, self.history, self.administrator, source, plan.seed + 1)
        self.zookeeper_faults = ZooKeeperFaults(self.faults, plan.seed + 2)
        self.programs = ClientFaults(self.faults, self._make_producer, self._make_member, self._make_connector)
        repeated = RepeatedRequests(self.cluster, self.history, source)
        kinds = self.faults.kinds
        kinds |= self.zookeeper_faults.kinds | DiskFaults(self.faults, directories).kinds
        kinds |= {"repeat_requests": repeated.repeat, "stalled_requests": repeated.stall}
        kinds |= self.programs.kinds
        kinds |= AwkwardMoments(self.faults, repeated).kinds
        kinds |= StaleRequests(self.faults, repeated, TOPIC, self.coordinators.unsure).kinds
        kinds |= TransactionMoments(self.faults, repeated).kinds
        kinds |= UnderWayMoments(self.faults, repeated, TOPIC).kinds
        kinds |= RequestMoments(self.faults, repeated).kinds
        kinds |= Operations(self.faults, LASTING, expires=expires).kinds
        kinds |= BitRot(self.faults, self._read_again).kinds
        kinds |= CutMoments(self.faults, repeated, TOPIC, expires=expires).kinds
        kinds |= ProducerIdMoments(self.faults, self.coordinators).kinds
        kinds |= ByHandMoments(self.faults, repeated, TOPIC, self.coordinators).kinds
        assert tuple(kinds) == FAULT_KINDS, list(kinds)

    def _make_watchers(self) -> None:
        """Make those who look at everything again and again, and tell each what the others find out."""
        cluster, history, overrides = self.cluster, self.history, self.cluster.overrides
        self.inspection = Inspection(cluster, history, TOPIC, TRANSACTIONAL_TOPIC)
        self.fences = Fences(cluster, history)
        self.safety = Safety(cluster, history, int(overrides["min.insync.replicas"]))
        self.derived = DerivedState(cluster, history)
        self.loose = LooseTopic(cluster, history, self.safety.present_leader)
        self.owned = OwnedPartitions(cluster, history, lambda: self.programs.connectors)
        generations = Generations(cluster, lambda: self.members, history)
        self._watchers = (
            self.inspection, self.safety, self.fences, self.derived, self.coordinators,
            Work(cluster, history), Waits(cluster, history),
            Lagging(cluster, history, float(overrides["replica.lag.time.max.ms"]), self.safety.present_leader),
            self.owned, generations, DepartedMembers(cluster, lambda: self.members, history), self.loose,
            Decisions(
                cluster, history, (TRANSACTIONAL_TOPIC,), self.safety.replicated, self.safety.present_leader
            ),
        )  # fmt: skip
        self.programs.may_be_fenced = generations.may_be_fenced
        self.safety.on_elected = self.fences.elected
        self.safety.on_leader = self.loose.elected
        self.safety.allows_unclean = loose_topic.TOPIC.__eq__
        self.coordinators.present_leader = self.safety.present_leader
        self.faults.on_lost_data = self.safety.doubt
        history.on_acknowledged = self.safety.acknowledged
        history.on_read = self.safety.read
        history.log_start_of = self._log_start
        history.on_violation = self._over.set

    async def run(self) -> Report:
        """Run the simulation. Raises nothing for what the cluster does wrong: that is in the report."""
        DRAWN.set(random.Random(self.plan.seed + 1))
        async with self.cluster:
            story = asyncio.ensure_future(self._story())
            looking = asyncio.ensure_future(self._look())
            over = asyncio.ensure_future(self._over.wait())
            limit_s = self.plan.faults_s + LONGEST_FAULT_S + PATIENCE_S
            done, _ = await asyncio.wait([story, looking, over], return_when=asyncio.FIRST_COMPLETED, timeout=limit_s)
            if not done:
                self.history.violated(f"the story has not ended after {limit_s:g} s")
            for running in (story, looking, over):
                running.cancel()
            await asyncio.wait([story, looking, over])
            failures = [failure for failure in (ended.exception() for ended in done) if failure is not None]
            if self.history.violation is None and not failures:
                await self._close_clients()
            else:
                self._abandon()
            for failure in failures:
                raise failure
        history = self.history
        return Report(
            self.plan,
            history.violation,
            list(history.lines),
            sum(len(found) for found in history.acknowledged.values()),
            len(history.failed),
            history.read_count,
            self.clock.monotonic_ms() / 1000,
            tuple(self._occurrences),
        )

    def _abandon(self) -> None:
        """The run is lost: nothing is waited for."""
        self.programs.kill_all()
        self._stop_writing()
        for reader in self._readers:
            reader.stop()
        for broker in self.cluster.brokers:
            if broker.alive:
                broker.kill()

    def _stop_writing(self) -> None:
        for producer in self.producers:
            producer.stop()
        if self.transactions is not None:
            self.transactions.stop()
        if self.old is not None:
            self.old.stop()
        self.loose.stop()

    async def _close_clients(self) -> None:
        self._stop_writing()
        for reader in self._readers:
            await reader.close()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for watcher in self._watchers:
                watcher.look()
            for broker in self.cluster.brokers:
                if broker.running and broker.server.broken.is_set() and broker.broker_id not in self.faults.busy:
                    self.history.note(f"{broker.host} cannot go on: its supervisor starts it again")
                    self.faults.busy.add(broker.broker_id)
                    broker.kill()
                    self._restarts.append(asyncio.ensure_future(self._start_again(broker.broker_id)))

    async def _start_again(self, broker_id: int) -> None:
        await self.faults.start(self.cluster.brokers[broker_id])
        self.faults.busy.discard(broker_id)

    async def _story(self) -> None:
        await self._prepare()
        self._begun_ms = self.clock.monotonic_ms()
        until_ms = self._begun_ms + self.plan.faults_s * 1000
        self.programs.work(until_ms)
        transactors = self.transactions.producers if self.transactions is not None else []
        working = [asyncio.ensure_future(producer.work(until_ms)) for producer in transactors]
        if self.old is not None:
            working.append(asyncio.ensure_future(self.old.producer.work(until_ms)))
        if "loose" not in self.plan.without:
            working.append(asyncio.ensure_future(self.loose.work(self.plan.seed * 100 + 70, until_ms)))
        if self.plan.occurrences is None:
            trouble = [asyncio.ensure_future(self._trouble(until_ms)) for _ in range(self.plan.at_once)]
        else:
            trouble = [asyncio.ensure_future(self._again(occurrence)) for occurrence in self.plan.occurrences]
        growth = asyncio.ensure_future(self._follow_growth())
        for task in trouble:
            await task
        if self.plan.occurrences is None:
            self._occurrences.append(Occurrence(-1, await self._pass(0.0), CALM))
        self._calm()
        again = self.faults.start_again_those_with_offline_directories
        await again()  # the clients wait for coordinators whose partitions are there
        for task in (*working, *self.programs.working):
            await task
        await again()
        await Verdict(self).reached(PATIENCE_S)
        growth.cancel()

    async def _prepare(self) -> None:
        topics = {TOPIC: PARTITIONS, TRANSACTIONAL_TOPIC: TRANSACTIONAL_PARTITIONS}
        replicas = self.administrator.replicas
        made = [CreatableTopic(name=n, num_partitions=p, replication_factor=replicas) for n, p in topics.items()]
        if self.plan.retention_bytes is not None:
            made[0].configs = [CreatableTopicConfig(name="retention.bytes", value=str(self.plan.retention_bytes))]
        if "loose" not in self.plan.without:
            made.append(CreatableTopic(name=loose_topic.TOPIC, num_partitions=1, replication_factor=replicas))
            made[-1].configs = [CreatableTopicConfig(name=n, value=v) for n, v in loose_topic.SETTINGS.items()]
        await self.administrator.create_all(made)
        self.administrator.partitions = PARTITIONS
        seed, without = self.plan.seed * 100, self.plan.without
        cluster, history = self.cluster, self.history
        self.consumer = self._make_consumer("consumer", seed + 10, TOPIC)
        counts = (("producer-1", 1, 2), ("group", 0, 3), ("connectors", 0, 2))
        await self.programs.start(*(least if name in without else most for name, least, most in counts))
        if "transactions" not in without:
            self.transactions = Transactions(cluster, history, seed + 40, self.plan.unusual)
            for transactor in self.transactions.producers:
                await transactor.settle()  # with it the coordinators' topic is there before anything goes wrong
        if "old" not in without:
            self.old = OldClients(cluster, history, seed + 60, TOPIC)
        self._use_partitions()

    @property
    def producers(self) -> list[SimulatedProducer]:
        return self.programs.producers

    @property
    def members(self) -> list[SimulatedConsumer]:
        return self.programs.members

    @property
    def _readers(self) -> list[SimulatedConsumer | SimulatedConnector]:
        return [*self.members, *self.programs.connectors, *([self.consumer] if self.consumer else [])]

    def _make_producer(self, number: int, life: int) -> SimulatedProducer:
        host, seed = f"producer-{number}", self.plan.seed * 100 + number + life * LIFE
        name = f"{host}.{life}" if life else host
        producer = SimulatedProducer(self.cluster, self.history, name, seed, TOPIC, host, unusual=self.plan.unusual)
        producer.partitions = self.administrator.partitions
        return producer

    def _make_member(self, host: str, life: int) -> SimulatedConsumer:
        number = int(host.rpartition("-")[2]) + (GUEST if host.startswith("guest") else 0)
        seed = self.plan.seed * 100 + 20 + number + life * LIFE
        name = f"{host}.{life}" if life else host
        return self._make_consumer(name, seed, TOPIC, GROUP, host, is_static=self.is_static)

    def _make_connector(self, host: str, life: int) -> SimulatedConnector:
        seed = self.plan.seed * 100 + 80 + int(host.rpartition("-")[2]) + life * LIFE
        strategy = ("range", "roundrobin")[self.plan.seed % 2]
        return SimulatedConnector(self.cluster, self.history, f"{host}.{life}", seed, TOPIC, host, strategy)

    def _read_again(self) -> list[SimulatedConsumer | CommittedReader]:
        """Make readers who read everything once more, and one who reads here and there."""
        seed = self.plan.seed * 100 + 11
        again = [self._make_consumer(name, seed, TOPIC) for name in ("again", "wanderer")]
        for reader in again:
            reader.assign(range(self.administrator.partitions))
        again[1].wanders = True
        return [*again, *([self.transactions.read_again()] if self.transactions is not None else [])]

    def _log_start(self, partition: TopicPartition) -> int:
        """Return the highest that a broker has known, below which readers may miss records.

        What was deleted may come back with a crash (as in Kafka: the checkpoint of where logs begin is written once a
        minute), and whoever has read on by then does not see it. A broker that has gone may have answered just before.
        """
        spans = (broker.log_span(*partition) for broker in self.cluster.brokers)
        known = [span[0] for span in spans if span is not None]
        self._log_starts[partition] = max([*known, self._log_starts.get(partition, 0)])
        return self._log_starts[partition]

    def _use_partitions(self) -> None:
        for producer in self.producers:
            producer.partitions = self.administrator.partitions
        assert self.consumer is not None
        self.consumer.assign(range(self.administrator.partitions))
        if self.old is not None:
            self.old.use(self.administrator.partitions)

    async def _follow_growth(self) -> None:
        known = self.administrator.partitions
        while True:
            await asyncio.sleep(0.1)
            if self.administrator.partitions != known:
                known = self.administrator.partitions
                self._use_partitions()

    async def _trouble(self, until_ms: float) -> None:
        kinds = self.plan.possible_kinds
        while True:
            at_ms = await self._pass(self.random.choice((100.0, 1000.0, 4000.0)) * self.random.random())
            if self.clock.monotonic_ms() > until_ms:
                return
            kind = self.random.choice(kinds)
            await self._befall(Occurrence(len(self._occurrences), at_ms, kind))

    async def _pass(self, least_ms: float) -> float:
        """Let so much time pass, to a whole microsecond; returns the time since the faults began, in ms."""
        at_ms = math.ceil((self.clock.monotonic_ms() - self._begun_ms + least_ms) * 1000 + 1) / 1000
        await self._until(at_ms)
        return at_ms

    async def _until(self, at_ms: float) -> None:
        """Wait for a time after the faults began: to the last bit the same, whenever that is asked for."""
        loop, there = asyncio.get_running_loop(), asyncio.Event()
        loop.call_at((self._begun_ms + at_ms) / 1000, there.set)
        await there.wait()

    async def _again(self, occurrence: Occurrence) -> None:
        await self._until(occurrence.at_ms)
        if occurrence.kind == CALM:
            self._occurrences.append(occurrence)
        else:
            await self._befall(occurrence)

    async def _befall(self, occurrence: Occurrence) -> None:
        """Let it happen, unless something has to happen alone."""
        if not self.faults.exclusive and (occurrence.kind not in ALONE or self.faults.under_way == 0):
            self._occurrences.append(occurrence)
            occurrence.draw(self.plan.seed)
            self.faults.under_way += 1
            await self.faults.kinds[occurrence.kind]()
            self.faults.under_way -= 1

    def _calm(self) -> None:
        self.history.note("calm")
        self.cluster.network.heal()
        self.faults.network.latency_ms_from = {}
        self.zookeeper_faults.calm()


def simulate(plan: Plan) -> Report:
    """Run it. What raises an exception, or hangs, is a failure as well."""
    return run_virtual(lambda clock: _logged(clock, plan))


async def _logged(clock: VirtualClock, plan: Plan) -> Report:
    simulation = Simulation(clock, plan)
    with logs_noted(simulation.history):
        return await simulation.run()
