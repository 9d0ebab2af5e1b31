"""StopReplica (key 5), versions 0 to 4: the controller has this broker give up replicas, and delete their logs."""

from odradek.broker.replication.control import stopped_replicas
from odradek.broker.requests.outcome import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse

REQUEST = StopReplicaRequest
VERSIONS = (0, 4)


def handle(broker: Services, request: StopReplicaRequest, context: RequestContext) -> Outcome:
    error = broker.control.check(request.controller_epoch, request.broker_epoch)
    if error is not ErrorCode.NONE:
        return Reply(StopReplicaResponse(error_code=error))
    answers = [
        StopReplicaPartitionError(
            topic_name=stopped.topic, partition_index=stopped.partition_index, error_code=broker.control.stop(stopped)
        )
        for stopped in stopped_replicas(request)
    ]
    return Reply(StopReplicaResponse(partition_errors=answers))
