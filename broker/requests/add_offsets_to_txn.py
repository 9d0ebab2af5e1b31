"""AddOffsetsToTxn (key 25), versions 0 to 4: the transaction will commit offsets of that group, so it gets the group's
partition of `__consumer_offsets`.

A partition that this broker has not heard of yet, as the topic is new, is COORDINATOR_LOAD_IN_PROGRESS, after which
producers ask again: it would be taken for deleted when the transaction ends, and have no marker. (With Kafka it has
none, and nobody can read the offsets.) While the topic does not exist it is created, as by FindCoordinator.
"""

from functools import partial

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
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
    partition = (CONSUMER_OFFSETS, broker.groups.partition_for(request.group_id))

    def response(error: ErrorCode) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=known_to(error, context.api_version))

    transactional_id = request.transactional_id
    if broker.metadata.partition(*partition) is None and broker.transactions.check(transactional_id) is ErrorCode.NONE:
        return _not_known_yet(broker, response(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    add = partial(broker.transactions.add_partitions, transactional_id, producer, [partition])
    return answered_later(lambda answer: add(answer, connection=context.connection), response)


async def _not_known_yet(broker: Services, response: AddOffsetsToTxnResponse) -> Reply:
    if not broker.metadata.partition_count(CONSUMER_OFFSETS):
        await broker.auto_create_topic(CONSUMER_OFFSETS)
    return Reply(response)
