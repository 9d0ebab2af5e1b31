"""StopReplica (key 5), versions 0 to 4: the controller has this broker give up replicas, and delete their logs.

It is handled in turn with LeaderAndIsr, and in slices of time, as described there.
"""

from odradek.broker.cluster.controller_messages import stopped_replicas
from odradek.broker.network.outcomes import Reply, RequestContext, Silent
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from odradek.world.time_slices import TimeSlice

REQUEST = StopReplicaRequest
VERSIONS = (0, 4)


async def handle(broker: Services, request: StopReplicaRequest, context: RequestContext) -> Reply | Silent:
    async with broker.controller_requests.in_turn:
        return await _stop(broker, request, context.connection)


async def _stop(broker: Services, request: StopReplicaRequest, connection: int) -> Reply | Silent:
    error = broker.controller_requests.check(request.controller_epoch, request.broker_epoch)
    if error is ErrorCode.NONE and broker.controller_requests.is_late(request.controller_epoch, connection):
        return Silent(close=True)
    answers: list[StopReplicaPartitionError] = []
    turn = TimeSlice(broker.clock)
    for stopped in stopped_replicas(request):
        if await turn.pause_if_over():
            error = broker.controller_requests.check(request.controller_epoch, request.broker_epoch)
        if error is not ErrorCode.NONE:
            return Reply(StopReplicaResponse(error_code=error))
        code = broker.controller_requests.stop(stopped)
        answers.append(
            StopReplicaPartitionError(
                topic_name=stopped.topic, partition_index=stopped.partition_index, error_code=code
            )
        )
    return Reply(StopReplicaResponse(error_code=error, partition_errors=answers))
