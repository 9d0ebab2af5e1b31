"""One ZooKeeper, Kafka's jars, and stages: a broker id whose directory Kafka and Odradek serve in turns."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.local.ports import free_ports
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.testing.foreign.kafka_jars import KafkaJars
from odradek.testing.foreign.stage import Stage


@pytest.fixture(scope="package")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """One real server for the whole run."""
    server = EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), free_ports(1)[0])
    with asyncio.Runner() as runner:
        runner.run(server.start())
        yield server
        runner.run(server.stop())


_chroots = itertools.count()


@pytest.fixture
def new_stage(kafka: KafkaJars, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Makes stages: of one test, all in one cluster."""
    stages: list[Stage] = []
    cluster = f"{zookeeper.connect}/witness-{next(_chroots)}"

    def make(broker_id: int = 0, log_directories: int = 1, **settings: str) -> Stage:
        directory = tmp_path / f"broker-{broker_id}"
        stages.append(Stage(kafka, cluster, directory, broker_id, settings, log_directories))
        return stages[-1]

    yield make
    for stage in stages:
        stage.close()
