"""Idempotent producers with several batches on their way to a broker that refuses the first of them."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import ErrorCode
from tests.broker.requests.whole_broker import TOPIC, Client, with_broker

PRODUCER = {"producer_id": 7, "producer_epoch": 0}
NOT_LEADER, NOT_ENOUGH_REPLICAS = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

Send = Callable[[int], Awaitable[Any]]
"""Sends the batch of that sequence; its offset, or the error."""


def refuse(partition: Partition, cause: ErrorCode) -> None:
    if cause is NOT_LEADER:
        partition.stop_leading()
    else:
        partition.committed_isr = frozenset()


def accept(partition: Partition, broker: int) -> None:
    epochs = partition.leader_epoch + 1, partition.partition_epoch + 1
    partition.lead(PartitionView(broker, epochs[0], (broker,), epochs[1], (broker,)), 0.0)


def with_producer(scenario: Callable[[Partition, Callable[[int], Any], int], Awaitable[None]]) -> None:
    async def main(client: Client) -> None:
        await client.create()
        broker = client.cluster.brokers[0]

        async def send(sequence: int) -> int | ErrorCode:
            answer = await client.produce(b"%d" % sequence, base_sequence=sequence, **PRODUCER)
            return ErrorCode(answer.error_code) if answer.error_code else answer.base_offset

        await scenario(broker.server.services.replicas.partitions[TOPIC, 0], send, broker.broker_id)

    with_broker(main)


@pytest.mark.parametrize("cause", [NOT_LEADER, NOT_ENOUGH_REPLICAS])
@pytest.mark.parametrize("written", [0, 3])
def test_batches_behind_a_refused_one_are_refused_for_the_same_reason(cause: ErrorCode, written: int) -> None:
    """Out of order, as Kafka has it, makes librdkafka number all anew, and repeat what it has had no answer for."""

    async def scenario(partition: Partition, send: Send, broker: int) -> None:
        for sequence in range(written):
            assert await send(sequence) == sequence
        refuse(partition, cause)
        assert await send(written) is cause
        accept(partition, broker)
        assert [await send(written + behind) for behind in (1, 2)] == [cause, cause]
        assert [await send(written + behind) for behind in (0, 1, 2)] == [written, written + 1, written + 2]
        assert await send(written + 9) is OUT_OF_ORDER

    with_producer(scenario)


def test_who_never_sends_the_refused_batch_again_is_out_of_order() -> None:
    async def scenario(partition: Partition, send: Send, broker: int) -> None:
        assert await send(0) == 0
        refuse(partition, NOT_LEADER)
        assert await send(1) is NOT_LEADER
        accept(partition, broker)
        assert [await send(sequence) for sequence in (2, 3, 4, 5, 2)] == [NOT_LEADER] * 4 + [OUT_OF_ORDER]

    with_producer(scenario)


def test_a_batch_that_was_written_before_it_was_refused_is_known_again() -> None:
    """Its first answer was lost with the leader that gave it."""

    async def scenario(partition: Partition, send: Send, broker: int) -> None:
        assert [await send(sequence) for sequence in (0, 1)] == [0, 1]
        refuse(partition, NOT_LEADER)
        assert [await send(sequence) for sequence in (1, 2)] == [NOT_LEADER, NOT_LEADER]
        accept(partition, broker)
        assert [await send(sequence) for sequence in (3, 4)] == [NOT_LEADER, NOT_LEADER]
        assert [await send(sequence) for sequence in (1, 2, 3, 4)] == [1, 2, 3, 4]

    with_producer(scenario)


@pytest.mark.parametrize(
    ("cause", "told"),
    [(OUT_OF_ORDER, True), (ErrorCode.INVALID_PRODUCER_EPOCH, True), (NOT_ENOUGH_REPLICAS, True), (NOT_LEADER, False)],
)
def test_the_start_of_the_log_is_told_with_what_kafka_tells_it(cause: ErrorCode, told: bool) -> None:
    """To a producer that the log has forgotten since (KIP-360): ReplicaManager.appendToLocalLog."""

    async def scenario(client: Client) -> None:
        await client.create()
        partition = client.cluster.brokers[0].server.services.replicas.partitions[TOPIC, 0]
        for value in (b"a", b"b"):
            await client.produce(value, producer_id=7, producer_epoch=3, base_sequence=int(value == b"b"))
        partition.log.advance_log_start_offset(2)
        if cause in (NOT_LEADER, NOT_ENOUGH_REPLICAS):
            refuse(partition, cause)
        epoch = 2 if cause is ErrorCode.INVALID_PRODUCER_EPOCH else 3
        answer = await client.produce(b"c", producer_id=7, producer_epoch=epoch, base_sequence=9)
        assert answer.error_code == cause
        assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)
        assert answer.log_start_offset == (2 if told else -1)

    with_broker(scenario)
