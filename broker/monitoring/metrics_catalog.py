"""Catalog of a broker's metrics, in the order in which they are told; `docs/metrics.md` is made of it.

The metrics themselves are in broker_metrics, log_metrics, quota_metrics, cluster_metrics and coordinator_metrics; those
of partitions, which have the names of kafka_exporter and are told by the leaders, are here.
"""

from collections.abc import Callable
from typing import Final

from odradek.broker.monitoring.broker_metrics import REPLICATION, REQUESTS
from odradek.broker.monitoring.cluster_metrics import CONTROLLER, LAG, PROCESS, SESSION
from odradek.broker.monitoring.coordinator_metrics import COORDINATORS
from odradek.broker.monitoring.log_metrics import CONNECTIONS, LOGS
from odradek.broker.monitoring.metric import Metric, Samples, own
from odradek.broker.monitoring.observed import Observed
from odradek.broker.monitoring.quota_metrics import COPYING, QUOTAS
from odradek.broker.replication.partition import Partition

VALUES: Final[dict[str, tuple[str, Callable[[Partition], int]]]] = {
    "current_offset": ("High watermark.", lambda p: p.high_watermark),
    "oldest_offset": ("Offset of the first record still in the log.", lambda p: p.log.log_start_offset),
    "in_sync_replica": ("Number of in-sync replicas.", lambda p: len(p.committed_isr)),
    "replicas": ("Number of replicas.", lambda p: len(p.replicas)),
    "leader": ("Broker id of the leader.", lambda p: p.local_id),
    "leader_is_preferred": ("1 if the preferred replica leads.", lambda p: int(p.replicas[:1] == (p.local_id,))),
    "under_replicated_partition": (
        "1 if any replica is out of sync, even one that a reassignment is adding.",
        lambda p: int(len(p.committed_isr) < len(p.replicas)),
    ),
}


def _metric(name: str) -> Metric:
    text, value = VALUES[name]

    def read(broker: Observed) -> Samples:
        for partition in broker.led():
            yield (partition.topic, str(partition.index)), value(partition)

    source = "Partition of the leader; named as kafka_exporter names it"
    return own(f"kafka_topic_partition_{name}", text, read, "topic", "partition", source=source)


def _counts(broker: Observed) -> Samples:
    state = broker.services.controller.state
    for topic, assigned in [] if state is None else list(state.assignments.items()):
        yield (topic,), len(assigned)


def _brokers(broker: Observed) -> Samples:
    state = broker.services.controller.state
    listener = broker.services.config.inter_broker_listener_name
    for broker_id, one in [] if state is None else list(state.brokers.items()):
        at = one.registration.endpoint(listener)
        if at is not None:
            yield (str(broker_id), f"{at.host}:{at.port}"), 1


PARTITIONS: Final = (
    *map(_metric, VALUES),
    own(
        "kafka_topic_partitions",
        "Number of partitions of a topic, reported by the controller.",
        _counts,
        "topic",
        source="ClusterState",
    ),
    own(
        "kafka_broker_info",
        "1 for each registered broker, reported by the controller.",
        _brokers,
        "id",
        "address",
        source="ClusterState",
    ),
)

THEMES: Final[dict[str, tuple[Metric, ...]]] = {
    "Topics, partitions, logs, replication": (*REPLICATION, *LOGS),
    "Partitions, as kafka_exporter tells them": PARTITIONS,
    "Requests and connections": (*REQUESTS, *CONNECTIONS),
    "Quotas": (*QUOTAS, *COPYING),
    "Controller": CONTROLLER,
    "ZooKeeper": SESSION,
    "Groups and transactions": COORDINATORS,
    "Consumer lag": LAG,
    "Process": PROCESS,
}
CATALOG: Final[tuple[Metric, ...]] = tuple(metric for theme in THEMES.values() for metric in theme)
