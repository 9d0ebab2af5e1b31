"""The first process of a container gets SIGTERM like any other, at whatever moment."""

from collections.abc import Iterator

import docker
import pytest
from docker.models.containers import Container

from odradek.testing.container import NOT_OF_COMPOSE
from odradek.testing.patience import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("image")]

NEVER_MS, STOP_SECONDS = 600_000, int(PATIENCE_SECONDS)


@pytest.fixture
def without_zookeeper(image: None) -> Iterator[Container]:
    client = docker.from_env()
    settings = {
        "KAFKA_ZOOKEEPER_CONNECT": "127.0.0.1:2181",
        "KAFKA_ZOOKEEPER_CONNECTION_TIMEOUT_MS": str(NEVER_MS),
        "KAFKA_NO_SUCH_SETTING": "1",
    }
    container = client.containers.run("odradek", detach=True, environment=settings, labels=NOT_OF_COMPOSE)
    yield container
    container.remove(force=True, v=True)
    client.close()


def test_a_broker_that_waits_for_zookeeper_stops_at_once(without_zookeeper: Container) -> None:
    wait_until(lambda: b"no.such.setting" in without_zookeeper.logs(), "the settings have been read")
    without_zookeeper.stop(timeout=STOP_SECONDS)
    assert without_zookeeper.wait()["StatusCode"] == 0, without_zookeeper.logs().decode()
