"""Replicas that move between the log directories of a broker, asked for by Kafka's own tools and by kafka-python."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaAdminClient, TopicPartitionReplica
from kafka.errors import LogDirNotFoundError, NoError, UnknownTopicOrPartitionError

from odradek.cli import main as command_line
from odradek.testing import Cluster
from odradek.testing.patience import PATIENCE_SECONDS, UNHURRIED, wait_until

pytestmark = pytest.mark.cluster

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
TOPIC = "moving"
RECORDS = 2_000
VALUE = b"x" * 10_000
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    where = tmp_path_factory.mktemp("directories")
    return [str(where / name) for name in "ab"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, directories: list[str]) -> Iterator[Cluster]:
    where = tmp_path_factory.mktemp("cluster")
    settings = {"log.dirs": ",".join(directories), **UNHURRIED}
    log = where / "cluster.log"
    with Cluster(1, topics={TOPIC: 2}, data=where, settings=settings, process=True, log=log, trace=False) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(RECORDS):
            producer.produce(TOPIC, VALUE, str(number).encode(), partition=0)
            producer.poll(0)
        assert producer.flush(PATIENCE_SECONDS) == 0
        yield cluster
        assert " ERROR " not in log.read_text()


@pytest.fixture(scope="module")
def tool(cluster: Cluster, start_toolbox: Callable[[Cluster], Callable[..., tuple[int, str]]]) -> Tool:
    """Runs one of Kafka's and returns what it says."""
    toolbox = start_toolbox(cluster)

    def run(main: str, *arguments: str) -> str:
        code, said = toolbox(main, *arguments)
        assert code == 0, said
        return said

    return run


def where(said: str) -> dict[str, list[tuple[str, bool]]]:
    """Of what kafka-log-dirs says: partitions by directory, and which of them are on their way."""
    [line] = [line for line in said.splitlines() if line.startswith("{")]
    described: dict[str, Any] = json.loads(line)
    [broker] = described["brokers"]
    return {
        one["logDir"]: sorted((p["partition"], p["isFuture"]) for p in one["partitions"]) for one in broker["logDirs"]
    }


def consume_all(cluster: Cluster) -> list[bytes | None]:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    keys: list[bytes | None] = []

    def everything() -> bool:
        keys.extend(record.key() for record in consumer.consume(500, 1.0))
        return len(keys) >= RECORDS

    wait_until(everything, "the records")
    consumer.close()
    return keys


def test_kafkas_tools_move_a_replica(tool: Tool, cluster: Cluster, directories: list[str], tmp_path: Path) -> None:
    home = next(path for path, found in where(tool(LOG_DIRS, "--describe")).items() if (f"{TOPIC}-0", False) in found)
    away = next(path for path in directories if path != home)
    plan = {
        "version": 1,
        "partitions": [{"topic": TOPIC, "partition": 0, "replicas": [0], "log_dirs": [away]}],
    }
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    said = tool(REASSIGN, "--reassignment-json-file", str(file), "--execute")
    assert f"Successfully started moving log directory to {away} for replica {TOPIC}-0" in said, said
    verify = (REASSIGN, "--reassignment-json-file", str(file), "--verify")
    wait_until(
        lambda: f"Reassignment of replica {TOPIC}-0-0 completed" in tool(*verify), "the move", lambda: tool(*verify)
    )
    described = where(tool(LOG_DIRS, "--describe", "--topic-list", TOPIC, "--broker-list", "0"))
    assert (f"{TOPIC}-0", False) in described[away]
    assert not any(future for found in described.values() for _, future in found)
    assert consume_all(cluster) == [str(number).encode() for number in range(RECORDS)]


def test_kafka_python_moves_a_replica_back(cluster: Cluster, directories: list[str]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)

    def home() -> list[str]:
        [broker] = admin.describe_log_dirs({TOPIC: [0]})
        return [one["log_dir"] for one in broker["log_dirs"] for topic in one["topics"] if topic["partitions"]]

    [before] = home()
    away = next(path for path in directories if path != before)
    replica = TopicPartitionReplica(TOPIC, 0, 0)
    assert admin.alter_replica_log_dirs({replica: away}) == {replica: NoError}
    wait_until(lambda: home() == [away], "the replica in the other directory")
    assert consume_all(cluster) == [str(number).encode() for number in range(RECORDS)]
    nowhere = admin.alter_replica_log_dirs({replica: "/nowhere", TopicPartitionReplica("none", 0, 0): away})
    assert {one.topic: error for one, error in nowhere.items()} == {
        TOPIC: LogDirNotFoundError,
        "none": UnknownTopicOrPartitionError,
    }
    admin.close()


def test_our_own_command_moves_a_replica(
    cluster: Cluster, directories: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        status = command_line.run(["reassign", *arguments, "--bootstrap-server", cluster.bootstrap])
        said = capsys.readouterr()
        return status, said.out + said.err

    def home() -> list[str]:
        found, wanted = json.loads(run("directories", "0", "--json")[1]), {"topic": TOPIC, "partition": 0}
        return [one["path"] for one in found for replica in one["replicas"] if replica["topic_partition"] == wanted]

    [before] = home()
    away = next(path for path in directories if path != before)
    assert run("move", "0", f"{TOPIC}-0={away}")[0] == 0
    wait_until(lambda: home() == [away], "the replica in the other directory")
    said = run("directories", "0")[1]
    assert f"{TOPIC}-0" in said and "bytes free" in said, said
    assert run("move", "0", f"{TOPIC}-0=/nowhere") == (1, f"odradek: LOG_DIR_NOT_FOUND: {TOPIC}-0: log dir not found\n")
