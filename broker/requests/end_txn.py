"""EndTxn (key 26), versions 0 to 4: commit or abort. Answered when the decision is in the log of the coordinator, which
then sees to it that every partition learns of it."""

from functools import partial

from odradek.broker.network.outcomes import Outcome, RequestContext
from odradek.broker.requests.coordinator_answers import answered_later, known_to
from odradek.broker.services import Services
from odradek.broker.transactions.transaction_state import ProducerIdentity
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

REQUEST = EndTxnRequest
VERSIONS = (0, 4)


def handle(broker: Services, request: EndTxnRequest, context: RequestContext) -> Outcome:
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)

    def response(error: ErrorCode) -> EndTxnResponse:
        return EndTxnResponse(error_code=known_to(error, context.api_version))

    end = partial(broker.transactions.end, request.transactional_id, producer, connection=context.connection)
    return answered_later(lambda answer: end(commit=request.committed, answer=answer), response)
