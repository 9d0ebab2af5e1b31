"""AddPartitionsToTxn (key 24), versions 0 to 5: partitions that a transaction is about to write to.

All of them are added or none: when one does not exist, or is of an internal topic, to which clients do not write
(TOPIC_AUTHORIZATION_FAILED), the others are OPERATION_NOT_ATTEMPTED. From version 4 on it is brokers who ask, about
many transactions at once, and mostly whether partitions are part of a transaction (`verify_only`, KIP-890): one that is
not is TRANSACTION_ABORTABLE, in version 4 INVALID_TXN_STATE.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.requests.coordinator_answers import known_to
from odradek.broker.services import Services
from odradek.broker.transactions.transaction_state import ProducerIdentity
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.topic_names import INTERNAL_TOPICS, PartitionKey

REQUEST = AddPartitionsToTxnRequest
VERSIONS = (0, 5)

LAST_VERSION_OF_CLIENTS = 3
FIRST_VERSION_WITH_ABORTABLE = 5
Answers = dict[PartitionKey, ErrorCode]


async def handle(broker: Services, request: AddPartitionsToTxnRequest, context: RequestContext) -> Reply:
    version = context.api_version
    if version <= LAST_VERSION_OF_CLIENTS:
        only = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        [answers] = await _all(broker, [only], version, context.connection)
        results = _results(only.topics, answers, version)
        return Reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))
    answered = await _all(broker, request.transactions, version)
    return Reply(
        AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id, topic_results=_results(one.topics, answers, version)
                )
                for one, answers in zip(request.transactions, answered, strict=True)
            ]
        )
    )


async def _all(
    broker: Services, transactions: list[AddPartitionsToTxnTransaction], version: int, connection: int | None = None
) -> list[Answers]:
    """Return the answers for each transaction; all are asked for before any is waited for."""
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[Answers]] = []
    for one in transactions:
        answer: asyncio.Future[Answers] = loop.create_future()
        waiting.append(answer)
        _ask(broker, one, version, connection, partial(_give, answer))
    return [await answer for answer in waiting]


def _give(answer: asyncio.Future[Answers], answers: Answers) -> None:
    """Give an answer. Harmless when nobody waits for it any more, for the broker has stopped."""
    if not answer.done():
        answer.set_result(answers)


def _ask(
    broker: Services,
    asked: AddPartitionsToTxnTransaction,
    version: int,
    connection: int | None,
    answer: Callable[[Answers], object],
) -> None:
    producer = ProducerIdentity(asked.producer_id, asked.producer_epoch)
    partitions = [(topic.name, index) for topic in asked.topics for index in topic.partitions]
    if asked.verify_only:
        old = version < FIRST_VERSION_WITH_ABORTABLE
        not_in_it = ErrorCode.INVALID_TXN_STATE if old else ErrorCode.TRANSACTION_ABORTABLE
        verify = broker.transactions.verify
        verdicts = {at: verify(asked.transactional_id, producer, at, not_in_it) for at in partitions}
        for at, error in verdicts.items():
            if error is ErrorCode.NONE and broker.metadata.partition(*at) is None:
                verdicts[at] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer(verdicts)
        return
    by_client = version <= LAST_VERSION_OF_CLIENTS
    refused = {}
    for at in partitions:
        if by_client and at[0] in INTERNAL_TOPICS:
            refused[at] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif broker.metadata.partition(*at) is None:
            refused[at] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if refused:
        answer(dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused)
        return
    broker.transactions.add_partitions(
        asked.transactional_id,
        producer,
        partitions,
        lambda error: answer(dict.fromkeys(partitions, error)),
        connection=connection,
    )


def _results(
    topics: list[AddPartitionsToTxnTopic], answers: Answers, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=known_to(answers[topic.name, index], version)
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
