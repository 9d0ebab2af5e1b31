"""Cost of many partitions for a broker: the time until its logs are open, memory, descriptors.

    python bench/partitions.py [PARTITIONS]

One real broker; each partition gets a record. It is stopped and started again, then killed and started again.
"""

import contextlib
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import this_tree  # noqa: F401
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from start_and_size import cpu_seconds

from odradek.testing.memory import resident_bytes
from odradek.testing.up import UpCluster

PARTITIONS = 2000
TOPIC = "many"
SECONDS = 180.0
OTHERS = 12
"""Files of the log directory that are open beside the partitions' own: its lock, `__consumer_offsets`."""
OPENED = re.compile(r"loaded [\d,]+ logs")
STARTED = re.compile(r"broker \d+ has started")


class Cost(NamedTuple):
    """Cost of one start. Seconds from the start of the process."""

    open_seconds: float
    """Time until all logs are open."""
    open_processor_seconds: float
    """Processor time until all logs are open, which a busy machine does not change."""
    start_seconds: float
    """Time until the broker is registered and serves; after a kill ZooKeeper has to forget the dead one before."""
    resident_bytes: int
    """Memory as soon as all partitions have a leader again."""
    log_descriptors: int
    """Descriptors of files in the log directory, its lock included."""
    written_descriptors: int
    """Descriptors of files in the log directory after a record to each partition."""


def _until(log: Path, seen: int, pattern: re.Pattern[str], began: float) -> float:
    """Seconds since `began` until the log says so, after its first `seen` bytes."""
    while time.monotonic() - began < SECONDS:
        if pattern.search(log.read_bytes()[seen:].decode(errors="replace")):
            return time.monotonic() - began
        time.sleep(0.005)
    raise SystemExit(f"{log} does not say {pattern.pattern!r} within {SECONDS:.0f} s")


def _produce(bootstrap: str, partitions: int) -> None:
    """A record to each; returns when all are acknowledged, so all have a leader."""
    failed: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "message.timeout.ms": int(SECONDS * 1000), "linger.ms": 5, "log_level": 0}
    )
    for partition in range(partitions):
        producer.produce(
            TOPIC, bytes(100), partition=partition, on_delivery=lambda error, _: error and failed.append(error)
        )
        producer.poll(0)
    if producer.flush(SECONDS) or failed:
        raise SystemExit(f"not every partition takes a record: {failed[:1]}")


def _log_descriptors(pid: int, data: Path) -> int:
    count = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            count += os.readlink(entry).startswith(str(data))
    return count


def _wait_for_leaders(bootstrap: str, partitions: int) -> None:
    admin, began = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}), time.monotonic()
    while time.monotonic() - began < SECONDS:
        topic = admin.list_topics(TOPIC, timeout=SECONDS).topics[TOPIC]
        if len(topic.partitions) == partitions and all(one.leader == 0 for one in topic.partitions.values()):
            return
        time.sleep(0.1)
    raise SystemExit("partitions are left without a leader")


def _start(cluster: UpCluster, partitions: int) -> Cost:
    log, data = cluster.log_file(0), cluster.directory.resolve() / "data" / "broker-0"
    seen, began = log.stat().st_size, time.monotonic()
    cluster.start(0)
    opened = _until(log, seen, OPENED, began)
    processor = cpu_seconds(cluster.pid(0))
    started = _until(log, seen, STARTED, began)
    _wait_for_leaders(cluster.bootstrap, partitions)
    pid = cluster.pid(0)
    resident, descriptors = resident_bytes(pid), _log_descriptors(pid, data)
    _produce(cluster.bootstrap, partitions)
    return Cost(opened, processor, started, resident, descriptors, _log_descriptors(pid, data))


def measure(partitions: int = PARTITIONS) -> tuple[float, Cost, Cost]:
    """Seconds of a clean stop after each partition was written to; the start after it; the start after a kill."""
    with tempfile.TemporaryDirectory(prefix="partitions-") as folder, UpCluster(Path(folder) / "cluster", 1) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, partitions, 1)], request_timeout=SECONDS)[TOPIC].result(SECONDS)
        _produce(cluster.bootstrap, partitions)
        began = time.monotonic()
        cluster.terminate(0)
        _wait_until_gone(cluster.pid(0))
        stop_seconds = time.monotonic() - began
        clean = _start(cluster, partitions)
        cluster.kill(0)
        return stop_seconds, clean, _start(cluster, partitions)


def _wait_until_gone(pid: int) -> None:
    began = time.monotonic()
    while Path(f"/proc/{pid}").exists() and time.monotonic() - began < SECONDS:
        time.sleep(0.05)


def main() -> None:
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else PARTITIONS
    stop_seconds, *costs = measure(partitions)
    print(f"{partitions:,} partitions, each written to: stopped in {stop_seconds:.2f} s")
    for how, cost in zip(("a clean stop", "a kill"), costs, strict=True):
        print(
            f"{partitions:,} partitions after {how}: logs open in {cost.open_seconds:.2f} s "
            f"({cost.open_processor_seconds:.2f} s of the processor), started in "
            f"{cost.start_seconds:.2f} s, {cost.resident_bytes / 1e6:,.0f} MB, {cost.log_descriptors:,} files open, "
            f"{cost.written_descriptors:,} when all were written to"
        )


if __name__ == "__main__":
    main()
