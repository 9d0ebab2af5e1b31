"""Script of the demo: load, a killed broker, an election, the broker's return, the count."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from odradek.demo.cluster import TOPIC, ClusterState, DemoCluster
from odradek.demo.entries import Entry, entries
from odradek.demo.flights import Flight, totals_by_airport
from odradek.demo.live import Display, Snapshot
from odradek.demo.load import PRODUCERS, Load
from odradek.demo.pipeline import Pipeline
from odradek.demo.raw_log import different_replicas, read_records
from odradek.demo.readers import READERS, Readers, Share
from odradek.demo.report import Result
from odradek.demo.timeline import Kill, election_times, named, timeline
from odradek.demo.verdict import compare, compare_reads

GROUP = "boards"
DEADLINE_SECONDS = 120.0
"""Limit of each step: nobody should wait longer for a cluster that hangs."""
TICK_SECONDS = 0.05
RATE_WINDOW_TICKS = 20


class DemoFailure(Exception):  # noqa: N818 (a sentence for a person)
    """A step of the demo did not happen in time, or failed."""


class Script:
    """One run on a cluster that is ready. The caller stops `load`, `readers` and `pipeline`."""

    def __init__(
        self,
        cluster: DemoCluster,
        flights: Sequence[Flight],
        load: Load,
        readers: Readers,
        pipeline: Pipeline,
        display: Display,
    ) -> None:
        self._cluster, self._flights, self._load, self._readers = cluster, flights, load, readers
        self._pipeline = pipeline
        self._display = display
        self._state = ClusterState()
        self._shares_at_kill: Sequence[Share] = ()
        self._headline = ""
        self._recent: deque[tuple[float, int]] = deque(maxlen=RATE_WINDOW_TICKS)

    def run(self) -> Result:
        """Play the script. Raises DemoFailure, and what brokers and clients raise."""
        kill, outage = self._play()
        shares = list(zip(self._shares_at_kill, self._readers.shares(), strict=True))
        self._readers.stop()
        self._display.say("all replicas are in sync and the group has read everything")
        self._display.say(f"now Spark reads {TOPIC}; meanwhile the log files are counted")
        self._pipeline.start()
        return self._count(kill, outage, shares)

    # What is done.

    def _play(self) -> tuple[Kill, Snapshot]:
        third = len(self._flights) // 3
        self._headline = "everything is in sync"
        self._until(lambda: self._state.whole, "all replicas in sync")
        self._readers.start()
        self._until(self._is_shared, "all readers have partitions")
        self._display.say(
            f"{READERS} readers share the partitions; {PRODUCERS} producers send {len(self._flights):,} flights"
        )
        self._load.start()
        self._until(lambda: self._load.acknowledged >= third, "a third of the records")
        kill = self._kill(self._victim())
        self._until(lambda: not self._state.led_by(kill.broker), "new leaders")
        self._headline = f"broker {kill.broker} is dead; others lead"
        outage = self._tick()
        self._display.say(f"new leaders for {named(kill.led)}; writes go on with two replicas in sync")
        self._until(lambda: self._load.acknowledged >= 2 * third, "two thirds of the records")
        kill = replace(kill, started_ms=self._cluster.start(kill.broker))
        self._headline = f"broker {kill.broker} is back and catches up"
        self._display.say(f"broker {kill.broker} is started again")
        self._until(lambda: self._state.whole, "all replicas in sync")
        self._headline = "everything is in sync again"
        self._until(lambda: self._load.finished, "all records acknowledged")
        self._until(lambda: self._readers.reached >= len(self._flights), "the group to read everything")
        return kill, outage

    def _is_shared(self) -> bool:
        """Tell whether every partition has an owner, and every reader a partition."""
        owners = self._readers.owners
        return owners.keys() == self._state.partitions.keys() and len(set(owners.values())) == READERS

    def _victim(self) -> int:
        """Return the broker that leads most partitions; of several, a non-controller, then by records."""
        counts = self._load.acknowledged_by_partition

        def weight(broker: int) -> tuple[int, bool, int]:
            led = self._state.led_by(broker)
            return len(led), broker != self._state.controller, sum(counts.get(partition, 0) for partition in led)

        return max(self._cluster.brokers, key=weight)

    def _kill(self, broker: int) -> Kill:
        """Kill a broker while it has requests to answer."""
        led = tuple(self._state.led_by(broker))
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (requests := self._load.requests_in_flight(broker)):
            self._check(deadline, f"requests to broker {broker}")
        self._shares_at_kill = self._readers.shares()
        at_ms = self._cluster.kill(broker)
        self._headline = f"broker {broker} is dead; ZooKeeper waits for its session"
        self._display.say(f"SIGKILL broker {broker}, which leads {named(led)}; requests to it in flight: {requests}")
        return Kill(at_ms, broker, led, requests, broker == self._state.controller, started_ms=0.0)

    # Watching.

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        """Look and display until a condition holds. Raises DemoFailure."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            self._tick()
            if condition():
                return
            self._check(deadline, what)
            time.sleep(TICK_SECONDS)

    def _check(self, deadline: float, what: str) -> None:
        if self._load.failure is not None:
            raise DemoFailure(f"a record was refused: {self._load.failure}") from self._load.failure
        if self._readers.ended:
            number = self._readers.ended[0]
            raise DemoFailure(f"reader {number} has ended: see {self._readers.log_file(number)}")
        if time.monotonic() > deadline:
            raise DemoFailure(f"not within {DEADLINE_SECONDS:.0f} s: {what}")

    def _tick(self) -> Snapshot:
        self._state = self._cluster.look()
        self._readers.look()
        self._recent.append((time.monotonic(), self._load.acknowledged))
        snapshot = self._snapshot()
        self._display.show(snapshot)
        return snapshot

    def _snapshot(self) -> Snapshot:
        (then, before), (now, after) = self._recent[0], self._recent[-1]
        return Snapshot(
            headline=self._headline,
            cluster=self._state,
            dead=frozenset(self._cluster.dead),
            produced=len(self._flights),
            acknowledged=after,
            rate=(after - before) / (now - then) if now > then else 0.0,
            read=self._readers.count,
            acknowledged_by_partition=dict(self._load.acknowledged_by_partition),
            read_by_partition=dict(self._readers.read_by_partition),
            owners=dict(self._readers.owners),
        )

    # Counting.

    def _count(self, kill: Kill, outage: Snapshot, shares: Sequence[tuple[Share, Share]]) -> Result:
        directories = self._cluster.partition_directory
        log = {
            partition: list(read_records(directories(state.leader, partition)))
            for partition, state in self._state.partitions.items()
        }
        replicas = [[directories(b, partition) for b in self._cluster.brokers] for partition in log]
        acknowledgements = self._load.acknowledgements
        logged: list[Entry] = [one for b in self._cluster.brokers for one in entries(self._cluster.log_text(b))]
        around = {
            partition: acknowledgements.around(partition, at_ms)
            for partition, at_ms in election_times(kill, logged).items()
        }
        under_way = acknowledgements.under_way(kill.at_ms, kill.led)
        return Result(
            moments=timeline(kill, logged, around, under_way),
            findings=compare([f.value for f in self._flights], PRODUCERS, acknowledgements.places(), log),
            group=compare_reads(self._readers.reads, log),
            different_replicas=different_replicas(replicas),
            longest_pauses_ms={partition: acknowledgements.longest_pause_ms(partition) for partition in log},
            outage=outage,
            shares=shares,
            airports=totals_by_airport(self._flights),
            counted_by_spark=self._pipeline.result(),
            chart=self._pipeline.chart,
        )
