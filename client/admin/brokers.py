"""API versions, features and log directories of brokers (KIP-113). Coroutines for the client's loop."""

from collections.abc import Mapping

from odradek.client.admin.topics import raise_first
from odradek.client.admin.values import FeatureMetadata, LogDirectory, LogDirectoryReplica
from odradek.client.calls import Deadline, ask_controller
from odradek.client.cluster import Cluster
from odradek.client.connection import SOFTWARE_NAME, SOFTWARE_VERSION
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

QUESTION = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)


async def api_versions(cluster: Cluster, broker_id: int | None) -> dict[int, tuple[int, int]]:
    """Return the lowest and highest version of each API key that a broker (None: any) serves. Raises KafkaError."""
    answer = await _ask(cluster, broker_id)
    return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}


async def _ask(cluster: Cluster, broker_id: int | None) -> ApiVersionsResponse:
    if broker_id is None:
        answer = await cluster.request_any(QUESTION, ApiVersionsResponse)
    else:
        if broker_id not in cluster.view.nodes:
            await cluster.refresh()
        answer = await cluster.request(broker_id, QUESTION, ApiVersionsResponse)
    raise_first([("the broker's versions", answer.error_code, None)])
    return answer


async def describe_features(cluster: Cluster, *, of_controller: bool = False) -> FeatureMetadata:
    """Return the features that brokers support, and those that are finalized. Raises KafkaError."""
    if of_controller:
        await cluster.refresh()
    answer = await _ask(cluster, cluster.view.controller_id if of_controller else None)
    epoch = answer.finalized_features_epoch
    return FeatureMetadata(
        {one.name: (one.min_version, one.max_version) for one in answer.supported_features},
        {one.name: (one.min_version_level, one.max_version_level) for one in answer.finalized_features},
        epoch if epoch >= 0 else None,
    )


async def update_features(
    cluster: Cluster, levels: Mapping[str, int], deadline: Deadline, *, validate_only: bool
) -> None:
    """Finalize features at these levels (0 deletes one). Raises UnsupportedByBroker, KafkaError."""
    updates = [FeatureUpdateKey(feature=name, max_version_level=level) for name, level in levels.items()]
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)

    def errors(answer: UpdateFeaturesResponse) -> list[ErrorCode]:
        return [error_code(answer.error_code)]

    answer = await ask_controller(cluster, request, UpdateFeaturesResponse, errors, deadline)
    raise_first([("features", answer.error_code, answer.error_message)])
    raise_first((one.feature, one.error_code, one.error_message) for one in answer.results)


async def describe_log_dirs(cluster: Cluster, broker: int) -> list[LogDirectory]:
    """Return a broker's log directories with the replicas in them, sorted by path. Raises KafkaError."""
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


async def alter_replica_log_dirs(cluster: Cluster, broker: int, targets: Mapping[TopicPartition, str]) -> None:
    """Start to move a broker's replicas to these of its log directories. Raises KafkaError."""
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
    later = f"broker {broker} has no such replica now; if it gets one, that will be in this directory"
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
