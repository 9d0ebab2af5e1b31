"""Cluster of the demo: `odradek up` in a process of its own, a topic, and the topic's metadata."""

import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from odradek.client.admin.client import KafkaAdminClient
from odradek.client.admin.values import NewTopic
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.testing.up import UpCluster

TOPIC, PARTITIONS, REPLICAS, MIN_INSYNC_REPLICAS = "flights", 6, 3, 2
ADMIN_TIMEOUT_MS = 5_000


class PartitionState(NamedTuple):
    """A partition in the metadata. Leader -1 means that there is none."""

    leader: int
    in_sync: tuple[int, ...]


class ClusterState(NamedTuple):
    """The cluster at one moment."""

    controller: int = -1
    partitions: dict[int, PartitionState] = {}

    def led_by(self, broker: int) -> list[int]:
        """Return the partitions that a broker leads."""
        return [partition for partition, state in self.partitions.items() if state.leader == broker]

    @property
    def whole(self) -> bool:
        """True if every partition has a leader and all its replicas in sync."""
        states = self.partitions.values()
        return len(states) == PARTITIONS and all(s.leader >= 0 and len(s.in_sync) == REPLICAS for s in states)


def now_ms() -> float:
    """Return the time by the clock that is also in the brokers' logs, in ms since 1970."""
    return time.time_ns() / 1e6


class DemoCluster:
    """Three brokers and a ZooKeeper in `directory`, on free ports. Entering the context waits until they are ready."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.dead: set[int] = set()
        self._up = UpCluster(directory, REPLICAS)
        self._state = ClusterState()
        self._admin: KafkaAdminClient

    def __enter__(self) -> "DemoCluster":
        self._up.__enter__()
        self._admin = KafkaAdminClient(bootstrap_servers=self.bootstrap, default_api_timeout_ms=ADMIN_TIMEOUT_MS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._admin.close()
        self._up.__exit__(kind, error, traceback)

    @property
    def bootstrap(self) -> str:
        return self._up.bootstrap

    @property
    def zookeeper(self) -> str:
        return self._up.zookeeper

    @property
    def brokers(self) -> range:
        return range(REPLICAS)

    def create_topic(self) -> None:
        """Create the demo's topic. Raises KafkaError, ClientError."""
        settings: dict[str, str | None] = {"min.insync.replicas": str(MIN_INSYNC_REPLICAS)}
        self._admin.create_topics([NewTopic(TOPIC, PARTITIONS, REPLICAS, configs=settings)])

    def look(self) -> ClusterState:
        """Return the present state from any living broker, or the last known one when none answers in time."""
        try:
            controller = self._admin.describe_cluster().controller_id
            found = self._admin.describe_topics([TOPIC])[0].partitions
        except (KafkaError, ClientError):
            return self._state
        states = {one.partition: PartitionState(one.leader, tuple(sorted(one.isr))) for one in found}
        self._state = ClusterState(controller, dict(sorted(states.items())))
        return self._state

    def kill(self, broker: int) -> float:
        """Kill a broker with SIGKILL; return when, in ms since 1970."""
        self.dead.add(broker)
        at_ms = now_ms()
        self._up.kill(broker)
        return at_ms

    def start(self, broker: int) -> float:
        """Begin to start a broker again from its own directory; return when, in ms since 1970."""
        at_ms = now_ms()
        self._up.start(broker)
        self.dead.discard(broker)
        return at_ms

    def log_text(self, broker: int) -> str:
        """Return everything that a broker has logged so far."""
        return self._up.log_file(broker).read_text(errors="replace")

    def partition_directory(self, broker: int, partition: int) -> Path:
        """Return the directory in which a broker keeps its replica of a partition."""
        return self.directory / "data" / f"broker-{broker}" / f"{TOPIC}-{partition}"
