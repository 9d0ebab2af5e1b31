"""Plans of simulated runs (how many brokers, which faults for how long, which clients), and reports of them.

The faults of a run are a list of what befell it when, each with random numbers of its own, so that any can be left out
and the others stay what they were.
"""

import hashlib
import random
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from odradek.testing.simulation.history import Violation
from odradek.testing.simulation.unusual_settings import USUAL, Unusual, drawn

DRAWN: ContextVar[random.Random] = ContextVar("drawn")
"""Numbers of the fault in whose task one asks."""

CALM = "calm"
"""Kind of an occurrence that is no fault: until then one waits with the end of all of them."""


@dataclass(frozen=True)
class Occurrence:
    """A fault. `number` decides its random numbers."""

    number: int
    at_ms: float
    """Time since the faults began."""
    kind: str

    def __str__(self) -> str:
        return f"{self.at_ms / 1000:.3f} s: {self.kind} (number {self.number})"

    def draw(self, seed: int) -> None:
        """Have the fault's numbers drawn in this task from now on."""
        DRAWN.set(random.Random(f"{seed} {self.number}"))


class DrawnHere(random.Random):
    """Numbers of the fault that is under way in the asking task."""

    def random(self) -> float:
        return DRAWN.get().random()

    def getrandbits(self, bits: int, /) -> int:
        return DRAWN.get().getrandbits(bits)


FAULT_KINDS = (
    "kill", "kill_controller", "power_failure", "isolate", "isolate_from_brokers", "one_way", "shutdown",
    "slow_network", "resets", "suspend", "wall_clock", "topics", "reassign", "elect_leaders", "move_directories",
    "throttle", "kill_all", "cut_clients",
    "away_from_zookeeper", "session_expiry", "zookeeper_restart", "lost_answers", "slow_zookeeper", "zookeeper_stands",
    "zookeeper_lags", "zookeeper_leads_anew", "other_zookeeper",
    "full_disk", "slow_disk", "failed_directory", "lost_disk", "no_descriptors",
    "death_in_a_change", "power_failure_in_a_change",
    "repeat_requests", "stalled_requests", "freeze_client", "kill_client", "join_group",
    "connector_session",
    "late_growth", "late_proposal", "behind_and_dead", "there_and_back", "take_office", "late_candidate",
    "parting_histories", "unheard_answers", "last_in_sync", "unheard_election", "stale_requests", "stale_commits",
    "moved_decisions", "former_leaders", "invented_epochs", "late_answers", "refused_in_between",
    "death_at_a_request", "given_up_requests",
    "rolling_restart", "live_settings", "death_within", "delete_records", "bit_rot",
    "lost_tail", "two_histories", "early_expiry", "producer_ids",
    "late_batches", "mixed_commits",
)  # fmt: skip
AMONG_SEVERAL = (
    "power_failure", "lost_disk", "bit_rot", "power_failure_in_a_change",
    "isolate_from_brokers", "one_way", "reassign", "elect_leaders", "throttle",
    "late_growth", "late_proposal", "behind_and_dead", "there_and_back", "late_candidate", "parting_histories",
    "last_in_sync", "unheard_election", "moved_decisions", "former_leaders", "late_answers", "refused_in_between",
    "death_at_a_request", "lost_tail", "two_histories", "early_expiry",
)  # fmt: skip
"""Faults that do nothing, make no sense, or lose what nobody else has, where there is one broker only."""
OPTIONAL_CLIENTS = ("transactions", "group", "producer-1", "old", "loose", "connectors")
"""Clients without which a run makes sense."""
OF_CONNECTORS = ("connector_session",)
"""Faults that befall clients which are there in some runs only."""
WHERE_RECORDS_EXPIRE = ("delete_records", "early_expiry")
"""Faults that do nothing unless old records of the topic may go."""
ALONE = ("power_failure", "lost_disk", "bit_rot", "power_failure_in_a_change")
SETTINGS = {
    "log.dirs": "/data/one,/data/two",
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
ROLLING = {
    "log.segment.bytes": "3000",
    "log.index.interval.bytes": "300",
    "log.retention.check.interval.ms": "1000",
    "offsets.topic.segment.bytes": "2000",
    "transaction.state.log.segment.bytes": "2000",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.cleaner.delete.retention.ms": "1000",
}
"""Small segments, which are compacted, or deleted, while the faults go on."""
EXPIRES = 8_000
"""Bytes that are left of a partition of which old records go."""


@dataclass(frozen=True)
class Plan:
    """Plan of a run. `kinds`: the faults to choose from, by name; empty: all."""

    seed: int
    kinds: Sequence[str] = ()
    faults_s: float = 40.0
    at_once: int = 2
    """Faults that may overlap."""
    settings: Mapping[str, str] = field(default_factory=dict)
    retention_bytes: int | None = None
    """Bytes of each partition of the topic that are kept; None: all."""
    occurrences: tuple[Occurrence, ...] | None = None
    """Faults to play instead of drawing them."""
    without: frozenset[str] = frozenset({"connectors"})
    """Clients, out of OPTIONAL_CLIENTS, that are left out."""
    brokers: int = 3
    unusual: Unusual = USUAL
    """Settings that stand in the place of all others."""

    @property
    def of_brokers(self) -> dict[str, str]:
        """All settings of brokers. Some follow from their number: all topics have three replicas where they can."""
        replicas, in_sync = str(min(3, self.brokers)), str(min(2, self.brokers))
        replication = {
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
        }
        return {**SETTINGS, **replication, **self.settings, **self.unusual.brokers}

    @property
    def possible_kinds(self) -> list[str]:
        """Faults to choose from, where there are so many brokers, and records expire or do not."""
        kinds = self.kinds or FAULT_KINDS
        without = {*(AMONG_SEVERAL if self.brokers == 1 else ())}
        without |= {*(WHERE_RECORDS_EXPIRE if self.retention_bytes is None else ())}
        without |= {*(OF_CONNECTORS if "connectors" in self.without else ())}
        return [kind for kind in kinds if kind not in without]


def varied_plan(seed: int) -> Plan:
    """Make a plan of the one or the other shape: short with all kinds of faults, or long with two to five kinds.

    Some mistakes show only when many things go wrong at once, others only when the same few go wrong again and again.
    In half of them logs are rolled and compacted all the time, in a quarter old records are deleted as well. A third
    have clients of old message formats, a third a topic that may lose something, a third a group that is balanced in
    ZooKeeper. One in six has one broker, one in six has five. Half have unusual settings.
    """
    chance = random.Random(seed)
    settings = ROLLING if chance.random() < 0.5 else {}
    retention = chance.choice((None, EXPIRES)) if settings else None
    without = frozenset({"old", "loose", "connectors"} - {chance.choice(("old", "loose", "connectors"))})
    brokers = chance.choice((1, 3, 3, 3, 3, 5))
    unusual = drawn(seed) if random.Random(f"{seed} unusual").random() < 0.5 else USUAL
    plan = Plan(seed, (), 15.0, 2, settings, retention, without=without, brokers=brokers, unusual=unusual)
    if chance.random() < 0.5:
        return plan
    return replace(plan, kinds=tuple(chance.sample(plan.possible_kinds, chance.randint(2, 5))), faults_s=40.0)


@dataclass(frozen=True)
class Report:
    """Outcome of a run."""

    plan: Plan
    violation: Violation | None
    lines: Sequence[str]
    acknowledged: int
    failed: int
    read: int
    virtual_s: float
    occurrences: Sequence[Occurrence] = ()
    """The faults that came."""

    @property
    def digest(self) -> str:
        """The same for the same run."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    def text(self, last_lines: int = 60) -> str:
        """Return for people the seed, what went wrong, and what happened before."""
        tail = "\n".join(self.lines[-last_lines:])
        unusual = f"with {self.plan.unusual}\n" if self.plan.unusual else ""
        return f"seed {self.plan.seed} {list(self.plan.kinds) or 'all faults'}: {self.violation}\n{unusual}{tail}"
