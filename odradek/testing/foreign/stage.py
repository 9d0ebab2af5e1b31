"""A broker id with its properties and its directory, played by Kafka or by Odradek, in turns."""

import time
from collections.abc import Mapping
from pathlib import Path

from kazoo.client import KazooClient

from odradek.local.ports import free_ports
from odradek.testing.broker_process import BrokerProcess, OdradekBroker
from odradek.testing.foreign.kafka_jars import KafkaBroker, KafkaJars
from odradek.testing.patience import PATIENCE_SECONDS

SESSION_TIMEOUT_MS = 10_000
"""Kafka ends when its session expires while it starts, which two seconds let happen on a busy machine; with six it
complained there of one that expired later."""
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "zookeeper.connection.timeout.ms": "30000",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": "4000",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.initial.task.delay.ms": "200",
    "log.retention.check.interval.ms": "300",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.dedupe.buffer.size": "4000000",
    "controlled.shutdown.retry.backoff.ms": "200",
    "controlled.shutdown.max.retries": "1",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
}
"""Settings of both programs: small, and quick to notice things."""


class Stage:
    """Stage for a cluster of either program, which gets the very same settings file."""

    def __init__(
        self,
        jars: KafkaJars,
        zookeeper: str,
        directory: Path,
        broker_id: int,
        settings: Mapping[str, str],
        log_directories: int = 1,
    ) -> None:
        self.broker_id = broker_id
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.all_logs = [directory / f"data-{number}" for number in range(log_directories)]
        self.logs = self.all_logs[0]
        self.zookeeper = zookeeper
        self._directory = directory
        for path in self.all_logs:
            path.mkdir(parents=True)
        own = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": ",".join(map(str, self.all_logs)),
            "zookeeper.connect": zookeeper,
        }
        self._settings = {**own, **SETTINGS, **settings}
        self.jars = jars
        self.lives: list[BrokerProcess] = []
        """All there were, in order."""

    def kafka(self, **settings: str) -> BrokerProcess:
        """Start Kafka on this stage. `settings`, with _ for a dot, hold for this life only."""
        return self._start(KafkaBroker(self.jars, *self._life("kafka", settings)))

    def odradek(self, **settings: str) -> BrokerProcess:
        return self._start(OdradekBroker(*self._life("odradek", settings)))

    def _life(self, name: str, settings: Mapping[str, str]) -> tuple[Path, str, Path]:
        """Return the properties file, which it writes, the address and the log of the next life."""
        number = len(self.lives)
        file = self._directory / f"{number}-{name}.properties"
        given = {**self._settings, **{key.replace("_", "."): value for key, value in settings.items()}}
        file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        return file, self.address, self._directory / f"{number}-{name}.log"

    def _start(self, broker: BrokerProcess) -> BrokerProcess:
        self._wait_gone()
        self.lives.append(broker)
        broker.start()
        return broker

    def _wait_gone(self) -> None:
        """Wait until the session of a life that was killed has expired."""
        host, _, chroot = self.zookeeper.partition("/")
        client = KazooClient(host)
        client.start(PATIENCE_SECONDS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while client.exists(f"/{chroot}/brokers/ids/{self.broker_id}"):
            assert time.monotonic() < deadline, "a session that does not expire"
            time.sleep(0.05)
        client.stop()
        client.close()

    def directories(self, prefix: str = "") -> list[Path]:
        """List the directories of the partitions of topics whose names begin with `prefix`."""
        found = (path for logs in self.all_logs for path in logs.iterdir())
        return sorted(path for path in found if path.is_dir() and path.name.startswith(prefix))

    def directory(self, topic: str, partition: int = 0) -> Path:
        """Return the directory of one partition, wherever it is; in the first log directory if it is nowhere."""
        places = [logs / f"{topic}-{partition}" for logs in self.all_logs]
        return next((path for path in places if path.exists()), places[0])

    def close(self) -> None:
        for life in self.lives:
            life.close()
