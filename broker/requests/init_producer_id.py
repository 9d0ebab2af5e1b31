"""InitProducerId (key 22), versions 0 to 5: an id for an idempotent producer (KIP-98, KIP-360), by any broker; or the
id and the next epoch of a transactional one, by its coordinator, who aborts what the producer before it left open.

A producer that names its former id and epoch (version 3 on) wants to begin again under the next epoch; without a
transactional id it gets a new producer id instead, as in Kafka.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.requests.coordinator_answers import LaterReply, known_to
from odradek.broker.services import Services
from odradek.broker.transactions.transaction_state import NO_PRODUCER, ProducerIdentity
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

REQUEST = InitProducerIdRequest
VERSIONS = (0, 5)

FIRST_VERSION_WITH_FENCED = 4


def handle(broker: Services, request: InitProducerIdRequest, context: RequestContext) -> Outcome:
    if (request.producer_id == NO_PRODUCER.id) != (request.producer_epoch == NO_PRODUCER.epoch):
        return Reply(_response(ErrorCode.INVALID_REQUEST))
    if request.transactional_id is None:
        return _hand_out(broker)
    error = broker.transactions.check_beginning(request.transactional_id, request.transaction_timeout_ms)
    if error is not ErrorCode.NONE:
        return Reply(_response(error))
    return _begin(broker, request, request.transactional_id, context.api_version)


async def _hand_out(broker: Services) -> Reply:
    try:
        return Reply(_response(ErrorCode.NONE, ProducerIdentity(await broker.producer_ids.next(), 0)))
    except KafkaError as error:
        return Reply(_response(error.code))


async def _begin(broker: Services, request: InitProducerIdRequest, transactional_id: str, version: int) -> Reply:
    named = ProducerIdentity(request.producer_id, request.producer_epoch)
    expected = None if named == NO_PRODUCER else named
    fresh_producer_id = None
    if broker.transactions.needs_producer_id(transactional_id, expected):
        try:
            fresh_producer_id = await broker.producer_ids.next()
        except KafkaError as error:
            return Reply(_response(error.code))
    later = LaterReply[InitProducerIdResponse]()
    broker.transactions.initialize(
        transactional_id,
        request.transaction_timeout_ms,
        expected,
        fresh_producer_id,
        lambda error, producer: later.give(_response(known_to(error, version, FIRST_VERSION_WITH_FENCED), producer)),
    )
    return await later.arrived()


def _response(error: ErrorCode, producer: ProducerIdentity = NO_PRODUCER) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=producer.id, producer_epoch=producer.epoch)
