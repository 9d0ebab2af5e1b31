"""AddOffsetsToTxn (key 25), versions 0 to 4: the transaction will commit offsets of that group, so it gets the group's
partition of `__consumer_offsets`."""

from functools import partial

from odradek.broker.network.outcomes import Outcome, RequestContext
from odradek.broker.requests.coordinator_answers import answered_later, known_to
from odradek.broker.services import Services
from odradek.broker.transactions.transaction_state import ProducerIdentity
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.topic_names import CONSUMER_OFFSETS

REQUEST = AddOffsetsToTxnRequest
VERSIONS = (0, 4)


def handle(broker: Services, request: AddOffsetsToTxnRequest, context: RequestContext) -> Outcome:
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    partitions = [(CONSUMER_OFFSETS, broker.groups.partition_for(request.group_id))]

    def response(error: ErrorCode) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=known_to(error, context.api_version))

    ask = partial(broker.transactions.add_partitions, request.transactional_id, producer, partitions)
    return answered_later(ask, response)
