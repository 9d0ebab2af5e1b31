"""DescribeLogDirs (key 35), versions 0 to 4: the log directories of this broker and the size of each log (KIP-113).

An offline directory is answered with KAFKA_STORAGE_ERROR. Null topics mean all. Version 4 adds the size of the volume.
A replica that moves to another directory is in both; the lag of the future one is what is still to be copied.
"""

from collections.abc import Iterable

from odradek.broker.log.directories.log_directory import LogDirectory
from odradek.broker.log.log import Log
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
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

UNKNOWN_LAG = -1
"""Lag of a replica that no controller has told us about, or whose own directory is offline."""


def handle(broker: Services, request: DescribeLogDirsRequest, context: RequestContext) -> Outcome:
    described: dict[str, list[tuple[str, DescribeLogDirsPartition]]] = {path: [] for path in broker.logs.directories}
    for logs, future in ((broker.logs.all_logs(), False), (broker.logs.future_logs(), True)):
        for log in _wanted(logs, request):
            described[log.log_directory].append((log.topic, _describe(broker, log, future)))
    results = [_result(directory, described[path]) for path, directory in broker.logs.directories.items()]
    return Reply(DescribeLogDirsResponse(results=results))


def _wanted(logs: Iterable[Log], request: DescribeLogDirsRequest) -> Iterable[Log]:
    if request.topics is None:
        return logs
    wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return [log for log in logs if (log.topic, log.partition) in wanted]


def _describe(broker: Services, log: Log, future: bool) -> DescribeLogDirsPartition:
    partition = broker.replicas.partitions.get((log.topic, log.partition))
    lag = UNKNOWN_LAG
    if partition is not None and not partition.offline:
        lag = (
            partition.log.log_end_offset - log.log_end_offset
            if future
            else max(partition.high_watermark - log.log_end_offset, 0)
        )
    return DescribeLogDirsPartition(
        partition_index=log.partition, partition_size=log.size_bytes, offset_lag=lag, is_future_key=future
    )


def _result(directory: LogDirectory, logs: list[tuple[str, DescribeLogDirsPartition]]) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=directory.path)
    if directory.offline is not None:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    result.total_bytes, result.usable_bytes = directory.volume_bytes()
    topics: dict[str, DescribeLogDirsTopic] = {}
    for topic, described in logs:
        topics.setdefault(topic, DescribeLogDirsTopic(name=topic)).partitions.append(described)
    result.topics = list(topics.values())
    return result
