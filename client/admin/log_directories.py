"""A broker's log directories, and replicas that move between them (KIP-113). Coroutines for the client's loop."""

from collections.abc import Mapping

from odradek.client.admin.topics import raise_first
from odradek.client.admin.values import LogDirectory, LogDirectoryReplica
from odradek.client.cluster import Cluster
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


async def describe(cluster: Cluster, broker: int) -> list[LogDirectory]:
    """Each of its directories with what is in it, by path. Raises KafkaError."""
    await _know(cluster, broker)
    answer = await cluster.request(broker, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    raise_first([(f"broker {broker}", answer.error_code, None)])
    return sorted((_directory(result) for result in answer.results), key=lambda one: one.path)


def _directory(result: DescribeLogDirsResult) -> LogDirectory:
    replicas = [
        LogDirectoryReplica(
            TopicPartition(topic.name, one.partition_index), one.partition_size, one.offset_lag, one.is_future_key
        )
        for topic in result.topics
        for one in topic.partitions
    ]
    online = result.error_code == ErrorCode.NONE
    return LogDirectory(result.log_dir, online, result.total_bytes, result.usable_bytes, sorted(replicas))


async def alter(cluster: Cluster, broker: int, targets: Mapping[TopicPartition, str]) -> None:
    """Begin to move replicas of a broker to these directories of it. Raises KafkaError."""
    await _know(cluster, broker)
    partitions_by_path: dict[str, list[TopicPartition]] = {}
    for partition, path in targets.items():
        partitions_by_path.setdefault(path, []).append(partition)
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=topic, partitions=numbers)
                    for topic, numbers in by_topic(partitions).items()
                ],
            )
            for path, partitions in partitions_by_path.items()
        ]
    )
    answer = await cluster.request(broker, request, AlterReplicaLogDirsResponse)
    later = f"not on broker {broker} now; it will be made there when it comes"
    raise_first(
        (
            f"{topic.topic_name}-{one.partition_index}",
            one.error_code,
            later if one.error_code == ErrorCode.REPLICA_NOT_AVAILABLE else None,
        )
        for topic in answer.results
        for one in topic.partitions
    )


async def _know(cluster: Cluster, broker: int) -> None:
    if broker not in cluster.view.nodes:
        await cluster.refresh()
