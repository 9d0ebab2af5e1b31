"""AllocateProducerIds (key 67), version 0: the controller hands a broker a block of producer ids (KIP-730)."""

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

REQUEST = AllocateProducerIdsRequest
VERSIONS = (0, 0)


async def handle(broker: Services, request: AllocateProducerIdsRequest, context: RequestContext) -> Reply:
    try:
        block = await broker.controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    except KafkaError as error:
        return Reply(AllocateProducerIdsResponse(error_code=error.code))
    return Reply(
        AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.last - block.first + 1)
    )
