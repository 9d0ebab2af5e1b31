"""Connectors in processes and threads on a real cluster: members that die, leave and join, brokers that die."""

import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek import (
    Blacklist,
    ClientError,
    ConsumerConnector,
    ConsumerTimeout,
    KafkaAdminClient,
    KafkaProducer,
    NewTopic,
    Whitelist,
)
from odradek.client.errors import ClientTimeout
from odradek.client.zookeeper.streams import MessageStream
from odradek.local.ports import free_ports
from odradek.testing.up import UpCluster

pytestmark = [pytest.mark.zookeeper, pytest.mark.cluster]

PROGRAM = Path(__file__).parent / "reading_process.py"
DEADLINE_SECONDS = 60.0
PARTITIONS = 7


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpCluster]:
    with UpCluster(tmp_path_factory.mktemp("connectors") / "cluster") as up:
        yield up


@pytest.fixture(scope="module")
def producer(cluster: UpCluster) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    yield producer
    producer.close()


@pytest.fixture
def new_topic(cluster: UpCluster, request: pytest.FixtureRequest) -> Callable[..., str]:
    def make(suffix: str = "", partitions: int = PARTITIONS) -> str:
        name = re.sub(r"[^a-z_]", "-", request.node.name.removeprefix("test_"))[:60] + suffix
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        admin.create_topics([NewTopic(name, partitions, 2)])
        admin.close()
        return name

    return make


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Ask again and again; the deadline is for what hangs, not a measurement."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS:.0f} s: {what}"
        time.sleep(0.05)


class Program:
    """A process that reads, and the lines that it has printed."""

    def __init__(self, cluster: UpCluster, group: str, topic: str, streams: int = 2) -> None:
        command = [sys.executable, str(PROGRAM), cluster.zookeeper, group, topic, str(streams)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.ready = False
        self.read: list[tuple[int, int, int]] = []
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready"):
                self.ready = True
            else:
                partition, offset, value = line.split()
                self.read.append((int(partition), int(offset), int(value)))

    def end(self) -> None:
        """SIGTERM, and it must go well."""
        self.process.terminate()
        assert self.process.wait(DEADLINE_SECONDS) == 0, self.process.stderr and self.process.stderr.read()
        self._thread.join()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()


def send(producer: KafkaProducer, topic: str, values: range) -> None:
    for value in values:
        producer.send(topic, value=str(value).encode(), partition=value % PARTITIONS)
    producer.flush()


def values_read(programs: list[Program]) -> Counter[int]:
    return Counter(value for program in programs for _, _, value in program.read)


def check_order(program: Program) -> None:
    last: dict[int, int] = {}
    for partition, offset, _ in program.read:
        assert last.get(partition, -1) < offset, f"partition {partition}: {offset} after {last[partition]}"
        last[partition] = offset


def test_members_die_leave_and_join(cluster: UpCluster, producer: KafkaProducer, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    programs = [Program(cluster, "g-die", topic) for _ in range(3)]
    try:
        wait_until(lambda: all(one.ready for one in programs), "three members")
        send(producer, topic, range(700))
        wait_until(lambda: len(values_read(programs)) == 700, "the first messages")
        programs[0].kill()
        send(producer, topic, range(700, 1_400))
        wait_until(lambda: len(values_read(programs)) == 1_400, "the dead member's partitions are read by others")
        after_the_death = sum(values_read(programs).values())
        programs.append(Program(cluster, "g-die", topic))
        wait_until(lambda: programs[3].ready, "another member")
        send(producer, topic, range(1_400, 2_100))
        wait_until(lambda: len(values_read(programs)) == 2_100, "read by old and new members")
        assert {partition for partition, _, _ in programs[3].read}, "the new one has its part"
        programs[1].end()
        send(producer, topic, range(2_100, 2_800))
        wait_until(lambda: len(values_read(programs)) == 2_800, "what the leaver had is read by others")
        for one in programs[2:]:
            one.end()
        assert sum(values_read(programs).values()) - after_the_death == 1_400, (
            "repeated only after the death, if at all"
        )
        for one in programs:
            check_order(one)
    finally:
        for one in programs:
            one.kill()


def test_the_leader_dies(cluster: UpCluster, producer: KafkaProducer, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    program = Program(cluster, "g-leader", topic)
    try:
        wait_until(lambda: program.ready, "a member")
        send(producer, topic, range(70))
        wait_until(lambda: len(values_read([program])) == 70, "read")
        cluster.kill(2)
        send(producer, topic, range(70, 140))
        wait_until(lambda: len(values_read([program])) == 140, "read from the new leaders")
        cluster.start(2)
        program.end()
        assert [value for _, _, value in sorted(program.read)] == [
            value for partition in range(PARTITIONS) for value in range(partition, 140, PARTITIONS)
        ], "everything once and in order"
    finally:
        program.kill()


@pytest.fixture
def connect(cluster: UpCluster) -> Iterator[Callable[..., ConsumerConnector]]:
    """Connectors that are shut down whatever happens."""
    made: list[ConsumerConnector] = []

    def make(group: str, **settings: object) -> ConsumerConnector:
        defaults = {"auto_offset_reset": "smallest", "consumer_timeout_ms": 5_000, "rebalance_backoff_ms": 300}
        made.append(
            ConsumerConnector.create(zookeeper_connect=cluster.zookeeper, group_id=group, **{**defaults, **settings})
        )
        return made[-1]

    yield make
    for one in made:
        one.shutdown()


def take(stream: MessageStream, count: int) -> list[int]:
    return [int(next(stream).value) for _ in range(count)]


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_what_is_committed_is_not_read_again(
    storage: str,
    producer: KafkaProducer,
    new_topic: Callable[..., str],
    connect: Callable[..., ConsumerConnector],
) -> None:
    topic = new_topic(partitions=1)
    for value in range(30):
        producer.send(topic, value=str(value).encode(), partition=0)
    producer.flush()
    settings = {"offsets_storage": storage, "auto_commit_enable": False}
    first = connect(f"g-commit-{storage}", **settings)
    (stream,) = first.create_message_streams({topic: 1})[topic]
    assert take(stream, 10) == list(range(10))
    first.commit_offsets()
    assert take(stream, 5) == list(range(10, 15))
    first.shutdown()
    with pytest.raises(StopIteration):
        next(stream)

    second = connect(f"g-commit-{storage}", **settings)
    (stream,) = second.create_message_streams({topic: 1})[topic]
    assert take(stream, 20) == list(range(10, 30))
    second.commit_offsets({(topic, 0): 3})
    second.shutdown()

    third = connect(f"g-commit-{storage}", **{**settings, "auto_commit_enable": True})
    (stream,) = third.create_message_streams({topic: 1})[topic]
    assert take(stream, 27) == list(range(3, 30)), "rewound"
    third.shutdown()

    moved = connect(f"g-commit-{storage}", offsets_storage="zookeeper", consumer_timeout_ms=700)
    (stream,) = moved.create_message_streams({topic: 1})[topic]
    with pytest.raises(ConsumerTimeout, match=r"consumer\.timeout\.ms=700"):
        next(stream)
    producer.send(topic, value=b"30", partition=0).get(10)
    assert take(stream, 1) == [30], "a stream can be read on after its timeout"


def test_from_zookeeper_to_kafka(
    producer: KafkaProducer, new_topic: Callable[..., str], connect: Callable[..., ConsumerConnector]
) -> None:
    topic = new_topic(partitions=1)
    for value in range(10):
        producer.send(topic, value=str(value).encode(), partition=0)
    producer.flush()
    for first, settings in (
        (0, {"offsets_storage": "zookeeper"}),
        (2, {"offsets_storage": "kafka"}),
        (4, {"offsets_storage": "kafka", "dual_commit_enabled": False}),
        (6, {"offsets_storage": "kafka"}),
        (8, {"offsets_storage": "zookeeper"}),
    ):
        one = connect("g-migrate", **settings)
        (stream,) = one.create_message_streams({topic: 1})[topic]
        assert take(stream, 2) == [first, first + 1]
        one.shutdown()


def test_streams_of_a_filter_hear_of_new_topics(
    producer: KafkaProducer, new_topic: Callable[..., str], connect: Callable[..., ConsumerConnector]
) -> None:
    first = new_topic("-1", partitions=2)
    connector = connect("g-filter", consumer_timeout_ms=20_000)
    pattern = first.removesuffix("1") + "."
    (stream,) = connector.create_message_streams_by_filter(Whitelist(pattern))
    producer.send(first, value=b"1", partition=1, key=b"k", timestamp_ms=1_700_000_000_000).get(10)
    message = next(stream)
    assert (message.topic, message.partition, message.offset) == (first, 1, 0)
    assert (message.key, message.value, message.timestamp_ms) == (b"k", b"1", 1_700_000_000_000)
    second = new_topic("-2", partitions=1)
    producer.send(second, value=b"2", partition=0).get(10)
    assert next(stream).topic == second
    connector.shutdown()
    other = connect("g-filter", consumer_timeout_ms=300)
    (stream,) = other.create_message_streams_by_filter(Blacklist(pattern + "|test.*|[a-z].*"), 1)
    with pytest.raises(ConsumerTimeout):
        next(stream)


def test_shutdown_ends_a_waiting_iteration(
    new_topic: Callable[..., str], connect: Callable[..., ConsumerConnector]
) -> None:
    topic = new_topic(partitions=1)
    connector = connect("g-end", consumer_timeout_ms=-1)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    seen: list[list[object]] = []
    reader = threading.Thread(target=lambda: seen.append(list(stream)))
    reader.start()
    connector.shutdown()
    reader.join(DEADLINE_SECONDS)
    assert seen == [[]]


def test_streams_are_created_once(new_topic: Callable[..., str], connect: Callable[..., ConsumerConnector]) -> None:
    topic = new_topic(partitions=1)
    connector = connect("g-once")
    connector.create_message_streams({topic: 1})
    with pytest.raises(ClientError, match="already"):
        connector.create_message_streams({topic: 1})


def test_no_zookeeper_is_said_at_once() -> None:
    (port,) = free_ports(1)
    with pytest.raises(ClientTimeout, match=r"zookeeper\.connection\.timeout\.ms=300"):
        ConsumerConnector.create(
            zookeeper_connect=f"127.0.0.1:{port}", group_id="g", zookeeper_connection_timeout_ms=300
        )
