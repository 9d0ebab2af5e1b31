"""A cluster in a test's own process: how soon it is there, what it takes, and that faults which are not set are free.

    python bench/cluster_in_a_test.py [--rounds 20] [--clusters 50] [--requests 1000000] [--beside]

Wall time counts on a quiet machine; on a busy one look at the processor's time beside it. `--beside` starts others too:
one broker of Apache Kafka 3.9.1 (its ZooKeeper runs already), librdkafka's mock cluster, and kfake, where Go is
installed (its compiling is not counted). Exit code 1 when a goal is missed. Linux: it reads /proc.
"""

import argparse
import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import this_tree  # noqa: F401
from start_and_size import MB, Goal, report

from odradek.local.ports import free_ports
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.protocol.headers import RequestHeader, encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.testing import Cluster
from odradek.testing.foreign.kafka_jars import KafkaBroker, kafka_jars
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.memory import resident_bytes

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache"
START = """
import json, time
def now(): return time.perf_counter(), time.process_time()
def since(then): return [1000 * (b - a) for a, b in zip(then, now())]
began = now()
from odradek.testing import Cluster
Cluster
said = {"import": since(began)}
for name in ("first", "second"):
    began = now()
    with Cluster(brokers=3, topics={"orders": 3}):
        said[name] = since(began)
print(json.dumps(said))
"""
MANY = """
import gc, json, os, sys, threading
from odradek.testing import Cluster
from odradek.testing.memory import resident_bytes
def held():
    gc.collect()
    return [threading.active_count(), len(os.listdir("/proc/self/fd")), len(os.listdir("."))]
for number in range(int(sys.argv[1])):
    with Cluster(brokers=3, topics={"orders": 3}):
        pass
    if number == 2:
        before = held()
print(json.dumps([before, held(), resident_bytes(os.getpid(), "VmHWM")]))
"""
LIBRDKAFKA = """
from confluent_kafka import Producer
producer = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "none", "log_level": 0})
found = producer.list_topics("orders", 30)
assert len(found.brokers) == 3
print("ready", flush=True)
input()
"""
BATCH = 1000
"""Requests that are sent at a time."""
TURN = 50_000
"""Requests that one broker gets before it is the other's turn."""


class Started(NamedTuple):
    """Cost of a start: seconds, seconds of the processor, and memory once it is there."""

    wall_s: float
    processor_s: float
    resident_bytes: int


def said_by(program: str, *arguments: str) -> Any:
    """Run a program in a Python and a folder of its own; the JSON that it prints."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", program, *arguments]
        return json.loads(subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout)


def start_goals(rounds: int) -> list[Goal]:
    """Medians, each of a Python of its own."""
    said = [said_by(START) for _ in range(rounds)]

    def median(name: str, which: int) -> float:
        return statistics.median(one[name][which] for one in said)

    both = statistics.median(one["import"][0] + one["first"][0] for one in said)
    for name in ("import", "first", "second"):
        print(f"{name:8} {median(name, 0):6.0f} ms, {median(name, 1):6.0f} ms of the processor")
    return [
        Goal("three brokers and a topic", median("first", 0), 300, "ms"),
        Goal("with the import", both, 600, "ms"),
        Goal("a second cluster", median("second", 0), 100, "ms"),
    ]


def many_goals(clusters: int) -> list[Goal]:
    before, after, peak_bytes = said_by(MANY, str(clusters))
    print(f"threads, descriptors, files: {before} after 3 clusters, {after} after {clusters}")
    grown = max(now - then for now, then in zip(after, before, strict=True))
    return [
        Goal(f"left by {clusters} clusters", grown, 1, ""),
        Goal("most memory meanwhile", peak_bytes / MB, 120, "MB"),
    ]


# Faults that are not set


class Asked:
    """A cluster of one broker in a process of its own, and what its answers have cost."""

    def __init__(self, cluster: Cluster, opened: ExitStack) -> None:
        self.cluster, self.seconds = opened.enter_context(cluster), list[float]()
        [self._process] = [child for child in psutil.Process().children() if child.pid not in _known]
        _known.add(self._process.pid)
        host, _, port = cluster.bootstrap.rpartition(":")
        self._socket = opened.enter_context(socket.create_connection((host, int(port))))

    def ask(self, requests: int) -> None:
        parts = encode_request(RequestHeader(ApiVersionsRequest.API_KEY, 0, 1, "bench"), ApiVersionsRequest())
        frame = b"".join(parts)
        request = len(frame).to_bytes(4, "big") + frame
        self._socket.sendall(request)
        size = 4 + int.from_bytes(self._socket.recv(4, socket.MSG_WAITALL), "big")
        self._socket.recv(size - 4, socket.MSG_WAITALL)
        before = self._processor_seconds()
        for _ in range(requests // BATCH):
            self._socket.sendall(request * BATCH)
            left = size * BATCH
            while left:
                left -= len(self._socket.recv(min(left, 1 << 20)))
        self.seconds.append(self._processor_seconds() - before)

    def _processor_seconds(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system


_known: set[int] = set()


def hook_goals(requests: int) -> list[Goal]:
    """Compare a broker whose faults have struck or were cleared with one that never had any."""
    with ExitStack() as opened:
        never, cleared = (Asked(Cluster(brokers=1, process=True, trace=False), opened) for _ in range(2))
        cleared.cluster.respond("ApiVersions", "UNSUPPORTED_VERSION")
        cleared.cluster.delay("Produce", 1)
        with RawConnection(cleared.cluster.bootstrap) as connection:
            connection.ask(ApiVersionsRequest(), 0)
        cleared.cluster.clear()
        for _ in range(max(1, requests // TURN // 2)):
            never.ask(TURN)
            cleared.ask(TURN)
        ratio = statistics.median(never.seconds) / statistics.median(cleared.seconds)
        cost_us = 1e6 * statistics.median(cleared.seconds) / TURN
        print(f"{cost_us:.2f} us of the processor for a request; ratio to a broker that never had a fault {ratio:.3f}")
        return [Goal("requests cost more by faults that are gone", 100 * (1 / ratio - 1), 2, "%")]


# Others


@contextmanager
def process(command: list[str], **how: Any) -> Iterator[Started]:
    """Start a program that prints a line when it is there, and ends with its input."""
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **how
    ) as it:
        assert it.stdout is not None and it.stdin is not None
        line = it.stdout.readline()
        took = time.perf_counter() - began
        if not line:
            raise SystemExit(f"{command[0]} has ended")
        times = psutil.Process(it.pid).cpu_times()
        yield Started(took, times.user + times.system, resident_bytes(it.pid))
        it.stdin.close()


def kafka() -> Started:
    jars = kafka_jars(CACHE / "kafka-3.9")
    with tempfile.TemporaryDirectory() as name, asyncio.Runner() as runner:
        folder = Path(name)
        zookeeper = EmbeddedZooKeeper(folder, free_ports(1)[0])
        address = f"127.0.0.1:{free_ports(1)[0]}"
        settings = {"broker.id": 0, "listeners": f"PLAINTEXT://{address}", "log.dirs": folder / "data",
                    "zookeeper.connect": zookeeper.connect, "log.cleaner.dedupe.buffer.size": 4_000_000}  # fmt: skip
        file = folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        runner.run(zookeeper.start())
        broker = KafkaBroker(jars, file, address, folder / "log")
        try:
            began = time.perf_counter()
            broker.start()
            took = time.perf_counter() - began
            times = psutil.Process(broker.pid).cpu_times()
            return Started(took, times.user + times.system, resident_bytes(broker.pid))
        finally:
            broker.close()
            runner.run(zookeeper.stop())


def others() -> Iterator[tuple[str, Started]]:
    command = [sys.executable, "-m", "odradek", "mock", "--brokers", "3", "--topic", "orders:3"]
    with process(command, start_new_session=True) as started:
        yield "odradek mock, 3 brokers", started
        for child in psutil.Process().children():
            child.terminate()
    yield "Apache Kafka 3.9.1, 1 broker", kafka()
    with process([sys.executable, "-c", LIBRDKAFKA]) as started:
        yield "librdkafka's mock, 3 brokers", started
    if shutil.which("go") is not None:
        with tempfile.TemporaryDirectory() as name:
            program = Path(name) / "kfake"
            source = shutil.copytree(HERE / "kfake", Path(name) / "source")
            subprocess.run(["go", "build", "-mod=mod", "-o", str(program), "."], cwd=source, check=True)
            with process([str(program)]) as started:
                yield "kfake, 3 brokers", started


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--rounds", type=int, default=20, help="number of starts, of which the median is shown")
    arguments.add_argument(
        "--clusters", type=int, default=50, help="number of clusters that one process starts, one after another"
    )
    arguments.add_argument(
        "--requests", type=int, default=1_000_000, help="number of requests to a broker whose faults are not set"
    )
    arguments.add_argument("--beside", action="store_true", help="start Kafka, librdkafka's mock and kfake, too")
    options = arguments.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling it each time is no part of a start
    goals = start_goals(options.rounds) + many_goals(options.clusters) + hook_goals(options.requests)
    if options.beside:
        for name, started in others():
            print(f"{name:30} {started.wall_s:6.2f} s, {started.processor_s:6.2f} s of the processor, "
                  f"{started.resident_bytes / MB:4.0f} MB")  # fmt: skip
    report(goals)
    return 0 if all(goal.met for goal in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
