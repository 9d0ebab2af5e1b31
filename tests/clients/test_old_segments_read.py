"""Clients of today and of old read a topic whose segments an older Kafka has written.

One broker starts with the directories of tests/broker/log/golden (Apache Kafka 3.9.1, formats 0, 1 and mixed); the
others get them by replication, byte for byte.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek import KafkaConsumer
from odradek.client.records import TopicPartition
from odradek.testing import Cluster
from odradek.testing.foreign.aio import AiokafkaClient
from odradek.testing.foreign.confluent import ConfluentClient
from odradek.testing.foreign.driver import DriverClient
from odradek.testing.foreign.interface import Client, Record
from odradek.testing.foreign.kafka_python import KafkaPythonClient
from odradek.testing.foreign.kcat import KcatClient
from odradek.testing.needs import RUNTIMES, need
from odradek.testing.old_segments import GOLDEN, OldRecord, expected, golden_bytes, golden_copy
from odradek.testing.patience import PATIENCE_SECONDS, UNHURRIED, wait_until

pytestmark = pytest.mark.cluster

TOPICS = ("v0", "v1", "mixed")
BROKERS = 2
OLD = ("0.8.0", "0.8.2", "0.9", "0.10.0")
LATER = ("0.11.0", "1.0", "2.0")
"""As of these kafka-python fetches with versions 4 to 10: it knows record batches."""


@pytest.fixture(scope="module")
def old_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("old")


@pytest.fixture(scope="module")
def old_cluster(old_logs: Path) -> Iterator[Cluster]:
    (old_logs / "logs-0").mkdir()
    for topic in TOPICS:
        golden_copy(f"{topic}-0", old_logs / "logs-0")
    settings = {"log.dirs": old_logs / "logs-{}", "log.retention.ms": -1, **UNHURRIED}
    with Cluster(BROKERS, data=old_logs, settings=settings, process=True, trace=False) as cluster:
        for topic in TOPICS:
            cluster.create_topic(topic, assignment={0: [0, 1]}, settings={"retention.ms": -1})
        wait_until(lambda: all(copied(old_logs, topic) == golden_bytes(f"{topic}-0") for topic in TOPICS), "the copies")
        for topic in TOPICS:
            cluster.wait_for(topic, leader=0, isr=BROKERS)
        yield cluster


def copied(logs: Path, topic: str) -> bytes:
    """What the broker that began with nothing has."""
    return b"".join(path.read_bytes() for path in sorted((logs / "logs-1" / f"{topic}-0").glob("*.log")))


def rows(records: list[Record]) -> list[OldRecord]:
    """Without a time clients say null, 0 or -1."""
    return [(n, one.timestamp_ms or -1, one.key, one.value) for n, one in enumerate(records)]


def check(client: Client, *, times: bool = True) -> None:
    for topic in TOPICS:
        wanted = expected(f"{topic}-0")
        read = rows(client.consume(topic, len(wanted)))
        if not times:
            wanted = [(offset, -1, key, value) for offset, _, key, value in wanted]
        assert read == wanted, f"{client.name} reads {topic}"


@pytest.mark.parametrize("name", ["confluent", "kafka-python", "aiokafka", "kcat"])
def test_clients_of_today(name: str, old_cluster: Cluster) -> None:
    need(*RUNTIMES.get(name, ()))
    makers: dict[str, Callable[[], Client]] = {
        "confluent": lambda: ConfluentClient(old_cluster.bootstrap),
        "kafka-python": lambda: KafkaPythonClient(old_cluster.bootstrap),
        "aiokafka": lambda: AiokafkaClient(old_cluster.bootstrap),
        "kcat": lambda: KcatClient(old_cluster.bootstrap),
    }
    check(makers[name]())


def test_javas(old_cluster: Cluster, new_java: Callable[[Cluster], DriverClient]) -> None:
    driver = new_java(old_cluster)
    try:
        check(driver)
    finally:
        driver.close()


@pytest.mark.parametrize("release", [*OLD, *LATER])
def test_kafka_python_as_it_was(release: str, old_cluster: Cluster) -> None:
    version = tuple(int(part) for part in release.split("."))
    check(KafkaPythonClient(old_cluster.bootstrap, api_version=version), times=release not in OLD[:3])


@pytest.mark.parametrize("release", ["0.8.0", "0.8.2.2", "0.9.0"])
def test_librdkafka_as_it_was(release: str, old_cluster: Cluster) -> None:
    settings = {"api.version.request": False, "broker.version.fallback": release, "log_level": 4}
    check(ConfluentClient(old_cluster.bootstrap, **settings), times=False)


def test_our_consumer_and_command_line(old_cluster: Cluster) -> None:
    with KafkaConsumer(bootstrap_servers=old_cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        for topic in TOPICS:
            consumer.assign([TopicPartition(topic, 0)])
            found: list[Any] = []
            wanted = expected(f"{topic}-0")
            while len(found) < len(wanted):
                for records in consumer.poll(timeout_ms=1000).values():
                    found += [(one.offset, one.timestamp_ms, one.key, one.value) for one in records]
            assert found == wanted
            time_ms = wanted[20][1]
            if time_ms >= 0:  # format 0 has no times
                place = consumer.offsets_for_times({TopicPartition(topic, 0): time_ms})[TopicPartition(topic, 0)]
                assert place is not None and place.offset <= wanted[20][0]
    command = [sys.executable, "-m", "odradek", "consume", "v0", "--from-beginning", "--max-messages", "65"]
    done = subprocess.run(
        [*command, "--bootstrap-server", old_cluster.bootstrap],
        capture_output=True, timeout=PATIENCE_SECONDS, check=True, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.stdout.count(b"value ") == 8 * sum(value is not None for _, _, _, value in expected("v0-0"))
    assert (GOLDEN / "v0-0").is_dir()
