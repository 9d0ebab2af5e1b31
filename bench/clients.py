"""Python's Kafka clients side by side: records a second, and processor time for each, at 100 bytes and 1 kB.

    python bench/clients.py [--rounds 3] [--quick] [--only CLIENT ...] [--bootstrap HOST:PORT] [--compiled TREE]

One broker, a topic of six partitions, and the same work for all: producers send records with keys of 8 bytes to all
partitions by turns, with acks=all, idempotent, each client's default batches (ours 128 kB; kafka-python and aiokafka
16 kB, librdkafka 1 MB) and linger 5 ms, and count a delivery report for each record; consumers read every partition
from its first record and touch key, value and offset, once in batches as the client hands them out, once record by
record. All are warm: a first record is through before the time is taken. Each run is a process of its own; clients take
turns within a round; the table has the medians.

A busy machine changes what goes through in a second, but hardly the processor time of a client's process for one
record: that is the second figure, in microseconds, and the goals are by it. With `--compiled build/compiled`, which
`make compiled-wheel` makes, ours are measured once more with their inner loops in C.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import this_tree  # noqa: F401
from client_work import OURS, OURS_AIO, PARTITIONS, Run, Task, produce_odradek

SIZES = {100: 200_000, 1000: 100_000}
"""Bytes of a value → how many records."""
WORKS = ("produce", "batches", "one by one")
WORKER = Path(__file__).with_name("client_work.py")
COMPILED = " compiled"
CLIENTS = (OURS, "kafka-python", "confluent-kafka", OURS_AIO, "aiokafka")
GOALS = {
    (OURS, "kafka-python"): 2.0,
    (OURS_AIO, "aiokafka"): 2.0,
    (OURS_AIO + COMPILED, "aiokafka"): 2.0,
    (OURS + COMPILED, "confluent-kafka"): 0.8,
}
"""The least ratio of what the first does to what the second does, in the same processor time."""


def run_alone(client: str, work: str, task: Task, compiled: Path | None) -> Run:
    """Do it in a process of its own."""
    environment = dict(os.environ)
    if compiled is not None and client.endswith(COMPILED):
        environment["PYTHONPATH"] = str(compiled.resolve())
    command = [sys.executable, str(WORKER), client.removesuffix(COMPILED), work, *map(str, task)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{client}, {work}: {done.stderr}")
    return Run(*json.loads(done.stdout.splitlines()[-1]))


def create_topic(bootstrap: str, topic: str) -> None:
    from odradek import KafkaAdminClient, NewTopic

    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])


def compare(bootstrap: str, options: Any, size: int, records: int) -> bool:
    """Print the three tables of one size; whether all goals are met."""
    name = f"bench-{size}-{time.time_ns()}"
    create_topic(bootstrap, name)
    produce_odradek(Task(bootstrap, name, records - 1, size))  # and a warm one
    met, rounds = True, options.rounds
    clients = list(options.only)
    if options.compiled:
        clients += [client + COMPILED for client in (OURS, OURS_AIO) if client in clients]
    for work in WORKS:
        runs: dict[str, list[Run]] = {client: [] for client in clients}
        for _ in range(rounds):
            for client in clients:
                topic = name
                if work == "produce":
                    topic = f"{name}-{time.time_ns()}"
                    create_topic(bootstrap, topic)
                runs[client].append(run_alone(client, work, Task(bootstrap, topic, records, size), options.compiled))
        medians = {client: Run(*map(statistics.median, zip(*some, strict=True))) for client, some in runs.items()}
        print(f"\n{work}, {size} B, {records:,} records, medians of {rounds}")
        for client, run in medians.items():
            print(f"  {client:20} {run.rate:10,.0f} records/s   {run.microseconds:6.2f} us/record")
        met &= report_goals(medians)
    return met


def report_goals(medians: dict[str, Run]) -> bool:
    met = True
    for (ours, theirs), goal in GOALS.items():
        if ours in medians and theirs in medians:
            rate = medians[ours].rate / medians[theirs].rate
            cost = medians[theirs].microseconds / medians[ours].microseconds
            reached = cost >= goal
            met &= reached
            said = "met" if reached else "MISSED"
            print(f"  {ours} to {theirs}: {rate:.2f} by rate, {cost:.2f} by processor time; goal {goal}: {said}")
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds, of which the medians are shown")
    parser.add_argument("--quick", action="store_true", help="take a tenth of the records")
    parser.add_argument("--only", nargs="+", choices=CLIENTS, default=list(CLIENTS), help="measure these clients alone")
    parser.add_argument("--bootstrap", help="use a broker that runs already")
    parser.add_argument("--compiled", type=Path, metavar="TREE", help="measure a checkout with compiled modules, too")
    options = parser.parse_args()
    if options.bootstrap:
        return all_sizes(options.bootstrap, options)
    from odradek.testing.up import UpCluster

    with tempfile.TemporaryDirectory() as folder, UpCluster(Path(folder) / "cluster", brokers=1) as cluster:
        return all_sizes(cluster.bootstrap, options)


def all_sizes(bootstrap: str, options: Any) -> int:
    met = True
    for size, records in SIZES.items():
        met &= compare(bootstrap, options, size, records // 10 if options.quick else records)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
