"""Automatic creation of topics that somebody asked for: `auto.create.topics.enable`, and the internal topics."""

import random
from collections.abc import Callable

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.config import BrokerConfig
from odradek.controller.topic_admin import (
    CONSUMER_OFFSETS_SETTINGS,
    TRANSACTION_STATE_SETTINGS,
    Defaults,
    auto_create_topic,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.zk_schema.store import Store


class TopicCreation:
    """Creates topics with the broker's defaults, whoever the controller is."""

    def __init__(
        self, store: Store, metadata: MetadataCache, config: Callable[[], BrokerConfig], randomness: random.Random
    ) -> None:
        self._store, self._metadata, self._config, self._random = store, metadata, config, randomness

    async def create(self, topic: str) -> ErrorCode:
        """Create a topic; return the error for the client.

        LEADER_NOT_AVAILABLE (ask again) when it is being made, else why it is not.
        While ZooKeeper is away nothing can be made, and the client is to ask again.
        """
        if not self._store.connected:
            return ErrorCode.LEADER_NOT_AVAILABLE
        config = self._config()
        if topic == CONSUMER_OFFSETS:
            defaults = Defaults(config.offsets_topic_num_partitions, config.offsets_topic_replication_factor)
            settings = {**CONSUMER_OFFSETS_SETTINGS, "segment.bytes": str(config.offsets_topic_segment_bytes)}
        elif topic == TRANSACTION_STATE:
            defaults = Defaults(
                config.transaction_state_log_num_partitions, config.transaction_state_log_replication_factor
            )
            settings = {
                **TRANSACTION_STATE_SETTINGS,
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            }
        else:
            defaults = Defaults(config.num_partitions, config.default_replication_factor)
            settings = {}
        racks = {broker.id: broker.rack for broker in self._metadata.brokers.values()}
        return await auto_create_topic(self._store, topic, racks, defaults, self._random, settings)
