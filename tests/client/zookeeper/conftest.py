"""Programs that read as members of a group, each a process, and what tests of them share."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from odradek import KafkaAdminClient, KafkaProducer, NewTopic
from odradek.testing.foreign.downloads import COPY_JARS, JVM_FLAGS, DownloadFailed, compiled, fetch
from odradek.testing.needs import CANNOT_BE_HAD, need
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.testing.up import UpCluster

HERE = Path(__file__).parent
JARS = HERE.parents[2] / ".cache" / "kafka-1.1"


class Program:
    """A process that says `ready` and then `partition offset value` for each message, until SIGTERM."""

    def __init__(self, command: Sequence[str], errors: Path) -> None:
        self.errors = errors
        with errors.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output, text=True)
        self.ready, self.name = False, ""
        self.read: list[tuple[int, int, int]] = []
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready"):
                self.ready, self.name = True, line.split()[-1]
            else:
                partition, offset, value = line.split()
                self.read.append((int(partition), int(offset), int(value)))

    def end(self) -> None:
        """SIGTERM, and it must go well (a Java program ends with 143 then)."""
        self.process.terminate()
        assert self.process.wait(PATIENCE_SECONDS) in (0, 143), self.errors.read_text()
        self._thread.join()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()


class ReadingGroup:
    """The members of one group that read one topic, and what is sent to it."""

    def __init__(self, cluster: UpCluster, producer: KafkaProducer, topic: str, partitions: int, logs: Path) -> None:
        self.topic = topic
        self.partitions = partitions
        self.programs: list[Program] = []
        self.sent = 0
        self._cluster = cluster
        self._producer = producer
        self._logs = logs

    def start(self, strategy: str = "range", *, java: bool = False) -> Program:
        """A member with two streams: ours, or Kafka's own. Not waited for."""
        classes = f"{old_consumer()}:{JARS}/jars/*" if java else ""
        program = ["java", *JVM_FLAGS, "-cp", classes, "OldConsumer"]
        command = program if java else [sys.executable, str(HERE / "reading_process.py")]
        command = [*command, self._cluster.zookeeper, f"g-{self.topic}", self.topic, "2", strategy]
        self.programs.append(Program(command, self._logs / f"program-{len(self.programs)}.log"))
        return self.programs[-1]

    def send(self, count: int) -> None:
        """Numbers, to one partition after the other; returns when all are acknowledged."""
        for value in range(self.sent, self.sent + count):
            self._producer.send(self.topic, value=str(value).encode(), partition=value % self.partitions)
        self._producer.flush()
        self.sent += count

    @property
    def values(self) -> Counter[int]:
        """How often each number was read."""
        return Counter(value for program in self.programs for _, _, value in program.read)

    def wait_all_read(self, what: str) -> None:
        wait_until(lambda: len(self.values) == self.sent, what)

    def send_and_wait(self, count: int, what: str) -> None:
        self.send(count)
        self.wait_all_read(what)

    @property
    def repeated(self) -> int:
        """Messages read once more."""
        return sum(self.values.values()) - len(self.values)

    def check_order(self) -> None:
        """No member has gone back in a partition."""
        for program in self.programs:
            last: dict[int, int] = {}
            for partition, offset, _ in program.read:
                assert last.get(partition, -1) < offset, f"partition {partition}: {offset} after {last[partition]}"
                last[partition] = offset

    def kill_all(self) -> None:
        for program in self.programs:
            program.kill()


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpCluster]:
    with UpCluster(tmp_path_factory.mktemp("connectors") / "cluster") as up:
        yield up


@pytest.fixture(scope="package")
def producer(cluster: UpCluster) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    yield producer
    producer.close()


@pytest.fixture
def new_topic(cluster: UpCluster, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Creates a topic named after the test."""

    def make(suffix: str = "", partitions: int = 1) -> str:
        plain = request.node.name.removeprefix("test_").translate(str.maketrans("[]", "__"))
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        wait_until(lambda: len(admin.describe_cluster().nodes) == 3, "all brokers, also one that was killed before")
        admin.create_topics([NewTopic(plain + suffix, partitions, 3)])
        admin.close()
        return plain + suffix

    return make


@pytest.fixture
def group(
    cluster: UpCluster,
    producer: KafkaProducer,
    new_topic: Callable[..., str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[ReadingGroup]:
    """A group for a topic of 9 partitions, or as many as the test's parameter says."""
    partitions: int = getattr(request, "param", 9)
    made = ReadingGroup(cluster, producer, new_topic(partitions=partitions), partitions, tmp_path)
    yield made
    made.kill_all()


@pytest.fixture(scope="session")
def kafka_1_1() -> None:
    """Kafka 1.1's jars, from Maven."""
    need("java", "mvn")
    try:
        fetch(JARS, "pom.xml", (HERE / "kafka_1_1" / "pom.xml").read_text(), COPY_JARS)
    except DownloadFailed as failed:
        pytest.skip(f"{CANNOT_BE_HAD}{failed}")


def old_consumer() -> Path:
    """The classes of Kafka 1.1's consumer's program."""
    return compiled(HERE / "kafka_1_1" / "OldConsumer.java", JARS, f"{JARS}/jars/*")
