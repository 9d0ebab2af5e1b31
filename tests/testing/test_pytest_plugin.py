"""The fixtures `kafka` and `kafka_cluster`, as a project that uses them has them."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
from odradek import KafkaProducer

def send(bootstrap, topic):
    with KafkaProducer(bootstrap_servers=bootstrap, client_id="app") as producer:
        producer.send(topic, b"1").result(60)

def test_first(kafka):
    topic = kafka.topic("orders")
    send(kafka.bootstrap, topic)
    send(kafka.bootstrap, "made-by-itself")
    kafka.respond("Produce", "NOT_LEADER_OR_FOLLOWER", times=None)
    kafka.kill(0)

def test_finds_it_whole(kafka):
    assert kafka.topics() == []
    topic = kafka.topic("orders", partitions=2, settings={"retention.ms": 1000})
    assert topic.startswith("orders-test_finds_it_whole")
    send(kafka.bootstrap, topic)
    assert kafka.is_running(0)

def test_alone(kafka_cluster):
    kafka_cluster.create_topic("orders")
    send(kafka_cluster.bootstrap, "orders")
    kafka_cluster.kill(1)
    assert False, "on purpose"
"""


def _run(folder: Path, *options: str) -> str:
    (folder / "test_app.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "odradek.testing.pytest_plugin", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run([*command, *options], cwd=folder, env=environment, capture_output=True, text=True)
    return ran.stdout + ran.stderr


def test_tests_of_a_project(tmp_path: Path) -> None:
    """Each finds the cluster whole and empty; of the one that fails the report says what happened."""
    said = _run(tmp_path, "--kafka-brokers", "2")
    assert "1 failed, 2 passed" in said, said
    told = said[said.index("Kafka: what happened") :]
    assert "kills broker 1" in told and "app → broker" in told and "Produce" in told, said


def test_data_are_kept(tmp_path: Path) -> None:
    options = ("--kafka-brokers", "1", "--kafka-keep", f"--basetemp={tmp_path / 'kept'}")
    assert "1 passed" in _run(tmp_path, *options, "test_app.py::test_first")
    assert list((tmp_path / "kept").glob("kafka*/broker-0/orders-test_first-1-0/*.log")), "for dump-log"


def test_pytest_finds_it_by_itself() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"odradek": "odradek.testing.pytest_plugin"}
    assert all("pyspark" not in one and "jdk" not in one for one in project["optional-dependencies"]["testing"])
