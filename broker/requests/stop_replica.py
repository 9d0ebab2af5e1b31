"""StopReplica (key 5), versions 0 to 4: the controller has this broker give up replicas, and delete their logs.

In slices of `SLICE_MS`, as LeaderAndIsr; the epochs of the request are checked again after each pause.
"""

import asyncio

from odradek.broker.replication.controller_requests import stopped_replicas
from odradek.broker.requests.leader_and_isr import SLICE_MS
from odradek.broker.requests.outcome import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse

REQUEST = StopReplicaRequest
VERSIONS = (0, 4)


def handle(broker: Services, request: StopReplicaRequest, context: RequestContext) -> Outcome:
    return _stop(broker, request)


async def _stop(broker: Services, request: StopReplicaRequest) -> Reply:
    error = broker.control.check(request.controller_epoch, request.broker_epoch)
    answers: list[StopReplicaPartitionError] = []
    slice_end_ms = broker.clock.monotonic_ms() + SLICE_MS
    for stopped in stopped_replicas(request):
        if broker.clock.monotonic_ms() > slice_end_ms:
            await asyncio.sleep(0)
            error = broker.control.check(request.controller_epoch, request.broker_epoch)
            slice_end_ms = broker.clock.monotonic_ms() + SLICE_MS
        if error is not ErrorCode.NONE:
            return Reply(StopReplicaResponse(error_code=error))
        code = broker.control.stop(stopped)
        answers.append(
            StopReplicaPartitionError(
                topic_name=stopped.topic, partition_index=stopped.partition_index, error_code=code
            )
        )
    return Reply(StopReplicaResponse(error_code=error, partition_errors=answers))
