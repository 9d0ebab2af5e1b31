"""AlterPartition (key 56), versions 0 to 3: a leader proposes a new ISR to the controller."""

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

REQUEST = AlterPartitionRequest
VERSIONS = (0, 3)


async def handle(broker: Services, request: AlterPartitionRequest, context: RequestContext) -> Reply:
    try:
        return Reply(await broker.controller.alter_partition(request, context.api_version))
    except KafkaError as error:
        return Reply(AlterPartitionResponse(error_code=error.code))
