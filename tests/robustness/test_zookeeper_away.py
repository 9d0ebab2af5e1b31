"""ZooKeeper away, and a broker that was away: what may go on does, what may not is refused, nothing is lost (C16)."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import ElectionType

from odradek.protocol.connection import framed
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import RequestHeader, decode_response, encode_request
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.load import Load, Observer, ask_again, check_nothing_lost, read_log
from odradek.testing.log_environments import make_batch
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster
from odradek.testing.zookeeper_process import ZooKeeperProcess

pytestmark = pytest.mark.cluster

BROKERS = 3
SESSION_TIMEOUT_MS, LONG_SESSION_MS = 10_000, 90_000
"""One that tests wait for the end of, and one that outlasts the start of another ZooKeeper on any machine."""
AWAY, BACK, EXPIRED = (
    "ZooKeeper is unreachable",
    "ZooKeeper is reachable again, in the same session",
    "the ZooKeeper session has expired:",
)
REGISTERED = "is registered, epoch"
LOG_LINES_MAX = 40
"""What a broker may have to say of an outage of seconds, other than which partitions it leads."""
PRODUCE_VERSION, FETCH_VERSION = 9, 11
STRAGGLER = "straggler:0"
ANSWER_MS = 3000
"""The connection to a process that sleeps stays open: a producer notices by its own patience alone."""


@contextmanager
def running(directory: Path, session_timeout_ms: int) -> Iterator[tuple[UpCluster, ZooKeeperProcess]]:
    """Brokers need ZooKeeper to shut down, so a ZooKeeper that was started here ends last."""
    with ExitStack() as stack:
        up = UpCluster(directory, BROKERS, [f"zookeeper.session.timeout.ms={session_timeout_ms}"])
        with up:
            zookeeper = ZooKeeperProcess(up.directory, up.zookeeper_port)
            stack.callback(zookeeper.close)
            yield up, zookeeper


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[UpCluster, ZooKeeperProcess]]:
    with running(tmp_path_factory.mktemp("away") / "cluster", SESSION_TIMEOUT_MS) as both:
        yield both


@pytest.fixture
def cluster(processes: tuple[UpCluster, ZooKeeperProcess]) -> UpCluster:
    return processes[0]


@pytest.fixture
def zookeeper(processes: tuple[UpCluster, ZooKeeperProcess]) -> ZooKeeperProcess:
    return processes[1]


@pytest.fixture
def observer(cluster: UpCluster, request: pytest.FixtureRequest) -> Observer:
    """With a topic of the test's own."""
    return observer_of(cluster, request.node.name)


def observer_of(cluster: UpCluster, topic: str) -> Observer:
    one = Observer(cluster, topic)
    one.create_topic()
    wait_until(one.in_sync, "all replicas in sync")
    return one


class Logs:
    """What the brokers have written since this was made."""

    def __init__(self, cluster: UpCluster) -> None:
        self._cluster = cluster
        self._begins = [cluster.log_file(broker).stat().st_size for broker in range(BROKERS)]

    def lines(self, broker: int) -> list[str]:
        written = self._cluster.log_file(broker).read_bytes()[self._begins[broker] :]
        return [line for line in written.decode().splitlines() if " state.change.logger: " not in line]

    def count(self, broker: int, text: str) -> int:
        return sum(text in line for line in self.lines(broker))

    def all_say(self, *texts: str) -> bool:
        """One of them."""
        return all(any(self.count(broker, text) for text in texts) for broker in range(BROKERS))


def address(cluster: UpCluster, broker: int) -> str:
    return f"127.0.0.1:{cluster.port + broker}"


def leaders(cluster: UpCluster, topic: str, asked: int) -> dict[int, int]:
    """As one broker knows them."""
    with RawConnection(address(cluster, asked)) as connection:
        answer = connection.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 4)
    return {partition.partition_index: partition.leader_id for partition in answer.topics[0].partitions}


def produce_request(topic: str, partition: int) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=bytes(make_batch([STRAGGLER.encode()])))]
    return ProduceRequest(acks=-1, timeout_ms=2000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def controller_that_leads(observer: Observer) -> tuple[int, list[int]]:
    """Return the controller and partitions that it leads: one that has lost its session on a busy machine since the
    topic was made leads nothing until it is elected again."""
    victim, led = -1, list[int]()

    def leads() -> bool:
        nonlocal victim, led
        ask_again(lambda: observer.admin.elect_leaders(ElectionType.PREFERRED).result())
        victim = observer.controller()
        led = [partition for partition, leader in observer.leaders().items() if leader == victim]
        return bool(led) and observer.in_sync()

    wait_until(leads, "a controller that leads")
    return victim, led


def can_be_read(cluster: UpCluster, topic: str, leader: int, partition: int) -> bool:
    partitions = [FetchPartition(partition=partition, partition_max_bytes=1 << 20)]
    with RawConnection(address(cluster, leader)) as connection:
        answer = connection.ask(FetchRequest(topics=[FetchTopic(topic=topic, partitions=partitions)]), FETCH_VERSION)
    [read] = answer.responses[0].partitions
    return read.error_code == ErrorCode.NONE and len(read.records) > 0


def check_no_bug(cluster: UpCluster) -> None:
    for broker in range(BROKERS):
        log = cluster.log_file(broker).read_text()
        assert "Traceback" not in log and "after an error of ours" not in log, log[-5000:]


def test_killed_and_back_within_the_session(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", LONG_SESSION_MS) as (cluster, zookeeper):
        observer = observer_of(cluster, "killed-and-back")
        with Load(cluster.bootstrap, topic=observer.topic) as load:
            logs, led_before = Logs(cluster), observer.leaders()
            with zookeeper.killed():
                wait_until(partial(logs.all_say, AWAY), "the brokers to notice")
                wait_until(load.goes_on(), "writes without ZooKeeper")
                assert all(can_be_read(cluster, observer.topic, leader, led) for led, leader in led_before.items())
            wait_until(partial(logs.all_say, BACK), "the brokers to have a session")
            wait_until(load.goes_on(), "writes after it is back")
        for broker in range(BROKERS):
            assert (logs.count(broker, AWAY), logs.count(broker, BACK)) == (1, 1), logs.lines(broker)
            assert logs.count(broker, EXPIRED) == 0 and len(logs.lines(broker)) < LOG_LINES_MAX, logs.lines(broker)
        check_nothing_lost(load, cluster.bootstrap)
        check_no_bug(cluster)


def test_away_for_longer_than_the_session(cluster: UpCluster, zookeeper: ZooKeeperProcess, observer: Observer) -> None:
    logs, led_before = Logs(cluster), observer.leaders()
    with Load(cluster.bootstrap, topic=observer.topic) as load:
        with zookeeper.paused():
            wait_until(load.goes_on(), "writes while the sessions may live")
            wait_until(lambda: logs.all_say(EXPIRED), "the brokers to give up")
            for partition, leader in led_before.items():
                with RawConnection(address(cluster, leader)) as connection:
                    answer = connection.ask(produce_request(observer.topic, partition), PRODUCE_VERSION)
                [refused] = answer.responses[0].partition_responses
                assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        wait_until(lambda: logs.all_say(REGISTERED), "registration in a new session")
        wait_until(load.goes_on(), "writes to every partition")
        wait_until(observer.in_sync, "all replicas in sync")
    for broker in range(BROKERS):
        assert (logs.count(broker, AWAY), logs.count(broker, EXPIRED)) == (1, 1), logs.lines(broker)
    check_nothing_lost(load, cluster.bootstrap)
    check_no_bug(cluster)


def test_a_zombie_changes_nothing(cluster: UpCluster, zookeeper: ZooKeeperProcess, observer: Observer) -> None:
    """The controller, which leads as well, sleeps longer than its session; it refuses what was asked meanwhile."""
    victim, led = controller_that_leads(observer)
    logs, other = Logs(cluster), (victim + 1) % BROKERS
    load = Load(cluster.bootstrap, topic=observer.topic, answer_ms=ANSWER_MS)
    with load, RawConnection(address(cluster, victim)) as straggler:
        os.kill(cluster.pid(victim), signal.SIGSTOP)
        try:
            header = RequestHeader(0, PRODUCE_VERSION, 1, "straggler")
            straggler.send(b"".join(framed(encode_request(header, produce_request(observer.topic, led[0]))))[4:])
            wait_until(lambda: victim not in leaders(cluster, observer.topic, other).values(), "other leaders")
            wait_until(load.goes_on(), "writes without it")
        finally:
            os.kill(cluster.pid(victim), signal.SIGCONT)
        _, answer = decode_response(0, PRODUCE_VERSION, straggler.read_frame())
        [refused] = answer.responses[0].partition_responses  # type: ignore[attr-defined]
        assert refused.error_code != ErrorCode.NONE, "a zombie has acknowledged a record"
        wait_until(lambda: logs.count(victim, REGISTERED) >= 1, "its new registration")
        wait_until(observer.in_sync, "all replicas in sync")
        wait_until(load.goes_on(), "writes with it")
    assert logs.count(victim, "is not the controller any more") == 1, logs.lines(victim)
    rows = read_log(cluster.bootstrap, observer.topic)
    assert not any(value == STRAGGLER for written in rows.values() for _, value in written)
    check_nothing_lost(load, cluster.bootstrap)
    check_no_bug(cluster)
