"""Time that a cluster and a broker take to start, and what they take of the machine: measured against goals.

    python bench/start_and_size.py [--idle-seconds 20] [--rounds 3]

Rows: `odradek up` until ready; one broker beside a ZooKeeper that runs already, from the start of its process until it
is registered and answers ApiVersions; resident memory after a load of several clients, groups and administration; the
processor that each of three idle brokers takes. Exit code 1 when a goal is missed. Linux: it reads /proc.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import this_tree  # noqa: F401
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kazoo.client import KazooClient

from odradek.local.ports import free_ports
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.memory import resident_bytes
from odradek.testing.up import UpCluster

BROKERS = 3
SECONDS = 60.0
MB = 1 << 20
CLIENTS, RECORDS, RECORD_BYTES, PARTITIONS = 6, 100_000, 200, 12
ROUNDS_OF_ADMIN = 30
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Goal(NamedTuple):
    """A figure that must not be larger. `measured` with its unit."""

    name: str
    measured: float
    limit: float
    unit: str

    @property
    def met(self) -> bool:
        return self.measured < self.limit


def wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {SECONDS:.0f} s: {what}")
        time.sleep(0.002)


# Starting


@contextlib.contextmanager
def started_cluster(directory: Path) -> Iterator[tuple[UpCluster, float]]:
    """Start a cluster; give it and the seconds until it said `ready`."""
    cluster = UpCluster(directory, BROKERS)
    began = time.monotonic()
    with cluster:
        yield cluster, time.monotonic() - began


def serves(port: int) -> bool:
    try:
        with RawConnection(f"127.0.0.1:{port}") as connection:
            return bool(connection.ask(ApiVersionsRequest(), 0).error_code == 0)
    except (OSError, EOFError):
        return False


def start_seconds(cluster: UpCluster, directory: Path, broker_id: int) -> float:
    """Start one more broker; return the seconds until it serves."""
    [port] = free_ports(1)
    file = directory / "server.properties"
    settings = {
        "broker.id": broker_id,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": directory / f"data-{broker_id}",
        "zookeeper.connect": cluster.zookeeper,
        "zookeeper.session.timeout.ms": 3000,
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    zookeeper = KazooClient(cluster.zookeeper)
    zookeeper.start()
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "odradek.broker", str(file)], stderr=subprocess.DEVNULL)
    try:
        wait(lambda: zookeeper.exists(f"/brokers/ids/{broker_id}") is not None, "the registration of a broker")
        wait(lambda: serves(port), "an answer of a broker")
        return time.monotonic() - began
    finally:
        process.terminate()
        process.wait(SECONDS)
        zookeeper.stop()
        zookeeper.close()


# Load


def produce(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all", "enable.idempotence": True})
    value = b"x" * RECORD_BYTES
    for number in range(RECORDS):
        while True:
            try:
                producer.produce(topic, value, key=str(number))
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    producer.flush(SECONDS)


def consume(bootstrap: str, topic: str, group: str, count: int, done: list[str]) -> None:
    """Adds the group to `done` when it has read so many records."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    deadline, seen = time.monotonic() + SECONDS, 0
    while seen < count and time.monotonic() < deadline:
        seen += len(consumer.consume(5000, 0.5))
    consumer.commit(asynchronous=False)
    consumer.close()
    if seen >= count:
        done.append(group)


def administrate(admin: AdminClient) -> None:
    for number in range(ROUNDS_OF_ADMIN):
        name = f"short-lived-{number}"
        admin.create_topics([NewTopic(name, 3, BROKERS)])[name].result(SECONDS)
        resource = ConfigResource(ResourceType.TOPIC, name)
        admin.describe_configs([resource])[resource].result(SECONDS)
        admin.list_consumer_groups().result(SECONDS)
        admin.delete_topics([name])[name].result(SECONDS)


def in_parallel(*tasks: Callable[[], None]) -> None:
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def load(cluster: UpCluster) -> None:
    bootstrap = cluster.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("size", PARTITIONS, BROKERS)])["size"].result(SECONDS)
    in_parallel(*[lambda: produce(bootstrap, "size")] * CLIENTS)
    groups = [f"group-{number}" for number in range(CLIENTS)]
    done: list[str] = []
    readers = [lambda group=group: consume(bootstrap, "size", group, CLIENTS * RECORDS, done) for group in groups]
    in_parallel(*readers, lambda: administrate(admin))
    if sorted(done) != groups:
        raise SystemExit(f"of {groups} only {done} have read everything")


# What it takes


def cpu_seconds(pid: int) -> float:
    """User and system, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def idle_shares(pids: list[int], seconds: float) -> list[float]:
    """Percent of one processor, of each process."""
    before = [cpu_seconds(pid) for pid in pids]
    time.sleep(seconds)
    return [100 * (cpu_seconds(pid) - earlier) / seconds for pid, earlier in zip(pids, before, strict=True)]


def report(goals: list[Goal]) -> None:
    print(f"{'':44} {'measured':>12} {'goal':>12}")
    for goal in goals:
        verdict = "met" if goal.met else "MISSED"
        print(f"{goal.name:44} {goal.measured:8.2f} {goal.unit:3} {'<':>4} {goal.limit:.2f} {goal.unit:3}  {verdict}")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument(
        "--idle-seconds", type=float, default=20.0, help="seconds for which an idle broker is watched"
    )
    arguments.add_argument(
        "--rounds", type=int, default=3, help="number of starts of one broker, of which the median is shown"
    )
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
        directory = Path(folder)
        with started_cluster(directory / "cluster") as (cluster, up_seconds):
            starts = [start_seconds(cluster, directory, 100 + number) for number in range(options.rounds)]
            load(cluster)
            pids = [cluster.pid(broker) for broker in range(BROKERS)]
            sizes = [resident_bytes(pid) / MB for pid in pids]
            shares = idle_shares(pids, options.idle_seconds)
    goals = [
        Goal("`odradek up`, three brokers, until ready", up_seconds, 6.0, "s"),
        Goal("one broker until it is registered and serves", statistics.median(starts), 0.7, "s"),
        *(Goal(f"memory of broker {broker} after load", size, 80.0, "MB") for broker, size in enumerate(sizes)),
        *(Goal(f"idle processor of broker {broker}", share, 1.0, "%") for broker, share in enumerate(shares)),
    ]
    report(goals)
    return 0 if all(goal.met for goal in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
