"""Options of a cluster, and the errors of its use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OWN_SETTINGS = frozenset({"broker.id", "listeners", "zookeeper.connect"})


class ClusterError(Exception):
    """Wrong use of a test's cluster. The message says what is possible instead."""


@dataclass(frozen=True)
class Options:
    """Choices of whoever makes a cluster."""

    brokers: int = 3
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of all brokers, by Kafka's names."""
    topics: Mapping[str, int] = field(default_factory=dict)
    """Partitions by topic, made at the start."""
    data: Path | None = None
    """Directory that the logs are written to; None keeps them in memory."""
    port: int = 0
    """Port of broker 0, the others have those after it; 0: free ones."""
    trace: bool = True
    """True to note who asks what: `requests`, and the requests of `timeline`."""
    log: Path | None = None
    """File that a process of its own writes what brokers log to; None: its standard error gets the warnings."""

    def __post_init__(self) -> None:
        if not isinstance(self.port, int):
            raise ClusterError(f"port={self.port!r}: a number, 0 for free ones")
        if not isinstance(self.brokers, int):
            raise ClusterError(f"brokers={self.brokers!r}: how many, a number")
        for topic, partitions in self.topics.items():
            if not isinstance(partitions, int):
                raise ClusterError(f"topics: {topic!r} has partitions={partitions!r}: how many, a number")
        for name in OWN_SETTINGS & self.settings.keys():
            raise ClusterError(f"{name} is the cluster's own to say: `brokers` and `port` tell how many and where")
        if self.brokers < 1:
            raise ClusterError(f"a cluster of {self.brokers} brokers; it has at least one")
        if self.port and not 0 < self.port <= 65_536 - self.brokers:
            raise ClusterError(f"port={self.port} with {self.brokers} brokers: ports are 1 to 65535")


def setting_texts(settings: Mapping[str, Any] | None) -> dict[str, str]:
    """Settings as they stand in a properties file. Raises ClusterError."""
    if not isinstance(settings or {}, Mapping):
        raise ClusterError(f"settings={settings!r}: values by name, as in {{'min.insync.replicas': 2}}")
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (settings or {}).items()
    }


def small_settings(brokers: int) -> dict[str, str]:
    """Settings of a small cluster: Kafka's own topics have few partitions, and as many copies as there are brokers."""
    copies, least = str(min(3, brokers)), str(min(2, brokers))
    return {
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.min.isr": least,
        "group.min.session.timeout.ms": "100",
    }


QUICK_SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "zookeeper.session.timeout.ms": "1000",
    "replica.fetch.wait.max.ms": "50",
    "replica.lag.time.max.ms": "2000",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "controlled.shutdown.retry.backoff.ms": "100",
}
"""Settings that waste no real time: what Kafka does after minutes is done after a second."""
