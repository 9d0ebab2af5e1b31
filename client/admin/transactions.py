"""Transactions and their producers (KIP-664): list, describe, abort those that hang. For the client's loop."""

import asyncio
import logging
import re
from collections.abc import Collection, Iterable, Sequence

from odradek.client.admin.topics import the_one
from odradek.client.admin.values import (
    AbortTransactionSpec,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from odradek.client.calls import Deadline, ask_broker, ask_coordinator, ask_leaders
from odradek.client.cluster import TRANSACTION_COORDINATOR, Cluster
from odradek.client.errors import BrokerUnreachable
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages import describe_producers as producers
from odradek.protocol.messages import describe_transactions as descriptions
from odradek.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

logger = logging.getLogger(__name__)
NO_DURATION = -1


async def list_transactions(
    cluster: Cluster,
    deadline: Deadline,
    broker_ids: Collection[int] | None,
    producer_ids: Iterable[int],
    states: Iterable[str],
    longer_than_ms: int | None,
    pattern: str | None,
) -> dict[int, list[TransactionListing]]:
    """Return the transactions that brokers (None: all) coordinate, by broker; one that is loading them is asked again.

    If all are asked, brokers that cannot be reached are left out, since others take over their transactions, unless
    none can be reached. Raises KafkaError, BrokerUnreachable, ClientTimeout.
    """
    await cluster.refresh()
    asked = sorted(cluster.view.nodes) if broker_ids is None else list(broker_ids)
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=NO_DURATION if longer_than_ms is None else longer_than_ms,
    )
    answers = await asyncio.gather(
        *(ask_broker(cluster, one, request, ListTransactionsResponse, deadline) for one in asked),
        return_exceptions=True,
    )
    one_will_do = broker_ids is None and any(not isinstance(answer, BrokerUnreachable) for answer in answers)
    found: dict[int, list[TransactionListing]] = {}
    for broker_id, answer in zip(asked, answers, strict=True):
        if isinstance(answer, BrokerUnreachable) and one_will_do:
            logger.warning("transactions are listed without those of %s", answer)
            continue
        if isinstance(answer, BaseException):
            raise answer
        if answer.error_code:
            raise KafkaError(error_code(answer.error_code), f"broker {broker_id}: transactions cannot be listed")
        found[broker_id] = [
            TransactionListing(one.transactional_id, one.producer_id, one.transaction_state)
            for one in answer.transaction_states
            if pattern is None or re.fullmatch(pattern, one.transactional_id)
        ]
    return found


async def describe_transaction(cluster: Cluster, transactional_id: str, deadline: Deadline) -> TransactionDescription:
    """Return the state of a transactional id. Raises KafkaError (TRANSACTIONAL_ID_NOT_FOUND, …)."""

    def errors(answer: descriptions.DescribeTransactionsResponse) -> list[ErrorCode]:
        return [error_code(one.error_code) for one in answer.transaction_states]

    answer = await ask_coordinator(
        cluster,
        transactional_id,
        descriptions.DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        descriptions.DescribeTransactionsResponse,
        errors,
        deadline,
        key_type=TRANSACTION_COORDINATOR,
    )
    one = the_one(answer.transaction_states, f"transactional.id {transactional_id}")
    if one.error_code:
        raise KafkaError(error_code(one.error_code), f"transactional.id {transactional_id}")
    return TransactionDescription(
        await cluster.find_coordinator(transactional_id, TRANSACTION_COORDINATOR),
        one.transaction_state,
        one.producer_id,
        one.producer_epoch,
        one.transaction_timeout_ms,
        one.transaction_start_time_ms,
        frozenset(TopicPartition(topic.topic, number) for topic in one.topics for number in topic.partitions),
    )


async def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition], broker_id: int | None, deadline: Deadline
) -> dict[TopicPartition, list[ProducerState]]:
    """Return the producers that a replica (None: the leader) of each partition knows. Raises KafkaError."""

    def request(asked: Sequence[TopicPartition]) -> producers.DescribeProducersRequest:
        topics = [producers.TopicRequest(name=topic, partition_indexes=all_) for topic, all_ in by_topic(asked).items()]
        return producers.DescribeProducersRequest(topics=topics)

    answered = await ask_leaders(
        cluster,
        partitions,
        request,
        producers.DescribeProducersResponse,
        lambda answer: {
            TopicPartition(topic.name, one.partition_index): (one.error_code, one)
            for topic in answer.topics
            for one in topic.partitions
        },
        deadline,
        broker_id=broker_id,
    )
    return {tp: [_producer(state) for state in one.active_producers] for tp, one in answered.items()}


def _producer(one: producers.ProducerState) -> ProducerState:
    return ProducerState(
        one.producer_id,
        one.producer_epoch,
        one.last_sequence,
        one.last_timestamp,
        one.coordinator_epoch,
        one.current_txn_start_offset,
    )


async def abort_transaction(cluster: Cluster, spec: AbortTransactionSpec, deadline: Deadline) -> None:
    """Write an abort marker into a partition whose transaction hangs. Raises KafkaError."""

    def request(asked: Sequence[TopicPartition]) -> WriteTxnMarkersRequest:
        topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=all_) for topic, all_ in by_topic(asked).items()]
        marker = WritableTxnMarker(
            producer_id=spec.producer_id,
            producer_epoch=spec.producer_epoch,
            transaction_result=False,
            topics=topics,
            coordinator_epoch=spec.coordinator_epoch,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    await ask_leaders(
        cluster,
        [spec.topic_partition],
        request,
        WriteTxnMarkersResponse,
        lambda answer: {
            TopicPartition(topic.name, one.partition_index): (one.error_code, None)
            for marker in answer.markers
            for topic in marker.topics
            for one in topic.partitions
        },
        deadline,
    )
