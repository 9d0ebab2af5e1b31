"""API versions and features that brokers serve. Coroutines for the client's loop."""

from collections.abc import Mapping

from odradek.client.admin.topics import raise_first
from odradek.client.admin.values import FeatureMetadata
from odradek.client.calls import Deadline, ask_controller
from odradek.client.cluster import Cluster
from odradek.client.connection import SOFTWARE_NAME, SOFTWARE_VERSION
from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
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
