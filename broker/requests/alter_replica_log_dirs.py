"""AlterReplicaLogDirs (key 34), versions 0 to 2: replicas move to other log directories of this broker (KIP-113).

Answered when the moves have begun; DescribeLogDirs shows how far they are. A partition that is not here yet is answered
with REPLICA_NOT_AVAILABLE (UNKNOWN_TOPIC_OR_PARTITION when the cluster does not have it), and is made in that directory
when it comes.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

REQUEST = AlterReplicaLogDirsRequest
VERSIONS = (0, 2)


def handle(broker: Services, request: AlterReplicaLogDirsRequest, context: RequestContext) -> Outcome:
    wanted = {
        (topic.name, index): one.path for one in request.dirs for topic in one.topics for index in topic.partitions
    }
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (topic, index), path in wanted.items():
        exists = broker.metadata.partition(topic, index) is not None
        error = broker.replicas.moves.alter(topic, index, path, exists=exists)
        result = results.setdefault(topic, AlterReplicaLogDirTopicResult(topic_name=topic))
        result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error))
    return Reply(AlterReplicaLogDirsResponse(results=list(results.values())))
