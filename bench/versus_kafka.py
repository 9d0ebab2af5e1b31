"""Odradek beside Apache Kafka 3.9.1 on this machine, in one run, row by row.

    python bench/versus_kafka.py [--rounds 3] [--quick] [--only PART] [--replication 1|3]

Kafka comes from Maven Central with the Java flags of its own start script (1 GB of heap) and default settings; both
clusters have their own ZooKeeper and run at the same time, each row asks the one and the other in turn, and what counts
is the ratio of the medians. Rows: start and memory of a broker; big and small batches and one-record requests, in and
out (librdkafka); one Java consumer (Kafka's own performance tool); with one broker alone the synchronous round trip.
With replication 3 there are three brokers and acks=all.
"""

import argparse
import contextlib
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import this_tree  # noqa: F401
from run import FETCHED, FETCHED_MB, PARTITIONS, PRODUCED, PRODUCED_MB, TOPIC, Row, free_port, measure, wait_for_port
from run import cluster as odradek

from odradek.testing.foreign.kafka_jars import KafkaJars, kafka_jars
from odradek.testing.memory import resident_bytes

HERE = Path(__file__).resolve().parent
JARS = HERE.parent / ".cache" / "kafka-3.9"
START_SCRIPT_FLAGS = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)  # fmt: skip
"""Options of bin/kafka-run-class.sh and kafka-server-start.sh."""
START_SECONDS = 90.0
JAVA_CONSUMER = "org.apache.kafka.tools.ConsumerPerformance"


def rows(scale: float, acks: str) -> list[Row]:
    def count(records: int) -> str:
        return str(int(records * scale))

    in_out = {"in MB/s": PRODUCED_MB, "out MB/s": FETCHED_MB}
    small = ["batch.size=16384", "linger.ms=1"]
    single = ["batch.num.messages=1", "linger.ms=0"]
    return [
        Row("big batches", "load", [count(2_000_000), "100", "1", acks], in_out, {}),
        Row("small batches", "load", [count(500_000), "1000", str(PARTITIONS), *small, acks], in_out, {}),
        Row("one by one", "load", [count(200_000), "100", "1", *single, acks],
            {"in requests/s": PRODUCED, "out records/s": FETCHED}, {}),
        Row("round trip", "round_trip", ["1", count(20_000)],
            {"p50 us": r"p50 (\d+) us", "p99 us": r"p99 (\d+) us"}, {}),
    ]  # fmt: skip


@contextlib.contextmanager
def kafka(jars: KafkaJars, directory: Path, brokers: int, replication: int) -> Iterator[int]:
    """A cluster of Apache Kafka with topic t; the port of its first broker."""
    directory.mkdir()
    zookeeper_port = free_port()
    ports = [free_port() for _ in range(brokers)]
    with contextlib.ExitStack() as stack:

        def start(name: str, main: str, flags: tuple[str, ...], *arguments: str) -> None:
            command = ["java", *flags, "-cp", f"{jars.directory}/jars/*", main, *arguments]
            output = stack.enter_context((directory / f"{name}.log").open("wb"))
            process = subprocess.Popen(command, stdout=output, stderr=output)
            stack.callback(process.wait)
            stack.callback(process.kill)

        start(
            "zookeeper", "org.apache.zookeeper.server.ZooKeeperServerMain", ("-Xmx256m",),
            str(zookeeper_port), str(directory / "zookeeper"),
        )  # fmt: skip
        wait_for_port(zookeeper_port)
        for number, port in enumerate(ports):
            properties = directory / f"{number}.properties"
            properties.write_text(
                f"broker.id={number}\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={directory}/data-{number}\n"
                f"zookeeper.connect=127.0.0.1:{zookeeper_port}\noffsets.topic.replication.factor={replication}\n"
            )
            start(f"broker-{number}", "kafka.Kafka", START_SCRIPT_FLAGS, str(properties))
        for port in ports:
            wait_for_port(port, START_SECONDS)
        create = [sys.executable, "-m", "odradek", "topics", "create", TOPIC, "--partitions", str(PARTITIONS)]
        create += ["--replication-factor", str(replication), "--bootstrap-server", f"127.0.0.1:{ports[0]}"]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
        yield ports[0]


def consume_with_java(jars: KafkaJars, port: int, records: int) -> float:
    """Records per second that Kafka's own performance tool reads of topic t, without the time until it is assigned."""
    command = ["java", "-Xmx512m", "-cp", f"{jars.directory}/jars/*", JAVA_CONSUMER, "--topic", TOPIC]
    command += ["--bootstrap-server", f"127.0.0.1:{port}", "--messages", str(records), "--group", f"g{time.time_ns()}"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    fields = [line for line in said.splitlines() if re.match(r"\d{4}-", line)][-1].split(", ")
    return float(fields[-1])


def broker_process(port: int) -> int:
    """The process that listens on that port of this machine."""
    said = subprocess.run(["ss", "-ltnpH", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"pid=(\d+)", said)
    if found is None:
        raise SystemExit(f"nobody listens on port {port}")
    return int(found[1])


def measured(row: Row, port: int) -> dict[str, float]:
    """Figures of one row; 0 for all of them where the broker did not take or give every record in time."""
    try:
        return measure(row, port, [])
    except SystemExit as error:
        print(error, file=sys.stderr)
        return dict.fromkeys(row.figures, 0.0)


def report(name: str, title: str, ours: list[float], kafkas: list[float]) -> None:
    """Print one line; above 1 we are better."""
    mine, theirs = statistics.median(ours), statistics.median(kafkas)
    smaller_is_better = title.endswith((" us", " s", " MB"))
    better, worse = (theirs, mine) if smaller_is_better else (mine, theirs)
    ratio = better / worse if worse else math.inf
    digits = 2 if title.endswith(" s") else 0
    print(f"{name:14} {title:14} {mine:12,.{digits}f} {theirs:12,.{digits}f}   {ratio:6.2f}", flush=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3, help="number of rounds, of which the medians are shown")
    arguments.add_argument("--quick", action="store_true", help="take a tenth of the records")
    arguments.add_argument("--only", default="", help="measure the rows with this in their names")
    arguments.add_argument("--replication", type=int, choices=(1, 3), action="append", help="default: both")
    options = arguments.parse_args()
    scale = 0.1 if options.quick else 1.0
    jars = kafka_jars(JARS)
    os.environ["PYTHONUNBUFFERED"] = "1"
    for replication in options.replication or [1, 3]:
        brokers, acks = replication, "acks=1" if replication == 1 else "acks=all"
        with tempfile.TemporaryDirectory(prefix="odradek-versus-") as folder, contextlib.ExitStack() as stack:

            def timed(cluster: contextlib.AbstractContextManager[int]) -> tuple[int, float]:
                began = time.perf_counter()
                return stack.enter_context(cluster), time.perf_counter() - began

            print(f"\n{brokers} broker(s), {acks}; medians of {options.rounds}")
            print(f"{'':14} {'':14} {'odradek':>12} {'Kafka 3.9.1':>12}   {'ratio':>6}   (above 1: we are better)")
            kafka_port, kafka_s = timed(kafka(jars, Path(folder) / "kafka", brokers, replication))
            our_port, our_s = timed(odradek(Path(folder) / "odradek", brokers, replication))
            report("start", "with topic s", [our_s], [kafka_s])
            asked = [row for row in rows(scale, acks) if options.only in row.name]
            if brokers > 1:  # the round trip knows no leaders
                asked = [row for row in asked if row.program == "load"]
            for row in asked:
                runs: dict[int, list[dict[str, float]]] = {our_port: [], kafka_port: []}
                for _ in range(options.rounds):
                    for port in (kafka_port, our_port):
                        runs[port].append(measured(row, port))
                for title in row.figures:
                    report(row.name, title, *([run[title] for run in runs[port]] for port in (our_port, kafka_port)))
            if options.only in "java consumer":
                consume: Callable[[int], float] = lambda port: consume_with_java(jars, port, int(2_000_000 * scale))  # noqa: E731
                pairs = [(consume(kafka_port), consume(our_port)) for _ in range(options.rounds)]
                report("java consumer", "records/s", [ours for _, ours in pairs], [theirs for theirs, _ in pairs])
            ours_bytes, kafkas_bytes = (resident_bytes(broker_process(port)) for port in (our_port, kafka_port))
            report("memory", "a broker MB", [ours_bytes / 1e6], [kafkas_bytes / 1e6])
    return 0


if __name__ == "__main__":
    sys.exit(main())
