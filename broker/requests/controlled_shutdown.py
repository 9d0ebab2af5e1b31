"""ControlledShutdown (key 7), versions 0 to 3: a broker asks the controller to move its leaders."""

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

REQUEST = ControlledShutdownRequest
VERSIONS = (0, 3)


async def handle(broker: Services, request: ControlledShutdownRequest, context: RequestContext) -> Reply:
    try:
        left = await broker.controller.controlled_shutdown(request.broker_id, request.broker_epoch)
    except KafkaError as error:
        return Reply(ControlledShutdownResponse(error_code=error.code))
    remaining = [RemainingPartition(topic_name=topic, partition_index=partition) for topic, partition in left]
    return Reply(ControlledShutdownResponse(remaining_partitions=remaining))
