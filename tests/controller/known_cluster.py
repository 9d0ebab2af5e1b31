"""A cluster as a controller knows it."""

from odradek.controller.cluster_state import (
    Assignment,
    Broker,
    ClusterState,
)
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def known_state() -> ClusterState:
    """Return the state of a controller with three brokers and a topic of two partitions."""
    state = ClusterState(1, 5)
    for broker in (1, 2, 3):
        endpoint = Endpoint("INTERNAL", f"host{broker}", 9092, "SASL_SSL")
        state.brokers[broker] = Broker(100 + broker, BrokerRegistration(broker, (endpoint,), "rack"))
    state.add_topic("t", b"i" * 16)
    state.assign(T0, Assignment((1, 2)))
    state.assign(T1, Assignment((2, 3)))
    return state
