"""/cluster/id, /feature and /latest_producer_id_block: one znode each for the whole cluster."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from odradek.zk_schema.znodes.json_data import Fields, dump, uuid_text

CLUSTER_ID_PATH = "/cluster/id"
FEATURE_PATH = "/feature"
PRODUCER_ID_BLOCK_PATH = "/latest_producer_id_block"


def new_cluster_id(randomness: random.Random) -> str:
    """Make a cluster id: 22 characters that no other cluster has."""
    return uuid_text(randomness.randbytes(16))


def encode_cluster_id(cluster_id: str) -> bytes:
    """Encode as {"version":"1","id":"Kvp0wWMvQTGnH6p8NlEmgA"}: the version is text."""
    return dump({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Decode the cluster's id. Raises BadZnode."""
    return Fields(CLUSTER_ID_PATH, data).text("id")


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The last block of producer ids that was handed out.

    Version 1: {"version":1,"broker":3,"block_start":"4000","block_end":"4999"}, both ends included, as text.
    """

    broker_id: int
    first: int
    last: int

    def encode(self) -> bytes:
        return dump(
            {"version": 1, "broker": self.broker_id, "block_start": str(self.first), "block_end": str(self.last)}
        )

    @classmethod
    def decode(cls, data: bytes) -> "ProducerIdBlock | None":
        """Read the last block that was handed out; None when there was none yet. Raises BadZnode."""
        if not data:
            return None
        fields = Fields(PRODUCER_ID_BLOCK_PATH, data)
        return cls(fields.integer("broker"), fields.long("block_start"), fields.long("block_end"))


class FeatureStatus(IntEnum):
    """Status of the finalized features, which count only when ENABLED; brokers of 2.7 and later enable them."""

    DISABLED = 0
    ENABLED = 1


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """The features that all brokers use (KIP-584).

    Version 1 (2.7): {"features":{"name":{"max_version_level":3,"min_version_level":1}},"version":1,"status":1}
    Version 2 (3.3): {"features":{"name":{"max_version_level":3}},"version":2,"status":1}
    """

    status: FeatureStatus = FeatureStatus.ENABLED
    features: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        features = {name: {"max_version_level": level} for name, level in self.features.items()}
        return dump({"features": features, "version": 2, "status": int(self.status)})

    @classmethod
    def decode(cls, data: bytes) -> "FinalizedFeatures":
        """Decode the features. Raises BadZnode, also for an unknown version or status, or a level below 1, as Kafka."""
        fields = Fields(FEATURE_PATH, data)
        version = fields.version(1, 2)
        status = fields.integer("status")
        if status not in set(FeatureStatus):
            raise fields.bad(f"status {status} is unknown")
        if "features" not in fields:
            raise fields.bad("no features")
        features = {name: _level(fields, version, levels) for name, levels in fields.mapping("features").items()}
        return cls(FeatureStatus(status), features)


def _level(fields: Fields, version: int, levels: object) -> int:
    if not isinstance(levels, dict):
        raise fields.bad("a feature without levels")
    highest = levels.get("max_version_level")
    lowest = levels.get("min_version_level") if version == 1 else 1
    if not isinstance(highest, int) or not isinstance(lowest, int) or not 1 <= lowest <= highest:
        raise fields.bad("a feature with wrong levels")
    return highest
