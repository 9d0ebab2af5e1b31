"""ListTransactions (key 66), versions 0 and 1: the transactions that this broker coordinates (KIP-664, KIP-994).

A filter by duration asks how long ago the latest transaction began, over or not, as with Kafka
(TransactionStateManager.listTransactionStates). A producer that has begun none since it was initialised has no such
time, and is left out; Kafka lists it when it has never begun any.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.broker.transactions.transaction_state import NO_TIME_MS, TxnState
from odradek.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from odradek.protocol.messages.transaction_state import TransactionStatus

REQUEST = ListTransactionsRequest
VERSIONS = (0, 1)

STATE_NAMES = frozenset(status.camel_case for status in TransactionStatus)


def handle(broker: Services, request: ListTransactionsRequest, context: RequestContext) -> Outcome:
    error, transactions = broker.transactions.list_transactions()
    if error:
        return Reply(ListTransactionsResponse(error_code=error))
    now_ms = broker.clock.now_ms()
    producer_ids, state_names = frozenset(request.producer_id_filters), frozenset(request.state_filters)

    def is_asked_for(state: TxnState) -> bool:
        if producer_ids and state.producer.id not in producer_ids:
            return False
        if state_names and state.status.camel_case not in state_names:
            return False
        if request.duration_filter < 0:
            return True
        return state.started_ms != NO_TIME_MS and now_ms - state.started_ms > request.duration_filter

    return Reply(
        ListTransactionsResponse(
            unknown_state_filters=[name for name in dict.fromkeys(request.state_filters) if name not in STATE_NAMES],
            transaction_states=[
                TransactionState(
                    transactional_id=name,
                    producer_id=state.producer.id,
                    transaction_state=state.status.camel_case,
                )
                for name, state in transactions
                if is_asked_for(state)
            ],
        )
    )
