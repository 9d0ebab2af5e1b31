"""InitProducerId (key 22), versions 0 to 5: an id for an idempotent producer (KIP-98, KIP-360).

A producer that names its former id and epoch (version 3 on) wants to begin again under the next epoch; without a
transactional id it gets a new producer id instead, as in Kafka. Not done: transactional producers, which are refused
with COORDINATOR_NOT_AVAILABLE, since there is no transaction coordinator yet.
"""

from odradek.broker.requests.outcome import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

REQUEST = InitProducerIdRequest
VERSIONS = (0, 5)


def handle(broker: Services, request: InitProducerIdRequest, context: RequestContext) -> Outcome:
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return Reply(_refused(ErrorCode.INVALID_REQUEST))
    if request.transactional_id == "":
        return Reply(_refused(ErrorCode.INVALID_REQUEST))
    if request.transactional_id is not None:
        return Reply(_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return _hand_out(broker)


async def _hand_out(broker: Services) -> Reply:
    try:
        return Reply(InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0))
    except KafkaError as error:
        return Reply(_refused(error.code))


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
