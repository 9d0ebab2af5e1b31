"""OdradekContainer: what a test of somebody else's program does with it."""

import pytest
from confluent_kafka import Consumer, Producer
from docker.errors import ImageNotFound
from testcontainers.core.exceptions import ContainerStartException

from odradek.testing import OdradekContainer
from odradek.testing.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("image")]


def test_round_trip() -> None:
    sent = [f"letter {number}" for number in range(100)]
    with OdradekContainer() as kafka:
        labels = kafka.get_wrapped_container().labels
        assert not labels["com.docker.compose.project"], "compose takes it for one of its own"
        producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server(), "acks": "all"})
        for value in sent:
            producer.produce("letters", value)
        assert producer.flush(PATIENCE_SECONDS) == 0
        settings = {"group.id": "readers", "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": kafka.get_bootstrap_server(), **settings})
        consumer.subscribe(["letters"])
        found: list[str] = []
        while len(found) < len(sent):
            for message in consumer.consume(len(sent), 1.0):
                assert message.error() is None, message.error()
                found.append((message.value() or b"").decode())
        consumer.close()
    assert found == sent


def test_a_broker_that_cannot_start_says_why() -> None:
    with pytest.raises(ContainerStartException, match=r"num\.partitions=many"):
        OdradekContainer().with_env("KAFKA_NUM_PARTITIONS", "many").__enter__()


def test_an_image_that_is_not_there_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.testing.container.IMAGE", "odradek-nowhere")
    with pytest.raises(ImageNotFound, match="docker compose build"):
        OdradekContainer("odradek-nowhere").__enter__()
