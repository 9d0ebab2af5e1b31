"""Brokers are killed, one by one or all at once, while transactions are written: each is whole, or not there at all."""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaException, Producer

from odradek.testing.load import PARTITIONS, Observer, read_to_the_end, transaction_coordinator, until_done
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.testing.up import UpCluster

pytestmark = pytest.mark.cluster

ABORTED_EVERY = 4
PAUSE_SECONDS = 0.05
"""Between two transactions."""
TOLD_LINES = 300
"""The last of what librdkafka says, for a run in which it never goes on: brokers do not show what it waits for."""


class Told(logging.Handler):
    """Keeps the last lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=TOLD_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.created:.3f} {record.getMessage()}")


@dataclass
class Transactions:
    """One producer; each transaction writes its number to every partition, and every fourth is aborted on purpose."""

    cluster: UpCluster
    topic: str
    committed: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    """The producer was fenced, or died, while it committed."""

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._told, self._logger = Told(), logging.Logger("librdkafka")
        self._logger.addHandler(self._told)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Transactions":
        self._thread.start()
        wait_until(lambda: len(self.committed) > 3, "the first commits")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._new_producer()  # when the markers of the last transaction are written

    def goes_on(self) -> Callable[[], bool]:
        mark = len(self.committed)
        return lambda: len(self.committed) > mark + 3

    def evidence(self) -> str:
        """Return what the producer has said lately; it says it to whoever polls."""
        self._producer.poll(0)
        return "\n".join(self._told.lines)

    def _run(self) -> None:
        producer, number = self._new_producer(), 0
        while not self._stop.wait(PAUSE_SECONDS):
            try:
                self._one(producer, number)
            except KafkaException as error:
                if error.args[0].fatal() or not self._abort(producer, number, error):
                    producer = self._new_producer()
            number += 1

    def _abort(self, producer: Producer, number: int, error: KafkaException) -> bool:
        """False when that fails: a producer that aborts what the coordinator has not heard of is of no use any more."""
        assert error.args[0].txn_requires_abort(), error
        try:
            until_done(producer.abort_transaction)
        except KafkaException as fatal:
            assert fatal.args[0].fatal(), fatal
            return False
        self.unknown.discard(number)
        self.aborted.add(number)
        return True

    def _new_producer(self) -> Producer:
        settings = {"bootstrap.servers": self.cluster.bootstrap, "transactional.id": self.topic, "linger.ms": 1}
        self._producer = Producer(settings | {"debug": "eos,broker,protocol"}, logger=self._logger)
        until_done(self._producer.init_transactions)
        return self._producer

    def _one(self, producer: Producer, number: int) -> None:
        self.unknown.add(number)
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(self.topic, str(number), partition=partition)
        to_abort = number % ABORTED_EVERY == 0
        if to_abort:
            producer.flush(PATIENCE_SECONDS)
        until_done(producer.abort_transaction if to_abort else producer.commit_transaction)
        self.unknown.discard(number)
        (self.aborted if to_abort else self.committed).add(number)


def test_one_after_another(cluster: UpCluster, observer: Observer) -> None:
    with Transactions(cluster, observer.topic) as load:
        for victim in (
            transaction_coordinator(cluster.bootstrap, observer.topic),
            observer.controller(),
            observer.busiest(),
        ):
            cluster.kill(victim)
            wait_until(load.goes_on(), f"commits after broker {victim} was killed", load.evidence)
            cluster.start(victim)
            wait_until(observer.in_sync, "all replicas in sync")
            wait_until(load.goes_on(), "commits with all brokers", load.evidence)
    check(load, cluster, observer)


def test_all_at_once(cluster: UpCluster, observer: Observer) -> None:
    with Transactions(cluster, observer.topic) as load:
        for _ in range(2):
            for broker in range(3):
                cluster.kill(broker)
            for broker in range(3):
                cluster.start(broker)
            wait_until(load.goes_on(), "commits after all brokers were killed", load.evidence)
    wait_until(observer.in_sync, "all replicas in sync")
    check(load, cluster, observer)


def check(load: Transactions, cluster: UpCluster, observer: Observer) -> None:
    seen = Counter(int(value) for value in read_to_the_end(cluster.bootstrap, observer.topic, PARTITIONS))
    assert {number for number, count in seen.items() if count != PARTITIONS} == set(), "in parts, or more than once"
    assert load.committed <= seen.keys(), sorted(load.committed - seen.keys())[:5]
    assert not load.aborted & seen.keys(), sorted(load.aborted & seen.keys())[:5]
    assert len(load.committed) > len(load.unknown), (len(load.committed), load.unknown)
