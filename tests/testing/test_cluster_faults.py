"""Faults of a Cluster, seen by clients: those of brokers, and those of single answers."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import Producer as ForeignProducer

from odradek import KafkaConsumer, KafkaProducer
from odradek.protocol.errors import KafkaError
from odradek.testing import Cluster, ClusterError
from odradek.testing.patience import PATIENCE_SECONDS

NewTopic = Callable[..., str]


def produce(cluster: Cluster, topic: str, value: bytes, **settings: Any) -> int:
    """The offset of a record that was delivered."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, **settings) as producer:
        return producer.send(topic, value, partition=0).result(PATIENCE_SECONDS).offset


def values(cluster: Cluster, topic: str, count: int, **settings: Any) -> list[bytes]:
    """Read so many records from the beginning."""
    read: list[bytes] = []
    with KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", **settings) as reader:
        while len(read) < count:
            read += polled(reader)
    return read


def polled(reader: KafkaConsumer, timeout_ms: float = PATIENCE_SECONDS * 1000) -> list[bytes]:
    """What one poll gives."""
    return [record.value for records in reader.poll(timeout_ms).values() for record in records]


# -- brokers -----------------------------------------------------------------------------------------------------------


def test_a_killed_leader_is_replaced_and_comes_back(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(assignment={0: [1, 2, 0]})
    cluster.wait_for(topic, leader=1, isr={0, 1, 2})
    produce(cluster, topic, b"before", acks="all")
    cluster.kill(1)
    cluster.wait_for(topic, leader=2, isr={0, 2}, brokers=2)
    assert produce(cluster, topic, b"after", acks="all") == 1
    cluster.restart(1)
    cluster.wait_for(topic, isr=3, brokers=3)
    cluster.elect(topic)
    cluster.wait_for(topic, leader=1)
    assert values(cluster, topic, 2) == [b"before", b"after"]


def test_a_suspended_broker_loses_its_session_and_goes_on(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(assignment={0: [2, 0]})
    cluster.suspend(2)
    cluster.wait_for(topic, leader=0)
    with pytest.raises(ClusterError, match="suspended already"):
        cluster.suspend(2)
    assert produce(cluster, topic, b"meanwhile") == 0
    cluster.resume(2)
    cluster.wait_for(topic, isr={0, 2})


def test_a_follower_that_is_cut_off_leaves_the_isr(cluster: Cluster, new_topic: NewTopic) -> None:
    leader, follower = {0, 1, 2} - {cluster.controller()}  # which is to be reached by the leader
    topic = new_topic(assignment={0: [leader, follower]})
    cluster.partition(leader, follower)
    produce(cluster, topic, b"which it does not get", acks=1)  # who has everything is in sync, however silent
    cluster.wait_for(topic, isr={leader})
    cluster.heal(leader, follower)
    cluster.wait_for(topic, isr={leader, follower})
    assert cluster.isr(topic) == sorted({leader, follower}) and cluster.leader(topic) == leader


def test_clients_that_are_cut_off_wait(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(assignment={0: [0]})
    with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send(topic, b"before").result(PATIENCE_SECONDS)
        cluster.partition(0, "clients")
        sent = producer.send(topic, b"cut off")
        cluster.expire_session(2)  # something that takes its time and needs no client
        cluster.wait_for(brokers=3)
        assert not sent.done()
        cluster.heal(0, "clients")
        assert sent.result(PATIENCE_SECONDS).offset == 1


def test_a_controller_without_zookeeper_is_replaced(cluster: Cluster) -> None:
    before = cluster.controller()
    cluster.partition(before, "zookeeper")
    cluster.wait_for(controller={0, 1, 2} - {before})
    cluster.heal(before, "zookeeper")
    cluster.wait_for(brokers=3)


def test_a_broker_without_a_disk_ends(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(assignment={0: [1, 0]})
    cluster.fail_disk(1)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:  # it finds out by writing
        producer.send(topic, b"to the other").result(PATIENCE_SECONDS)
    cluster.wait_for(topic, leader=0, brokers=2)
    with pytest.raises(ClusterError, match="broker 1 does not run"):
        cluster.fail_disk(1)
    cluster.restart(1)
    cluster.wait_for(topic, isr={0, 1})


def test_leaders_move(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(assignment={0: [0, 1]})
    cluster.move_leader(topic, 0, to=1)
    cluster.wait_for(topic, leader=1, isr={0, 1})
    cluster.move_leader(topic, 0, to=2)
    cluster.wait_for(topic, leader=2, isr={0, 2})


# -- groups and producers ----------------------------------------------------------------------------------------------


def test_a_group_rebalances_and_its_coordinator_moves(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic()
    settings = {"bootstrap_servers": cluster.bootstrap, "group_id": topic, "auto_offset_reset": "earliest"}
    produce(cluster, topic, b"1")
    with KafkaConsumer(topic, heartbeat_interval_ms=200, **settings) as consumer:
        stop = threading.Event()
        taken: list[bytes] = []

        def read() -> None:
            while not stop.is_set():
                records = polled(consumer, 100)
                taken.extend(records)
                if records:
                    consumer.commit()

        reading = threading.Thread(target=read)
        reading.start()
        try:
            cluster.wait_for(topic, group=topic, members=1, lag=0)
            cluster.rebalance(topic)
            cluster.wait_for(group=topic, state="Stable", members=1)
            where = cluster.coordinator_moves(topic)
            assert where in (0, 1, 2)
            produce(cluster, topic, b"2")
            cluster.wait_for(topic, group=topic, lag=0)
        finally:
            stop.set()
            reading.join()
    assert taken == [b"1", b"2"]
    with pytest.raises(ClusterError, match="no group 'nobody'"):
        cluster.rebalance("nobody")


def test_a_producer_is_fenced(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic()
    producer = ForeignProducer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"never to be seen")
    cluster.fence(topic)
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(PATIENCE_SECONDS)
    assert refused.value.args[0].fatal()


# -- answers -----------------------------------------------------------------------------------------------------------


def test_one_partition_of_a_produce_is_refused(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    fault = cluster.respond(
        api="Produce", topic=topic, partition=0, error="NOT_LEADER_OR_FOLLOWER", times=None, client="refused"
    )
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, client_id="refused", delivery_timeout_ms=10_000,
                       request_timeout_ms=5_000, retry_backoff_ms=500) as producer:  # fmt: skip
        refused, taken = producer.send(topic, b"0", partition=0), producer.send(topic, b"1", partition=1)
        assert taken.result(PATIENCE_SECONDS).offset == 0
        with pytest.raises(KafkaError):
            refused.result(PATIENCE_SECONDS)
        cluster.wait_for(fault=fault)
        cluster.clear(fault)
        assert producer.send(topic, b"0 again", partition=0).result(PATIENCE_SECONDS).offset == 0


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("produce", "not_leader_or_follower"),
        ("Metadata", "LEADER_NOT_AVAILABLE"),
        ("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_a_producer_gets_over_errors(cluster: Cluster, new_topic: NewTopic, api: str, error: str) -> None:
    topic = new_topic()
    fault = cluster.respond(api, error, times=3, client="writer")
    assert produce(cluster, topic, b"in the end", client_id="writer", retry_backoff_ms=10) == 0
    cluster.wait_for(fault=fault)
    assert values(cluster, topic, 1) == [b"in the end"]


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
        ("Fetch", "FETCH_SESSION_ID_NOT_FOUND"),
        ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "COORDINATOR_NOT_AVAILABLE"),
        ("OffsetFetch", "NOT_COORDINATOR"),
    ],
)
def test_a_consumer_gets_over_errors(cluster: Cluster, new_topic: NewTopic, api: str, error: str) -> None:
    topic = new_topic()
    produce(cluster, topic, b"1")
    fault = cluster.respond(api, error, times=2, client="reader")
    assert values(cluster, topic, 1, client_id="reader", group_id=topic, retry_backoff_ms=10) == [b"1"]
    cluster.wait_for(fault=fault)


def test_a_fetch_session_is_struck(cluster: Cluster, new_topic: NewTopic) -> None:
    """Its requests do not name the partition."""
    topic = new_topic()
    with KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest",
                       fetch_max_wait_ms=50) as reader:  # fmt: skip
        produce(cluster, topic, b"1")
        assert polled(reader) == [b"1"]
        fault = cluster.respond("Fetch", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=0, times=2)
        for value in (b"2", b"3"):  # one Fetch was under way, perhaps
            produce(cluster, topic, value)
            assert polled(reader) == [value]
        cluster.wait_for(fault=fault)


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_lost_answer(cluster: Cluster, new_topic: NewTopic, idempotent: bool) -> None:
    topic = new_topic()
    fault = cluster.drop_answer("Produce", topic=topic)
    produce(cluster, topic, b"once", enable_idempotence=idempotent, acks="all", retry_backoff_ms=10)
    cluster.wait_for(topic, fault=fault, records=1 if idempotent else 2)
    produce(cluster, topic, b"end")
    expected = [b"once", b"end"] if idempotent else [b"once", b"once", b"end"]
    assert values(cluster, topic, len(expected)) == expected


def test_a_broken_connection(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic()
    fault = cluster.drop_connection("Produce", topic=topic, times=2)
    assert produce(cluster, topic, b"once", enable_idempotence=False, acks=1, retry_backoff_ms=10) == 0
    cluster.wait_for(topic, fault=fault, records=1)
    assert produce(cluster, topic, b"end") == 1


@pytest.mark.parametrize("acks", ["all", 1])
def test_a_held_answer(cluster: Cluster, new_topic: NewTopic, acks: object) -> None:
    """The second record is there, and its producer does not know it yet."""
    topic = new_topic()
    fault = cluster.hold("Produce", topic=topic, after=1)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks=acks) as producer:
        producer.send(topic, b"1").result(PATIENCE_SECONDS)
        held = producer.send(topic, b"2")
        cluster.wait_for(topic, fault=fault, records=2)
        assert not held.done()
        cluster.release(fault)
        assert held.result(PATIENCE_SECONDS).offset == 1


def test_a_delayed_answer(cluster: Cluster, new_topic: NewTopic) -> None:
    """So late that the client has given up, however late it looks: it is sent again, and is there twice."""
    topic = new_topic()
    fault = cluster.delay("Produce", PATIENCE_SECONDS * 1000, topic=topic)
    settings = {"request_timeout_ms": 1_000, "retry_backoff_ms": 10, "enable_idempotence": False}
    produce(cluster, topic, b"again", **settings)
    cluster.wait_for(topic, fault=fault, records=2)


def test_faults_are_gone_when_they_are_over(cluster: Cluster, new_topic: NewTopic) -> None:
    """Nothing of them stays on the way of a request."""
    topic = new_topic()
    cluster.respond("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic)
    produce(cluster, topic, b"1", retry_backoff_ms=10)
    assert cluster.is_plain()


# -- bad use -----------------------------------------------------------------------------------------------------------

BAD_USES: list[tuple[Callable[[Cluster], object], str]] = [
    (lambda cluster: cluster.respond("Prodce", 6), r"no API 'Prodce'; did you mean Produce\?"),
    (lambda cluster: cluster.respond("Fetch", "NOT_LEADER"), r"no error 'NOT_LEADER'; did you mean \w+\?"),
    (lambda cluster: cluster.respond("Fetch", 9999), "no error '9999'|no error 9999"),
    (lambda cluster: cluster.respond("Produce", 6, partition=0), "of which topic"),
    (lambda cluster: cluster.hold("Produce", times=0), "at least once"),
    (lambda cluster: cluster.respond("Produce", "NONE"), "NONE is no error"),
    (lambda cluster: cluster.respond("Heartbeat", 6, topic="orders"), "requests of Heartbeat name no topic"),
    (lambda cluster: cluster.delay("Produce", 1, after=-1), "let through first"),
    (lambda cluster: cluster.clear(5), "5 is no fault"),  # type: ignore[arg-type]
    (lambda cluster: cluster.partition(0, 0), "0 and itself"),
    (lambda cluster: cluster.create_topic("t", assignment={0: [7]}), "there is no broker 7"),
    (lambda cluster: cluster.kill("1"), "there is no broker '1'"),  # type: ignore[arg-type]
    (lambda cluster: cluster.create_topic(["t"]), r"topic=\['t'\] is not what it takes: str"),  # type: ignore[arg-type]
    (lambda cluster: cluster.create_topic("t", assignment=[[0]]), r"not what it takes: Mapping\[int, list\[int\]\]"),  # type: ignore[arg-type]
    (lambda cluster: cluster.fence(None), "transactional_id=None is not what it takes: str"),  # type: ignore[arg-type]
    (lambda cluster: cluster.respond("Fetch", 6, times="3"), "times='3' is not what it takes: int"),  # type: ignore[arg-type]
    (lambda cluster: cluster.delay("Fetch", float("nan")), "ms=nan is not what it takes: float"),
    (lambda cluster: cluster.wait_for("t", isr="012"), "isr='012' is not what it takes"),  # type: ignore[arg-type]
    (lambda cluster: cluster.kill(7), "there is no broker 7: this cluster has 0 to 2"),
    (lambda cluster: cluster.move_leader("nowhere", 0, to=1), "there is no topic 'nowhere'"),
    (lambda cluster: cluster.partition(0, "everybody"), "'clients' or 'zookeeper'"),
    (lambda cluster: cluster.wait_for(), "wait_for what"),
    (lambda cluster: cluster.wait_for(leader=1), "`topic`"),
    (lambda cluster: cluster.wait_for(group="g", state="Happy"), "one of Stable"),
    (lambda cluster: cluster.release(cluster.delay("Fetch", 1)), "holds nothing"),
]


@pytest.mark.parametrize(("use", "said"), BAD_USES)
def test_bad_use_gets_one_line(cluster: Cluster, use: Callable[[Cluster], object], said: str) -> None:
    with pytest.raises(ClusterError, match=said) as raised:
        use(cluster)
    assert "\n" not in str(raised.value)


def test_the_default_number_of_partitions_may_be_asked_for(cluster: Cluster) -> None:
    cluster.create_topic("by-default", partitions=-1)
    assert cluster.leader("by-default") >= 0
    cluster.delete_topic("by-default")


def test_a_fault_on_what_is_not_there_says_so_when_it_is_waited_for(cluster: Cluster) -> None:
    cluster.create_topic("invoices")
    for place, said in (
        ({"topic": "invoice"}, r"has not struck: there is no topic 'invoice'; did you mean invoices\?"),
        ({"topic": "invoices", "partition": 9}, "has not struck: topic 'invoices' has partitions 0 to 0, not 9"),
    ):
        fault = cluster.respond("Produce", "NOT_LEADER_OR_FOLLOWER", **place)  # type: ignore[arg-type]
        with pytest.raises(TimeoutError, match=said):
            cluster.wait_for(fault=fault, timeout=0.05)
        cluster.clear(fault)
    cluster.delete_topic("invoices")


def test_what_did_not_come_is_said(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(assignment={0: [1, 0]})
    with pytest.raises(TimeoutError, match=f"the leader of {topic}-0 is 1"):
        cluster.wait_for(topic, leader=2, timeout=0.05)
