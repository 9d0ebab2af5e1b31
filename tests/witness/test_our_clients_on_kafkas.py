"""The contract of our own clients, asyncio and blocking, on Apache Kafka's broker."""

import asyncio
from collections.abc import Iterator

import pytest

from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.testing.client_contract import CHECKS, SOCKET_CHECKS, ContractWorld
from odradek.testing.foreign.kafka_jars import KafkaJars
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


@pytest.mark.parametrize("blocking", [False, True], ids=["asyncio", "blocking"])
@pytest.mark.parametrize("name", CHECKS)
def test_on_kafka(kafka_address: str, name: str, blocking: bool) -> None:
    async def main() -> None:
        async with ContractWorld([kafka_address], blocking=blocking) as world:
            await CHECKS[name](world)

    asyncio.run(main())


@pytest.mark.parametrize("name", SOCKET_CHECKS)
def test_blocking_alone_on_kafka(kafka_address: str, name: str) -> None:
    async def main() -> None:
        async with ContractWorld([kafka_address]) as world:
            await SOCKET_CHECKS[name](world)

    asyncio.run(main())
