"""Batches and offsets that a transaction must refuse, and what becomes of the transaction and its producer."""

from typing import Any

import pytest

from odradek.broker.cluster.peer import BrokerUnreachable
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.testing.log_environments import make_batch
from tests.sim.transactional_client import (
    GROUP,
    GROUPS,
    TOPIC,
    Client,
    Producer,
    one_producer,
    until,
    with_brokers,
)


def test_offsets_that_come_after_their_transaction_has_ended_are_refused() -> None:
    async def scenario(client: Client) -> None:
        await client.create([[0]])
        producer = Producer(client, "id")
        await producer.begin()
        await producer.add_offsets()
        assert await producer.commit_offset(5) == ErrorCode.NONE
        await producer.end()

        async def is_stable() -> bool:
            return await committed_offset(client) == (5, ErrorCode.NONE)

        await until(10_000, client, is_stable)
        assert await producer.commit_offset(6) == ErrorCode.INVALID_TXN_STATE  # sent again by a client that timed out
        assert await producer.commit_offset(6, version=4) == ErrorCode.TRANSACTION_ABORTABLE
        assert await is_stable()
        [broker] = client.cluster.brokers
        for index, partition in broker.server.services.replicas.partitions.items():
            assert partition.last_stable_offset == partition.high_watermark, index

    with_brokers(1, scenario)


def test_offsets_while_the_coordinator_moves_and_of_a_generation_that_nobody_knows() -> None:
    async def scenario(client: Client) -> None:
        await client.create([[0]])
        producer = Producer(client, "id")
        await producer.begin()
        await producer.add_offsets()
        assert await producer.commit_offset(5, generation_id=5, member_id="m") == ErrorCode.UNKNOWN_MEMBER_ID
        verification: Any = client.cluster.brokers[0].server.services.transaction_verification

        async def moving(name: str, producer: Any, partitions: Any) -> Any:
            return dict.fromkeys(partitions, ErrorCode.NOT_COORDINATOR)

        verification._ask = moving
        assert await producer.commit_offset(5, 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await producer.commit_offset(5, 2) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    with_brokers(1, scenario)


async def committed_offset(client: Client) -> tuple[int, int]:
    """Offset and error of an OffsetFetch that requires stable offsets."""
    topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
    request = OffsetFetchRequest(group_id=GROUP, topics=[topic], require_stable=True)
    response = await client.ask_coordinator(GROUP, GROUPS, request, 7)
    partition = response.topics[0].partitions[0]
    return partition.committed_offset, partition.error_code


def test_offsets_of_no_group_or_no_producer_are_refused() -> None:
    async def scenario(client: Client) -> None:
        await client.create([[0]])
        producer = Producer(client, "id")
        await producer.begin()
        await producer.add_offsets()
        coordinator = await client.coordinator(GROUP, GROUPS)
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        request = TxnOffsetCommitRequest(
            transactional_id="id",
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )

        async def ask() -> int:
            error: int = (await client.ask(coordinator, request, 3)).topics[0].partitions[0].error_code
            return error

        assert await ask() == ErrorCode.INVALID_GROUP_ID
        request.group_id, request.producer_id = GROUP, -1
        assert await ask() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        request.producer_id = producer.id
        assert await ask() == ErrorCode.NONE

    with_brokers(1, scenario)


def test_offsets_of_an_epoch_that_nobody_was_given_do_not_keep_the_transaction_from_ending() -> None:
    async def scenario(client: Client) -> None:
        await client.create([[0]])
        producer = Producer(client, "id")
        await producer.begin()
        await producer.add_offsets()
        assert await producer.commit_offset(1) == ErrorCode.NONE
        producer.epoch += 1
        assert await producer.commit_offset(2) == ErrorCode.INVALID_PRODUCER_EPOCH
        producer.epoch -= 1
        await producer.end()

        async def complete() -> bool:
            return await producer.state() == "CompleteCommit"

        await until(3_000, client, complete)
        assert await committed_offset(client) == (1, ErrorCode.NONE)

    with_brokers(1, scenario)


def test_no_transaction_begins_without_an_answer_to_the_producer() -> None:
    """acks=0: it could not be told what the coordinator says."""

    async def scenario(client: Client) -> None:
        producer = await one_producer(client, 0)
        broker = client.cluster.brokers[0]
        partition = broker.server.services.replicas.led(TOPIC, 0)
        with pytest.raises(BrokerUnreachable, match="closed by the other side"):
            await client.ask(broker, producer.produce((0, 0), acks=0), 9)
        assert partition.log.log_end_offset == 0
        await producer.send(0)
        assert partition.log.log_end_offset == 1

    with_brokers(1, scenario)


def test_a_batch_outside_of_its_transaction_ends_the_transaction_and_not_a_producer_that_knows_the_error() -> None:
    """KIP-890: version 11 of Produce is that."""

    async def scenario(client: Client) -> None:
        await client.create([[0]])
        producer = Producer(client, "id")
        await producer.begin()
        assert await producer.send_together((0, 0)) == [ErrorCode.INVALID_TXN_STATE]
        assert await producer.send_together((0, 0), version=11) == [ErrorCode.TRANSACTION_ABORTABLE]

    with_brokers(1, scenario)


@pytest.mark.parametrize(
    ("producer_id", "epoch", "error", "words"),
    [
        (0, 1, ErrorCode.INVALID_PRODUCER_EPOCH, "the transactional id is that of a newer producer"),
        (1, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional id is not that of this producer"),
        (0, 0, ErrorCode.INVALID_TXN_STATE, "the partition was not added to the transaction"),
    ],
)
def test_a_first_batch_is_refused_with_the_words_for_its_fault(
    producer_id: int, epoch: int, error: ErrorCode, words: str
) -> None:
    """A producer that was fenced read that the coordinator knew of no such transaction."""

    async def scenario(client: Client) -> None:
        await client.create([[0]])
        producer = Producer(client, "id")
        await producer.begin()
        await producer.begin()
        producer.id, producer.epoch = producer.id + producer_id, producer.epoch - epoch
        leader = await client.leader(0)
        answer = (await client.ask(leader, producer.produce((0, 0)), 9)).responses[0].partition_responses[0]
        assert (answer.error_code, answer.error_message) == (error, words)

    with_brokers(1, scenario)


def test_a_batch_behind_one_whose_verification_failed_waits_for_it() -> None:
    """Else the first one would be out of order for ever."""

    async def scenario(client: Client) -> None:
        producer = await one_producer(client, 0)
        verification: Any = client.cluster.brokers[0].server.services.transaction_verification
        ask = verification._ask

        async def moving(name: str, producer: Any, partitions: Any) -> Any:
            verification._ask = ask
            return dict.fromkeys(partitions, ErrorCode.NOT_COORDINATOR)

        verification._ask = moving
        assert await producer.send_together((0, 0)) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert await producer.send_together((0, 1)) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        assert await producer.send_together((0, 0)) == [ErrorCode.NONE]
        assert await producer.send_together((0, 1)) == [ErrorCode.NONE]

    with_brokers(1, scenario)


def test_two_batches_of_a_partition_and_two_producers_in_one_request() -> None:
    async def scenario(client: Client) -> None:
        producer = await one_producer(client, 0, 1)
        assert await producer.send_together((0, 0), (0, 1)) == [ErrorCode.NONE] * 2
        request = producer.produce((0, 2), (1, 0))
        stranger = make_batch(producer_id=producer.id + 1, sequence=0, transactional=True)
        request.topic_data[0].partition_data[1].records = stranger
        answers = (await client.ask(client.cluster.brokers[0], request, 9)).responses[0].partition_responses
        assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2

    with_brokers(1, scenario)
