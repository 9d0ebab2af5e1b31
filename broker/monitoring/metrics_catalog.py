"""Catalog of a broker's metrics, in the order in which they are told. `docs/metrics.md` is made of it."""

from typing import Final

from odradek.broker.monitoring.broker_metrics import REPLICATION, REQUESTS
from odradek.broker.monitoring.cluster_metrics import CONTROLLER, COORDINATORS, LAG, PROCESS, SESSION
from odradek.broker.monitoring.metric import Metric
from odradek.broker.monitoring.partition_metrics import PARTITIONS

THEMES: Final[dict[str, tuple[Metric, ...]]] = {
    "Topics, partitions, logs, replication": REPLICATION,
    "Partitions, as kafka_exporter tells them": PARTITIONS,
    "Requests and connections": REQUESTS,
    "Controller": CONTROLLER,
    "ZooKeeper": SESSION,
    "Groups and transactions": COORDINATORS,
    "Consumer lag": LAG,
    "Process": PROCESS,
}
CATALOG: Final[tuple[Metric, ...]] = tuple(metric for theme in THEMES.values() for metric in theme)
