"""DescribeTransactions (key 65), version 0: what a coordinator knows of transactional ids (KIP-664)."""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.broker.transactions.transaction_records import by_topic
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

REQUEST = DescribeTransactionsRequest
VERSIONS = (0, 0)


def handle(broker: Services, request: DescribeTransactionsRequest, context: RequestContext) -> Outcome:
    states = [_describe(broker, transactional_id) for transactional_id in request.transactional_ids]
    return Reply(DescribeTransactionsResponse(transaction_states=states))


def _describe(broker: Services, transactional_id: str) -> TransactionState:
    state = broker.transactions.describe(transactional_id)
    if isinstance(state, ErrorCode):
        return TransactionState(error_code=state, transactional_id=transactional_id)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=state.status.camel_case,
        transaction_timeout_ms=state.timeout_ms,
        transaction_start_time_ms=state.started_ms,
        producer_id=state.producer.id,
        producer_epoch=state.producer.epoch,
        topics=[TopicData(topic=one.topic, partitions=one.partition_ids) for one in by_topic(state.partitions)],
    )
