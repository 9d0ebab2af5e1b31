"""DescribeLogDirs (key 35), versions 0 to 4: the log directories of this broker and the size of each log (KIP-113).

An offline directory is answered with KAFKA_STORAGE_ERROR. Null topics mean all. Version 4 adds the size of the volume.
Not done: replicas that are being moved to another directory (there is no AlterReplicaLogDirs yet).
"""

from odradek.broker.log.log_directory import LogDirectory
from odradek.broker.requests.outcome import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

REQUEST = DescribeLogDirsRequest
VERSIONS = (0, 4)


def handle(broker: Services, request: DescribeLogDirsRequest, context: RequestContext) -> Outcome:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    results = [_directory(broker, directory, wanted) for directory in broker.logs.directories.values()]
    return Reply(DescribeLogDirsResponse(results=results))


def _directory(broker: Services, directory: LogDirectory, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=directory.path)
    if directory.offline is not None:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    result.total_bytes, result.usable_bytes = directory.volume_bytes()
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in broker.logs.all_logs():
        key = (log.topic, log.partition)
        if log.log_directory != directory.path or (wanted is not None and key not in wanted):
            continue
        topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic))
        partition = broker.replicas.partitions.get(key)
        lag = 0 if partition is None else max(partition.high_watermark - log.log_end_offset, 0)
        topic.partitions.append(
            DescribeLogDirsPartition(partition_index=log.partition, partition_size=log.size_bytes, offset_lag=lag)
        )
    result.topics = list(topics.values())
    return result
