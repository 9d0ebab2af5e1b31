"""The result topic as somebody else's consumer sees it."""

import json
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from odradek.testing import Cluster
from odradek.testing.patience import PATIENCE_SECONDS


def all_records(cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    """Return the values of partition 0, older totals of a key too."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(PATIENCE_SECONDS)) is not None and message.error() is None:
        value = message.value()
        assert isinstance(value, bytes)
        found.append(json.loads(value))
    consumer.close()
    return found
