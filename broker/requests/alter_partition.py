"""AlterPartition (key 56), versions 0 to 3: a leader proposes a new ISR to the controller."""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

REQUEST = AlterPartitionRequest
VERSIONS = (0, 3)


def handle(broker: Services, request: AlterPartitionRequest, context: RequestContext) -> Outcome:
    return _alter(broker, request, context.api_version)


async def _alter(broker: Services, request: AlterPartitionRequest, version: int) -> Reply:
    try:
        return Reply(await broker.controller.alter_partition(request, version))
    except KafkaError as error:
        return Reply(AlterPartitionResponse(error_code=error.code))
