"""APIs that a ZooKeeper-mode broker advertises and refuses: answers as Apache Kafka 3.9.1 gives them."""

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.network.outcomes import RequestContext, Silent
from odradek.broker.requests import consumer_group_describe, consumer_group_heartbeat, envelope, update_features
from odradek.broker.requests.registry import SERVED
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.envelope import EnvelopeRequest
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UNSUPPORTED_VERSION, INVALID_REQUEST, NOT_CONTROLLER = 35, 42, 41


def answer(module: Any, request: Any, version: int = 0, *, controller: bool = True) -> Any:
    broker: Any = SimpleNamespace(controller=SimpleNamespace(is_active=controller))
    return module.handle(broker, request, RequestContext(version, "", "host:1", "PLAINTEXT"))


def test_all_apis_of_a_zookeeper_broker_are_advertised() -> None:
    """The keys that Kafka 3.9.1's ApiVersions lists."""
    assert list(SERVED) == [*range(52), 56, 57, 58, 60, 61, 65, 66, 67, 68, 69]


@pytest.mark.parametrize(
    ("update", "version", "said"),
    [
        ({"feature": "x", "max_version_level": 1}, 1, "the provided feature is not supported"),
        ({"feature": "", "max_version_level": 1}, 1, "Feature name can not be empty."),
        ({"feature": "x", "max_version_level": 1, "upgrade_type": 0}, 1, "Received unknown upgrade type."),
        ({"feature": "x", "upgrade_type": 2}, 1, "Can not delete non-existing finalized feature."),
        ({"feature": "x", "allow_downgrade": True}, 0, "Can not delete non-existing finalized feature."),
        ({"feature": "x", "upgrade_type": 2}, 0, "Can not provide versionLevel: 0 less than 1"),
        ({"feature": "x"}, 1, "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType"),
    ],
)
def test_no_feature_can_be_finalized_or_deleted(update: dict[str, Any], version: int, said: str) -> None:
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(**update)])
    response = answer(update_features, request, version).response
    [result] = response.results
    assert (response.error_code, result.feature, result.error_code) == (0, update["feature"], INVALID_REQUEST)
    assert said in result.error_message
    elsewhere = answer(update_features, request, version, controller=False).response
    assert (elsewhere.error_code, elsewhere.results) == (NOT_CONTROLLER, [])


def test_an_envelope_ends_the_connection() -> None:
    assert answer(envelope, EnvelopeRequest()) == Silent(close=True)


def test_groups_of_the_next_protocol_are_not_known() -> None:
    heartbeat = answer(consumer_group_heartbeat, ConsumerGroupHeartbeatRequest(group_id="g")).response
    assert heartbeat.error_code == UNSUPPORTED_VERSION
    described = answer(consumer_group_describe, ConsumerGroupDescribeRequest(group_ids=["g", "h"])).response
    assert [(one.group_id, one.error_code) for one in described.groups] == [("g", 35), ("h", 35)]
