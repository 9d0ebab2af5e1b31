"""The properties file that `odradek up` writes for each broker: what one machine needs, and otherwise Kafka's defaults.

Every file is written anew by each `up`; what a person wants otherwise is said with `--override`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from odradek.broker.settings.properties import property_line

SESSION_TIMEOUT_MS = 3000
"""Session timeout of brokers on one machine, whose failover need not wait 18 seconds."""
HOST = "127.0.0.1"
REPLICAS, MIN_IN_SYNC = 3, 2


@dataclass(frozen=True, slots=True)
class BrokerFile:
    """A broker of a local cluster."""

    broker_id: int
    port: int
    brokers: int
    """Number of brokers in the cluster: internal topics cannot have more replicas."""
    zookeeper: str
    directory: Path
    overrides: Mapping[str, str] = field(default_factory=dict)
    security: Mapping[str, str] = field(default_factory=dict)
    """Settings in place of the open listener, where the cluster is secure. They hold a password."""
    metrics_port: int = 0
    """Port where it tells metrics and its journal; 0: nowhere."""

    @property
    def name(self) -> str:
        return f"broker-{self.broker_id}"

    @property
    def path(self) -> Path:
        return self.directory / "config" / f"{self.name}.properties"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def settings(self) -> dict[str, str]:
        """Return the broker's settings in the order of the file; an override takes the place of what it overrides."""
        replicas = min(REPLICAS, self.brokers)
        return {
            "broker.id": str(self.broker_id),
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.directory / "data" / self.name),
            "zookeeper.connect": self.zookeeper,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "zookeeper.connection.timeout.ms": "120000",
            # What is acknowledged with acks=all is on two brokers at least, and survives the death of either.
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(MIN_IN_SYNC if replicas == REPLICAS else 1),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(min(MIN_IN_SYNC, replicas)),
            # As in the server.properties that Kafka ships: nobody waits for a group's first rebalance on one machine.
            "group.initial.rebalance.delay.ms": "0",
            # The last broker of a cluster that is shut down has nobody to hand its partitions to.
            "controlled.shutdown.retry.backoff.ms": "500",
            **({"metrics.port": str(self.metrics_port), "metrics.host": HOST} if self.metrics_port else {}),
            **self.security,
            **self.overrides,
        }

    def write(self) -> None:
        """Make the file, which nobody else may read, for its settings may be passwords, and the data directory."""
        (self.directory / "data" / self.name).mkdir(parents=True, exist_ok=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = [property_line(key, value) for key, value in self.settings().items()]
        self.path.unlink(missing_ok=True)
        with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.writelines(lines)
