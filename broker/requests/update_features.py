"""UpdateFeatures (key 57), versions 0 and 1: changes features that are finalized for the cluster (KIP-584).

The controller answers. Brokers in ZooKeeper mode support no feature, so there is none to finalize or to delete, and
each update is refused with INVALID_REQUEST, in the order of Kafka's checks (KafkaController.validateFeatureUpdate).
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

REQUEST = UpdateFeaturesRequest
VERSIONS = (0, 1)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def handle(broker: Services, request: UpdateFeaturesRequest, context: RequestContext) -> Outcome:
    if not broker.controller.is_active:
        said = "This is not the correct controller for this cluster."
        return Reply(UpdateFeaturesResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=said))
    results = [
        UpdatableFeatureResult(
            feature=one.feature, error_code=ErrorCode.INVALID_REQUEST, error_message=_fault(one, context.api_version)
        )
        for one in request.feature_updates
    ]
    return Reply(UpdateFeaturesResponse(error_message=None, results=results))


def _fault(update: FeatureUpdateKey, version: int) -> str:
    kind, level = update.upgrade_type, update.max_version_level
    if version == 0:
        kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    if not update.feature:
        return "Feature name can not be empty."
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "Received unknown upgrade type."
    if level < 1 and kind != UPGRADE:
        return "Can not delete non-existing finalized feature."
    if level < 1:
        return (
            f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in the request."
        )
    return "Could not apply finalized feature update because the provided feature is not supported."
