"""Read, process, write with our own clients while brokers are killed: every record of the source once in the target."""

import threading
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka.admin import NewTopic

from odradek.client.consumer.client import KafkaConsumer
from odradek.client.producer.client import KafkaProducer
from odradek.client.records import ConsumerRecord, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.load import PARTITIONS, Observer, create_topic, read_to_the_end, transaction_coordinator
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.testing.up import UpCluster

pytestmark = pytest.mark.cluster

TARGET, GROUP = "target", "workers"
WORKERS = 2
RECORDS_OF_A_TRANSACTION = 20
PACE_SECONDS = 0.01


class Feeder:
    """Numbers in turn, to one partition after the other; idempotent, without transactions."""

    def __init__(self, cluster: UpCluster, topic: str) -> None:
        self.sent = 0
        self._topic = topic
        self._stop = threading.Event()
        self._producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=5)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(PACE_SECONDS):
            self._producer.send(self._topic, b"%d" % self.sent, partition=self.sent % PARTITIONS)
            self.sent += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.close(PATIENCE_SECONDS)


class Worker:
    """One of a group. What was aborted it reads again; fenced, it goes on as its own successor."""

    def __init__(self, cluster: UpCluster, topic: str, number: int) -> None:
        self._cluster, self._topic, self._name = cluster, topic, f"worker-{number}"
        self.committed = 0
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with KafkaConsumer(
                self._topic,
                bootstrap_servers=self._cluster.bootstrap,
                group_id=GROUP,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
                session_timeout_ms=10_000,
            ) as consumer:
                self._work(consumer)
        except BaseException as failure:
            self.failure = failure
            raise

    def _work(self, consumer: KafkaConsumer) -> None:
        producer = new_producer(self._cluster, self._name)
        while not self._stop.is_set():
            records = [one for some in consumer.poll(200, RECORDS_OF_A_TRANSACTION).values() for one in some]
            if not records:
                continue
            try:
                self._one(consumer, producer, records)
                self.committed += 1
            except KafkaError as error:
                producer = self._recovered(producer, error)
                rewind(consumer)
        producer.close(PATIENCE_SECONDS)

    def _recovered(self, producer: KafkaProducer, error: KafkaError) -> KafkaProducer:
        """The same after an abort; when it was fenced, its successor."""
        try:
            if not error.fatal:
                producer.abort_transaction(PATIENCE_SECONDS)
                return producer
        except KafkaError as fenced:
            error = fenced
        assert error.code == ErrorCode.PRODUCER_FENCED, error
        producer.close(0)
        return new_producer(self._cluster, self._name)

    def _one(self, consumer: KafkaConsumer, producer: KafkaProducer, records: list[ConsumerRecord]) -> None:
        producer.begin_transaction()
        for record in records:
            producer.send(TARGET, record.value, partition=int(record.value) % PARTITIONS)
        offsets = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata(), PATIENCE_SECONDS)
        producer.commit_transaction(PATIENCE_SECONDS)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def new_producer(cluster: UpCluster, transactional_id: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=transactional_id)
    producer.init_transactions(PATIENCE_SECONDS)
    return producer


def rewind(consumer: KafkaConsumer) -> None:
    """To what the group has committed."""
    assigned = consumer.assignment()
    committed = consumer.committed_offsets(*assigned)
    for partition in assigned:
        consumer.seek(partition, committed[partition].offset if partition in committed else 0)


def goes_on(workers: list[Worker]) -> Callable[[], bool]:
    """Whether each has committed again since this was called."""
    marks = [worker.committed for worker in workers]

    def all_have() -> bool:
        assert [worker.failure for worker in workers] == [None] * WORKERS
        return all(worker.committed > mark + 2 for worker, mark in zip(workers, marks, strict=True))

    return all_have


def all_is_done(cluster: UpCluster, topic: str) -> Callable[[], bool]:
    """Whether the group has committed everything there is in the source."""
    source = [TopicPartition(topic, number) for number in range(PARTITIONS)]

    def done() -> bool:
        with KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=GROUP) as asking:
            committed, ends = asking.committed_offsets(*source), asking.end_offsets(source)
        return {tp: found.offset for tp, found in committed.items()} == {tp: end for tp, end in ends.items() if end}

    return done


def test_one_broker_after_another(cluster: UpCluster, observer: Observer) -> None:
    create_topic(observer.admin, NewTopic(TARGET, PARTITIONS, 3))
    feeder = Feeder(cluster, observer.topic)
    workers = [Worker(cluster, observer.topic, number) for number in range(WORKERS)]
    try:
        wait_until(goes_on(workers), "the first commits of each worker")
        for victim in (
            transaction_coordinator(cluster.bootstrap, "worker-0"),
            observer.controller(),
            observer.busiest(),
        ):
            cluster.kill(victim)
            wait_until(goes_on(workers), f"commits after broker {victim} was killed")
            cluster.start(victim)
            wait_until(observer.in_sync, "all replicas in sync")
            wait_until(goes_on(workers), "commits with all brokers")
        feeder.stop()
        wait_until(all_is_done(cluster, observer.topic), "everything done")
    finally:
        feeder.stop()
        for worker in workers:
            worker.stop()
    for number in range(WORKERS):
        new_producer(cluster, f"worker-{number}").close(PATIENCE_SECONDS)  # when the last markers are written
    seen = Counter(int(value) for value in read_to_the_end(cluster.bootstrap, TARGET, PARTITIONS))
    assert sorted(seen) == list(range(feeder.sent)), "lost"
    assert {number for number, count in seen.items() if count != 1} == set(), "more than once"
