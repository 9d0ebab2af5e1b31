"""A leader of a topic with `flush.messages` that has written a batch, and finds no descriptor to flush it."""

import asyncio
import errno
from dataclasses import replace

import pytest

from odradek.broker.replication.partition import Partition
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.simulated_files import Fault
from tests.broker.replication.one_broker import with_broker

NO_DESCRIPTOR = Fault(0, 1, errno.EMFILE, what="descriptors")


async def refused(cluster: EmbeddedCluster, services: Services, batch: bytearray) -> None:
    """Append while there is no descriptor but the log's: the batch is written, neither flushed nor acknowledged."""
    partition = services.replicas.led("t", 0)
    cluster.brokers[0].files.fault = NO_DESCRIPTOR
    with pytest.raises(KafkaError) as error:
        services.replicas.append(partition, bytearray(batch), -1)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR and not partition.offline


def led(services: Services) -> Partition:
    """A partition that is to be flushed after each record, and has one."""
    partition = services.replicas.led("t", 0)
    partition.log.config = replace(partition.log.config, flush_messages=1)
    services.replicas.append(partition, make_batch(), -1)
    assert partition.log.recovery_point == partition.high_watermark == 1
    return partition


def test_what_was_not_flushed_is_there_for_consumers_once_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """They waited until somebody wrote again: the leader is alone in its ISR, and its client had given up."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        partition = led(services)
        await refused(cluster, services, make_batch([b"x"]))
        await asyncio.sleep(5)
        assert (partition.log.log_end_offset, partition.high_watermark, partition.log.recovery_point) == (2, 1, 1)
        touched: list[object] = []
        purgatory = services.replicas.purgatory
        touch = purgatory.touch
        monkeypatch.setattr(purgatory, "touch", lambda key: (touched.append(key), touch(key)))
        cluster.brokers[0].files.fault = None
        await asyncio.sleep(5)
        assert partition.log.recovery_point == partition.high_watermark == 2 and partition.advanced in touched

    with_broker(scenario)


def test_a_repeated_batch_is_acknowledged_when_it_is_on_the_disk() -> None:
    """The first attempt wrote it and was refused; the second is a duplicate, of something that a crash would take."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        partition = led(services)
        batch = make_batch([b"x"], producer_id=7, sequence=0)
        await refused(cluster, services, batch)
        await refused(cluster, services, batch)
        assert partition.log.log_end_offset == 2 and partition.log.recovery_point == 1
        cluster.brokers[0].files.fault = None
        assert services.replicas.append(partition, bytearray(batch), -1).duplicate
        assert partition.log.recovery_point == partition.high_watermark == 2

    with_broker(scenario)
