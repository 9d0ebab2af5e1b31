"""Three brokers with very many partitions: how long each change of the cluster takes, and what it takes of the machine.

    python bench/many_partitions.py [--partitions 10000] [--profile DIR]

Rows: the partitions are created (replication 3, in topics of 100); the cluster idles; a broker is killed, and started
again; the controller is killed, and started again; a broker is shut down in a controlled way, and started again. Each
row has its seconds, the processor seconds of brokers and ZooKeeper, the brokers' memory, and how long a broker's loop
was blocked: a probe beside them sends ApiVersions every 10 ms, and a time without an answer counts once for each
request that would have been sent meanwhile. Processor seconds say more than seconds on a machine that is not quiet: its
load stands in the last line. With --profile py-spy records brokers in each phase. Exit code 1 when a goal is missed.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import this_tree  # noqa: F401
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from start_and_size import cpu_seconds

from odradek.protocol.connection import framed
from odradek.protocol.headers import RequestHeader, encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.testing.memory import resident_bytes
from odradek.testing.up import UpCluster

BROKERS = 3
PARTITIONS_OF_A_TOPIC = 100
SECONDS = 300.0
IDLE_SECONDS = 20.0
ASK_SECONDS = 0.1
PROBE_MS = 10.0
BLOCKED_MS_GOAL = 50.0
MEMORY_MB_GOAL = 300.0
IDLE_PERCENT_GOAL = 10.0
GOALS = {
    "created": 30.0,
    "killed": 5.0,
    "restarted": 12.0,
    "controller killed": 8.0,
    "controller restarted": 12.0,
    "shut down": 5.0,
    "started": 12.0,
}
"""Seconds for 10,000 partitions on two cores."""


class Row(NamedTuple):
    """Figures of a phase, as they are printed."""

    name: str
    seconds: float
    processor: list[float]
    """Seconds, of each broker and of ZooKeeper."""
    memory_mb: list[float]
    began: float
    ended: float


# The probe


async def probe_one(port: int, broker: int) -> None:
    """Ask a broker for ever; prints `time broker milliseconds` of each answer."""
    request = ApiVersionsRequest()
    frame = b"".join(framed(encode_request(RequestHeader(request.API_KEY, 0, 1, "probe"), request)))
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for number in itertools.count():
                asked = time.monotonic()
                writer.write(frame)
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                took_ms = (time.monotonic() - asked) * 1000
                if number:  # the first has waited for the start of the broker, whose logs were being opened
                    print(f"{asked:.4f} {broker} {took_ms:.2f}", flush=took_ms > PROBE_MS)
                await asyncio.sleep(max(PROBE_MS - took_ms, 0) / 1000)
        except (OSError, EOFError):
            await asyncio.sleep(0.1)


async def probe(ports: Sequence[int]) -> None:
    await asyncio.gather(*(probe_one(port, broker) for broker, port in enumerate(ports)))


def blocked_ms(answers: Path, began: float, ended: float) -> list[float]:
    """Milliseconds until each answer, in order of length; of a long one also those that were not asked meanwhile."""
    found = []
    for line in answers.read_text().splitlines():
        asked, _, took = line.split()
        if began <= float(asked) < ended:
            left = float(took)
            while left > 0:
                found.append(left)
                left -= PROBE_MS
    return sorted(found)


# The cluster


@dataclass
class Bench:
    """A cluster, and the rows so far."""

    cluster: UpCluster
    partitions: int
    prober: subprocess.Popen[bytes]
    profiles: Path | None
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.topics = [f"many-{number}" for number in range(max(self.partitions // PARTITIONS_OF_A_TOPIC, 1))]
        patient = {"socket.timeout.ms": int(SECONDS * 1000), "log_level": 0}
        self.admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, **patient})
        self.zookeeper_pid = int((self.cluster.directory / "run" / "zookeeper.pid").read_text())

    def pids(self) -> list[int]:
        """Return the brokers' processes; of a broker that is down 0."""
        found = []
        for broker in range(BROKERS):
            try:
                pid = self.cluster.pid(broker)
            except FileNotFoundError:
                pid = 0
            found.append(pid if is_there(pid) else 0)
        return found

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the block."""
        before = {pid: cpu_of(pid) for pid in (*self.pids(), self.zookeeper_pid)}
        began = time.monotonic()
        try:
            with self._profiled(name):
                yield
        finally:
            self._end_phase(name, began, before)

    def _end_phase(self, name: str, began: float, before: Mapping[int, float]) -> None:
        ended = time.monotonic()
        pids = (*self.pids(), self.zookeeper_pid)
        row = Row(
            name,
            ended - began,
            [cpu_of(pid) - before.get(pid, 0.0) for pid in pids],
            [resident_bytes(pid) / 1e6 if pid else 0.0 for pid in pids[:BROKERS]],
            began,
            ended,
        )
        self.rows.append(row)
        print(text(row), flush=True)

    @contextlib.contextmanager
    def _profiled(self, name: str) -> Iterator[None]:
        if self.profiles is None:
            yield
            return
        self.profiles.mkdir(exist_ok=True)
        spies = []
        for broker, pid in enumerate(self.pids()):
            if pid:
                file = self.profiles / f"{name.replace(' ', '-')}-{broker}.txt"
                command = ["py-spy", "record", "-r", "50", "-f", "raw", "-d", "600", "-o", str(file), "-p", str(pid)]
                spies.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(1.0)
        yield
        for spy in spies:
            with contextlib.suppress(ProcessLookupError):
                spy.send_signal(signal.SIGINT)
            spy.wait()

    def _lacking(self, topic: str | None, of_each: Callable[[int, int], bool]) -> list[str]:
        """Return the topics, of one or of all, with a partition of whose leader and size of the ISR it does not hold.

        While not all partitions are known, or nobody answers, that is all that were asked for.
        """
        try:
            found = self.admin.list_topics(topic, timeout=10).topics
        except KafkaException:
            return self.topics if topic is None else [topic]
        return [
            name
            for name in (self.topics if topic is None else [topic])
            if name not in found
            or len(found[name].partitions) < self.partitions // len(self.topics)
            or not all(of_each(one.leader, len(one.isrs)) for one in found[name].partitions.values())
        ]

    def wait(self, what: str, of_each: Callable[[int, int], bool]) -> None:
        """Wait until all partitions are there and this holds of each leader and size of the ISR.

        Asks for one topic until it holds there, and only then for all: to tell about 10,000 partitions takes a broker
        100 ms, which are to be measured as little as can be. Raises TimeoutError.
        """
        deadline = time.monotonic() + SECONDS
        lacking = self.topics
        while lacking:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {SECONDS:.0f} s: {what}")
            if self._lacking(lacking[-1], of_each):
                time.sleep(ASK_SECONDS)
            else:
                lacking = self._lacking(None, of_each)

    def create(self) -> None:
        size = self.partitions // len(self.topics)
        topics = [NewTopic(name, size, BROKERS) for name in self.topics]
        with self.phase("created"):
            for made in self.admin.create_topics(topics, operation_timeout=SECONDS, request_timeout=SECONDS).values():
                made.result(SECONDS)
            self.wait("all partitions have leaders", lambda leader, isr: leader >= 0 and isr == BROKERS)

    def idle(self) -> None:
        time.sleep(10.0)
        self.prober.send_signal(signal.SIGSTOP)
        with self.phase("idle"):
            time.sleep(IDLE_SECONDS)
        self.prober.send_signal(signal.SIGCONT)

    def controller(self) -> int:
        return int(self.admin.list_topics(timeout=10).controller_id)

    def kill(self, broker: int, name: str, back: str) -> None:
        with self.phase(name):
            self.cluster.kill(broker)
            self.wait("new leaders", lambda leader, _: leader not in (-1, broker))
        self._bring_back(broker, back)

    def shut_down(self, broker: int) -> None:
        pid = self.cluster.pid(broker)
        with self.phase("shut down"):
            self.cluster.terminate(broker)
            while is_there(pid):
                time.sleep(0.02)
            self.wait(
                "nothing of it is in an ISR", lambda leader, isr: leader not in (-1, broker) and isr == BROKERS - 1
            )
        self._bring_back(broker, "started")

    def _bring_back(self, broker: int, name: str) -> None:
        with self.phase(name):
            self.cluster.start(broker)
            self.wait("all in the ISR", lambda leader, isr: leader >= 0 and isr == BROKERS)
        time.sleep(8.0)  # the controller's first balance, which is no part of any row
        self.wait("all in the ISR", lambda leader, isr: leader >= 0 and isr == BROKERS)

    def run(self) -> None:
        self.create()
        self.idle()
        other = next(broker for broker in range(BROKERS) if broker != self.controller())
        self.kill(other, "killed", "restarted")
        self.kill(self.controller(), "controller killed", "controller restarted")
        self.shut_down(next(broker for broker in range(BROKERS) if broker != self.controller()))


def is_there(pid: int) -> bool:
    """Tell whether there is such a process that is not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def cpu_of(pid: int) -> float:
    return cpu_seconds(pid) if pid and is_there(pid) else 0.0


# What is said


def text(row: Row) -> str:
    processor = " ".join(f"{seconds:6.2f}" for seconds in row.processor)
    memory = " ".join(f"{size:4.0f}" for size in row.memory_mb)
    return f"{row.name:20} {row.seconds:7.2f} s | processor {processor} | memory {memory} MB"


def judged(rows: Sequence[Row], answers: Path) -> int:
    """Print goals and blockage; how many goals are missed."""
    missed = 0

    def goal(name: str, measured: float, limit: float, unit: str) -> None:
        nonlocal missed
        missed += measured > limit
        print(f"{name:48} {measured:8.2f} {unit:2} of {limit:.0f} {unit:2} {'MISSED' if measured > limit else 'met'}")

    for row in rows:
        if row.name in GOALS:
            goal(row.name, row.seconds, GOALS[row.name], "s")
        if row.name == "idle":
            share = 100 * sum(row.processor[:BROKERS]) / row.seconds
            goal("idle, three brokers, of one core", share, IDLE_PERCENT_GOAL, "%")
            goal("memory of three brokers", sum(row.memory_mb), MEMORY_MB_GOAL, "MB")
    all_waits: list[float] = []
    for row in rows:
        waits = [] if row.name == "idle" else blocked_ms(answers, row.began, row.ended)  # the probe stood still then
        all_waits += waits
        if waits:
            p999 = waits[int(len(waits) * 0.999)]
            print(f"{row.name:20} loop: p50 {statistics.median(waits):5.1f}, p99 {waits[int(len(waits) * 0.99)]:6.1f}, "
                  f"p99.9 {p999:6.1f}, longest {waits[-1]:6.1f} ms of {len(waits)}")  # fmt: skip
    goal("loop blocked, p99.9 of all", _p999(sorted(all_waits)), BLOCKED_MS_GOAL, "ms")
    return missed


def _p999(waits: Sequence[float]) -> float:
    return waits[int(len(waits) * 0.999)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000, help="number of partitions")
    parser.add_argument("--profile", type=Path, help="folder for profiles by py-spy")
    parser.add_argument("--probe", type=int, nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        asyncio.run(probe(options.probe))
    with tempfile.TemporaryDirectory(prefix="many-partitions-") as folder:
        answers = Path(folder) / "probe"
        with UpCluster(Path(folder) / "cluster", BROKERS) as cluster, answers.open("w") as output:
            ports = [str(cluster.port + broker) for broker in range(BROKERS)]
            prober = subprocess.Popen([sys.executable, __file__, "--probe", *ports], stdout=output)
            try:
                bench = Bench(cluster, options.partitions, prober, options.profile)
                print(f"{options.partitions:,} partitions; processor of brokers 0 to 2 and ZooKeeper", flush=True)
                bench.run()
            except TimeoutError as late:
                print(late)
            finally:
                prober.terminate()
                prober.wait()
        missed = judged(bench.rows, answers)
    print(f"load of the machine {' '.join(f'{one:.1f}' for one in os.getloadavg())}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
