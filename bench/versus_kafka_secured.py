"""Odradek beside Apache Kafka 3.9.1 over TLS, and under quotas: on this machine, in one run, row by row.

    python bench/versus_kafka_secured.py [--rounds 3] [--quick] [--only NAME] [--seconds 66]

One broker each, from the same properties file but for what is its own, on one ZooKeeper; both run at the same time,
each row asks the one and the other in turn, and what counts is the ratio of the medians. Rows over TLS 1.3 (a
certificate on P-256): big and small batches in and out and one-record requests (librdkafka), the synchronous round
trip, full handshakes. Then quotas, without TLS: a producer and a consumer with 5 MB/s each beside a producer that has
none, which is measured alone before; the first seconds, in which a quota's windows fill, do not count.
"""

import argparse
import contextlib
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import this_tree  # noqa: F401
from run import FETCHED, FETCHED_MB, PARTITIONS, PRODUCED, PRODUCED_MB, TOPIC, Row, free_port, wait_for_port
from versus_kafka import JARS, START_SCRIPT_FLAGS, START_SECONDS, measured, report

import odradek
from odradek.security.authority import Authority
from odradek.testing.foreign.kafka_jars import KafkaJars, kafka_jars

HOST = "127.0.0.1"
QUOTA_BYTES = 5_000_000
THROTTLED, FREE = "throttled", "free"
FREE_TOPIC = "free"
FORGOTTEN_SOON = {"retention.bytes": "200000000", "segment.bytes": "50000000", "file.delete.delay.ms": "1000"}
"""Settings of a topic that keeps little: who is not throttled writes half a gigabyte a second, which fills a disk."""
VALUE_BYTES = 1000
FILLING_SECONDS = 12.0
"""A quota's rate is that of eleven windows of a second."""
SECONDS = 66.0
"""Six times all windows: a client may take in the first what all of them allow and then nothing, again and again."""
CONNECTING_PROCESSES = 2
CLIENT = Path(__file__).with_name("steady_client.py")


class Broker(NamedTuple):
    """Ports of a broker under measurement, ours or Kafka's."""

    port: int
    tls_port: int


class Certificates(NamedTuple):
    """Files of one authority."""

    authority: Path
    broker: Path


def certificates(folder: Path) -> Certificates:
    made = Certificates(folder / "ca.pem", folder / "broker.pem")
    authority = Authority("bench")
    made.authority.write_bytes(authority.pair.chain_pem())
    pair = authority.issue("broker", hosts=[HOST])
    made.broker.write_bytes(pair.chain_pem() + pair.key_pem())
    return made


@contextlib.contextmanager
def process(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as started:
        try:
            yield
        finally:
            started.kill()


@contextlib.contextmanager
def zookeeper(jars: KafkaJars, folder: Path) -> Iterator[int]:
    port = free_port()
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    command = ["java", "-Xmx256m", "-cp", f"{jars.directory}/jars/*", main, str(port), str(folder / "zookeeper")]
    with process(command, folder / "zookeeper.log"):
        wait_for_port(port)
        yield port


@contextlib.contextmanager
def broker(name: str, program: list[str], zookeeper_port: int, files: Certificates, folder: Path) -> Iterator[Broker]:
    """A broker with topic t."""
    made = Broker(free_port(), free_port())
    properties = folder / f"{name}.properties"
    settings = {
        "broker.id": "0",
        "listeners": f"PLAINTEXT://{HOST}:{made.port},SSL://{HOST}:{made.tls_port}",
        "log.dirs": f"{folder}/{name}",
        "zookeeper.connect": f"{HOST}:{zookeeper_port}/{name}",
        "offsets.topic.replication.factor": "1",
        "log.retention.check.interval.ms": "1000",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.broker),
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    with process([*program, str(properties)], folder / f"{name}.log"):
        wait_for_port(made.tls_port, START_SECONDS)
        with odradek.KafkaAdminClient(bootstrap_servers=f"{HOST}:{made.port}") as admin:
            admin.create_topics([odradek.NewTopic(TOPIC, PARTITIONS, 1)])
        yield made


def rows(scale: float, authority: Path) -> list[Row]:
    def count(records: int) -> str:
        return str(int(records * scale))

    tls = ["security.protocol=ssl", f"ssl.ca.location={authority}"]
    return [
        Row("big batches", "load", [count(2_000_000), "100", "1", *tls],
            {"in MB/s": PRODUCED_MB, "out MB/s": FETCHED_MB}, {}),
        Row("small batches", "load", [count(500_000), "1000", str(PARTITIONS), "batch.size=16384", "linger.ms=1", *tls],
            {"in MB/s": PRODUCED_MB, "out MB/s": FETCHED_MB}, {}),
        Row("one by one", "load", [count(200_000), "100", "1", "batch.num.messages=1", "linger.ms=0", *tls],
            {"in requests/s": PRODUCED, "out records/s": FETCHED}, {}),
        Row("round trip", "round_trip", ["1", count(20_000), str(authority)],
            {"p50 us": r"p50 (\d+) us", "p99 us": r"p99 (\d+) us"}, {}),
    ]  # fmt: skip


def connect_again_and_again(port: int, authority: str, seconds: float) -> int:
    """Count the full handshakes of one client after another."""
    context = ssl.create_default_context(cafile=authority)
    done, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        with socket.create_connection((HOST, port)) as plain, context.wrap_socket(plain, server_hostname=HOST) as tls:
            assert not tls.session_reused
            done += 1
    return done


def handshakes(pool: ProcessPoolExecutor, port: int, authority: Path, seconds: float) -> float:
    """Return full handshakes per second, of as many clients at once as this machine has processors."""
    asked = [pool.submit(connect_again_and_again, port, str(authority), seconds) for _ in range(CONNECTING_PROCESSES)]
    return sum(one.result() for one in asked) / seconds


def client(what: str, who: str, port: int, seconds: float) -> subprocess.Popen[str]:
    """Start a client that goes on for so long and prints its MB/s, those after the windows were filled."""
    topic = FREE_TOPIC if who == FREE else TOPIC
    command = [sys.executable, str(CLIENT), what, f"{HOST}:{port}", topic, str(VALUE_BYTES), who]
    command += [str(seconds), str(FILLING_SECONDS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def rate(started: subprocess.Popen[str]) -> float:
    said, _ = started.communicate()
    return float(said)


def quotas(port: int, seconds: float) -> dict[str, float]:
    """Figures of one broker."""
    quota = {"producer_byte_rate": float(QUOTA_BYTES), "consumer_byte_rate": float(QUOTA_BYTES)}
    with odradek.KafkaAdminClient(bootstrap_servers=f"{HOST}:{port}") as admin:
        admin.create_topics([odradek.NewTopic(FREE_TOPIC, PARTITIONS, 1, configs=FORGOTTEN_SOON)])
        admin.alter_client_quotas([odradek.ClientQuotaAlteration({"client-id": THROTTLED}, quota)])
    alone = rate(client("produce", FREE, port, seconds))
    started = [client(what, who, port, seconds) for what, who in (
        ("produce", THROTTLED), ("consume", THROTTLED), ("produce", FREE))]  # fmt: skip
    found = dict(zip(("in MB/s", "out MB/s", "free in MB/s"), map(rate, started), strict=True))
    return {**found, "free, of alone": found["free in MB/s"] / alone}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3, help="number of rounds, of which the medians are shown")
    arguments.add_argument("--quick", action="store_true", help="take a tenth of the records")
    arguments.add_argument("--only", default="", help="rows with this in their names")
    arguments.add_argument("--seconds", type=float, default=SECONDS, help="for quotas, a multiple of 11")
    options = arguments.parse_args()
    jars = kafka_jars(JARS)
    os.environ["PYTHONUNBUFFERED"] = "1"
    java = ["java", *START_SCRIPT_FLAGS, "-cp", f"{jars.directory}/jars/*", "kafka.Kafka"]
    with tempfile.TemporaryDirectory(prefix="odradek-secured-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        files = certificates(folder)
        zookeeper_port = stack.enter_context(zookeeper(jars, folder))
        kafka = stack.enter_context(broker("kafka", java, zookeeper_port, files, folder))
        python = [sys.executable, "-m", "odradek.broker"]
        ours = stack.enter_context(broker("odradek", python, zookeeper_port, files, folder))
        print(f"{'':14} {'':14} {'odradek':>12} {'Kafka 3.9.1':>12}   {'ratio':>6}   (above 1: we are better)")
        for row in [row for row in rows(0.1 if options.quick else 1.0, files.authority) if options.only in row.name]:
            pairs = [(measured(row, kafka.tls_port), measured(row, ours.tls_port)) for _ in range(options.rounds)]
            for title in row.figures:
                report(row.name, title, [mine[title] for _, mine in pairs], [theirs[title] for theirs, _ in pairs])
        if options.only in "handshakes":
            with ProcessPoolExecutor(CONNECTING_PROCESSES) as pool:
                seconds = 1.0 if options.quick else 5.0
                for one in (kafka, ours):  # Java compiles what it has done often
                    handshakes(pool, one.tls_port, files.authority, 2 * seconds)
                found = [
                    [handshakes(pool, one.tls_port, files.authority, seconds) for one in (kafka, ours)]
                    for _ in range(options.rounds)
                ]
            report("handshakes", "full/s", [mine for _, mine in found], [theirs for theirs, _ in found])
        if options.only in "quotas":
            goals = "to be kept to 5 %, the free at 0.90 of alone"
            print(f"\nquota {QUOTA_BYTES / 1e6:g} MB/s, {options.seconds:g} s: {goals}")
            both = [quotas(one.port, options.seconds + FILLING_SECONDS) for one in (ours, kafka)]
            for title in both[0]:
                print(f"{'quotas':14} {title:14} {both[0][title]:12.2f} {both[1][title]:12.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
