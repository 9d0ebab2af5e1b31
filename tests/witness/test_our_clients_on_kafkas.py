"""The contract of our own clients on Apache Kafka's brokers: the blocking ones, which have the asyncio ones within, on
3.9; the asyncio ones on 4 in KRaft mode."""

import asyncio
from collections.abc import Iterator

import pytest

from odradek.aio import Admin
from odradek.broker.requests.registry import SERVED
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.testing.client_contract import CHECKS, SOCKET_CHECKS, ContractWorld
from odradek.testing.foreign.kafka_jars import KafkaJars, new_kraft_broker
from odradek.testing.foreign.stage import Stage

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def kafka_address(
    kafka: KafkaJars, zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """One broker for all."""
    directory = tmp_path_factory.mktemp("kafka")
    stage = Stage(kafka, f"{zookeeper.connect}/our-clients", directory, 0, {"log.cleaner.enable": "false"})
    stage.kafka()
    yield stage.address
    stage.close()


@pytest.fixture(scope="module")
def kraft_address(kraft: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One broker for all."""
    broker = new_kraft_broker(kraft, tmp_path_factory.mktemp("kraft"))
    broker.start()
    yield broker.address
    broker.stop()


def check(name: str, address: str, *, blocking: bool = False, kraft: bool = False) -> None:
    async def main() -> None:
        async with ContractWorld([address], blocking=blocking, kraft=kraft) as world:
            await (CHECKS | SOCKET_CHECKS)[name](world)

    asyncio.run(main())


@pytest.mark.parametrize("name", CHECKS | SOCKET_CHECKS)
def test_on_kafka(kafka_address: str, name: str) -> None:
    check(name, kafka_address, blocking=True)


@pytest.mark.parametrize("name", CHECKS | SOCKET_CHECKS)
def test_on_kafka_without_zookeeper(kraft_address: str, name: str) -> None:
    check(name, kraft_address, kraft=True)


def test_a_broker_of_kafka_with_zookeeper_advertises_what_ours_do(kafka_address: str) -> None:
    """Neither takes what clients measure (KIP-714): Kafka has these two APIs in KRaft alone."""

    async def advertised() -> dict[int, tuple[int, int]]:
        async with Admin(bootstrap_servers=kafka_address) as admin:
            return await admin.api_versions()

    assert asyncio.run(advertised()) == SERVED
