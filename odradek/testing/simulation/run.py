"""One simulated run: three brokers, producers, a consumer and a group, faults for a while, then calm, then the verdict.

    report = simulate(Plan(seed=7))
    assert report.violation is None, report.text()

Everything is decided by the seed. The faults end at `faults_s`; after that all must come to rest within PATIENCE_S.
"""

import asyncio
import hashlib
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.clients import SimulatedConsumer, SimulatedProducer
from odradek.testing.simulation.disk_faults import DiskFaults
from odradek.testing.simulation.faults import LATENCY_MS, ZOOKEEPER_LATENCY_MS, Faults
from odradek.testing.simulation.history import History, Violation
from odradek.testing.simulation.inspection import Inspection
from odradek.testing.simulation.repeated_requests import RepeatedRequests
from odradek.testing.simulation.safety import Safety
from odradek.testing.simulation.transactions import PARTITIONS as TRANSACTIONAL_PARTITIONS
from odradek.testing.simulation.transactions import TOPIC as TRANSACTIONAL_TOPIC
from odradek.testing.simulation.transactions import Transactions
from odradek.testing.simulation.verdict import Verdict
from odradek.testing.virtual_clock import VirtualClock, run_virtual

TOPIC = "t"
GROUP = "g"
PARTITIONS = 2
LOOK_EVERY_S = 0.05
PATIENCE_S = 150.0
LONGEST_FAULT_S = 120.0
"""So much later than planned the last fault may end, its broker's restart included."""
FAULT_KINDS = (
    "kill", "kill_controller", "power_failure", "isolate", "isolate_from_brokers", "one_way", "away_from_zookeeper",
    "session_expiry", "zookeeper_restart", "lost_answers", "shutdown", "slow_network", "resets", "suspend",
    "slow_zookeeper", "zookeeper_stands", "wall_clock", "topics", "reassign", "elect_leaders", "move_directories",
    "throttle", "kill_all", "cut_clients", "full_disk", "slow_disk", "failed_directory", "lost_disk", "repeat_requests",
)  # fmt: skip
ALONE = ("power_failure", "lost_disk")
SETTINGS = {
    "log.dirs": "/data/one,/data/two",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "replica.lag.time.max.ms": "4000",
    "controller.socket.timeout.ms": "5000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "10",
    "controlled.shutdown.retry.backoff.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "zookeeper.connection.timeout.ms": "6000",
    "auto.create.topics.enable": "false",
}


@dataclass(frozen=True)
class Plan:
    """What a run does. `kinds`: the faults to choose from, by name; empty: all."""

    seed: int
    kinds: Sequence[str] = ()
    faults_s: float = 40.0
    at_once: int = 2
    """Faults that may overlap."""
    settings: dict[str, str] = field(default_factory=dict)


def varied_plan(seed: int) -> Plan:
    """A plan of the one or the other shape: short with all kinds of faults, or long with two to five kinds.

    Some mistakes show only when many things go wrong at once, others only when the same few go wrong again and again.
    """
    chance = random.Random(seed)
    if chance.random() < 0.5:
        return Plan(seed, faults_s=15.0)
    return Plan(seed, chance.sample(FAULT_KINDS, chance.randint(2, 5)), faults_s=40.0)


@dataclass(frozen=True)
class Report:
    """What came of it."""

    plan: Plan
    violation: Violation | None
    lines: Sequence[str]
    acknowledged: int
    failed: int
    read: int
    virtual_s: float

    @property
    def digest(self) -> str:
        """The same for the same run."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    def text(self, last_lines: int = 60) -> str:
        """For people: the seed, what went wrong, and what happened before."""
        tail = "\n".join(self.lines[-last_lines:])
        return f"seed {self.plan.seed} {list(self.plan.kinds) or 'all faults'}: {self.violation}\n{tail}"


class _Lines(logging.Handler):
    """Log records as lines of the transcript."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        self._history.note(f"  {record.name.removeprefix('odradek.')}: {record.getMessage()}")


class Simulation:
    """A run."""

    def __init__(self, clock: VirtualClock, plan: Plan) -> None:
        self.plan, self.clock = plan, clock
        self.random = random.Random(plan.seed)
        self.history = History(clock)
        self.cluster = EmbeddedCluster(clock, 3, {**SETTINGS, **plan.settings}, seed=plan.seed * 1000)
        source = random.Random(plan.seed + 2)
        directories = SETTINGS["log.dirs"].split(",")
        self.administrator = Administrator(self.cluster, self.history, source, TOPIC, directories)
        self.faults = Faults(self.cluster, self.history, self.administrator, plan.seed + 1)
        self.faults.kinds.update(DiskFaults(self.faults, directories).kinds)
        repeated = RepeatedRequests(self.cluster, self.history, random.Random(plan.seed + 3), TOPIC)
        self.faults.kinds["repeat_requests"] = repeated.repeat
        assert tuple(self.faults.kinds) == FAULT_KINDS, list(self.faults.kinds)
        self.inspection = Inspection(self.cluster, self.history, TOPIC)
        min_isr = int(self.cluster.overrides["min.insync.replicas"])
        self.safety = Safety(self.cluster, self.history, min_isr)
        self.faults.on_lost_data = self.safety.doubt
        self.history.on_acknowledged = self.safety.acknowledged
        self.producers: list[SimulatedProducer] = []
        self.consumer: SimulatedConsumer | None = None
        self.members: list[SimulatedConsumer] = []
        self.transactions: Transactions | None = None
        self._restarts: list[asyncio.Future[None]] = []
        self._over = asyncio.Event()
        self.history.on_violation = self._over.set

    async def run(self) -> Report:
        """Raises nothing for what the cluster does wrong: that is in the report."""
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
        )

    def _abandon(self) -> None:
        """The run is lost: nothing is waited for."""
        self._stop_writing()
        for reader in (*self.members, *([self.consumer] if self.consumer else [])):
            reader.stop()
        for broker in self.cluster.brokers:
            if broker.running:
                broker.kill()

    def _stop_writing(self) -> None:
        for producer in self.producers:
            producer.stop()
        if self.transactions is not None:
            self.transactions.stop()

    async def _close_clients(self) -> None:
        self._stop_writing()
        for reader in (*self.members, *([self.consumer] if self.consumer else [])):
            await reader.close()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.inspection.look()
            self.safety.look()
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
        begun_ms = self.clock.monotonic_ms()
        until_ms = begun_ms + self.plan.faults_s * 1000
        assert self.transactions is not None
        working = [asyncio.ensure_future(producer.work(until_ms)) for producer in self.producers]
        working += [asyncio.ensure_future(producer.work(until_ms)) for producer in self.transactions.producers]
        trouble = [asyncio.ensure_future(self._trouble(until_ms)) for _ in range(self.plan.at_once)]
        growth = asyncio.ensure_future(self._follow_growth())
        for task in trouble:
            await task
        self._calm()
        for task in working:
            await task
        await self.faults.start_again_those_with_offline_directories()
        await Verdict(self).reached(PATIENCE_S)
        growth.cancel()

    async def _prepare(self) -> None:
        topics = {TOPIC: PARTITIONS, TRANSACTIONAL_TOPIC: TRANSACTIONAL_PARTITIONS}
        made = [CreatableTopic(name=name, num_partitions=n, replication_factor=3) for name, n in topics.items()]
        while self.administrator.partitions == 0:
            await asyncio.sleep(0.2)
            request = CreateTopicsRequest(topics=made, timeout_ms=10_000)
            if await self.administrator.ask_controller(request, 7) is not None:
                self.administrator.partitions = PARTITIONS
        seed = self.plan.seed * 100
        cluster, history = self.cluster, self.history
        self.producers = [SimulatedProducer(cluster, history, f"producer-{n}", seed + n, TOPIC) for n in range(2)]
        self.consumer = SimulatedConsumer(cluster, history, "consumer", seed + 10, TOPIC)
        self.members = [
            SimulatedConsumer(cluster, history, f"member-{n}", seed + 20 + n, TOPIC, GROUP) for n in range(3)
        ]
        self.transactions = Transactions(cluster, history, seed + 40)
        for transactor in self.transactions.producers:
            await transactor.settle()  # with it the coordinators' topic is there before anything goes wrong
        self._use_partitions()

    def _use_partitions(self) -> None:
        for producer in self.producers:
            producer.partitions = self.administrator.partitions
        assert self.consumer is not None
        self.consumer.assign(range(self.administrator.partitions))

    async def _follow_growth(self) -> None:
        known = self.administrator.partitions
        while True:
            await asyncio.sleep(0.1)
            if self.administrator.partitions != known:
                known = self.administrator.partitions
                self._use_partitions()

    async def _trouble(self, until_ms: float) -> None:
        kinds = list(self.plan.kinds or FAULT_KINDS)
        while True:
            await asyncio.sleep(self.random.choice((0.1, 1.0, 4.0)) * self.random.random())
            if self.clock.monotonic_ms() > until_ms:
                return
            kind = self.random.choice(kinds)
            if not self.faults.exclusive and (kind not in ALONE or self.faults.under_way == 0):
                self.faults.under_way += 1
                await self.faults.kinds[kind]()
                self.faults.under_way -= 1

    def _calm(self) -> None:
        self.history.note("calm")
        self.cluster.network.heal()
        self.faults.network.latency_ms = LATENCY_MS
        self.faults.zookeeper_latency_ms = ZOOKEEPER_LATENCY_MS
        if not self.cluster.zookeeper.serving:
            self.cluster.zookeeper.restart()


def simulate(plan: Plan) -> Report:
    """Run it. What raises an exception, or hangs, is a failure as well."""
    return run_virtual(lambda clock: _logged(clock, plan))


async def _logged(clock: VirtualClock, plan: Plan) -> Report:
    simulation = Simulation(clock, plan)
    handler = _Lines(simulation.history)
    root = logging.getLogger()
    levels = {name: logging.getLogger(name).level for name in ("odradek", "state.change.logger")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.INFO)
    root.addHandler(handler)
    try:
        return await simulation.run()
    finally:
        root.removeHandler(handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
