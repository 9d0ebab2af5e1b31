"""The load of bench/chaos_network.py: transactions, readers and a group, and what each of them was told.

By librdkafka; chaos_load_ours.py does the same by our own clients."""

import faulthandler
import itertools
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import this_tree  # noqa: F401
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from odradek.testing.load import QUIET, ask_again, end_of
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.transaction_history import Outcome, Read, Transaction

TOPIC, PARTITIONS = "chaos", 6
ABORTED_SHARE = 0.2
STEP_SECONDS = 20.0
TRANSACTION_MS = 15_000


class Worker(threading.Thread):
    """Something that goes on until it is over; what ends it otherwise is in `error`."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap, self.over = bootstrap, threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - told at the end, by whoever joins it
            self.error = error

    def work(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """End it. Raises what has ended it before."""
        self.over.set()
        self.join(PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error
        if self.is_alive():
            faulthandler.dump_traceback()  # in which call of librdkafka
            raise AssertionError(f"{self} does not end")


def reader(bootstrap: str, isolation: str, places: list[TopicPartition]) -> Consumer:
    settings = {"group.id": "none", "enable.auto.commit": False, "isolation.level": isolation}
    consumer = Consumer({**QUIET, **settings, "bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"})
    consumer.assign(places)
    return consumer


class Transactor(Worker):
    """Transactions of one id: each reads a little, and writes two or three records; some are aborted."""

    errors: type[Exception] = KafkaException

    def __init__(self, bootstrap: str, number: int, seed: int, pause: float) -> None:
        """`pause`: seconds after each transaction."""
        super().__init__(bootstrap)
        self.number, self.random, self.pause = number, random.Random(f"{seed} {number}"), pause
        self.history: list[Transaction] = []
        self.commits: list[float] = []
        self.failures = 0
        self.aborts = False
        """The transaction is to be aborted."""

    def work(self) -> None:
        producer = None
        source = self.source()
        while not self.over.is_set():
            try:
                producer = producer or self.begin()
                self._one(producer, source)
            except self.errors as failed:
                self.failures += 1
                if producer is not None and not self.goes_on(producer, failed):
                    self.drop(producer)
                    producer = None
            time.sleep(self.pause)
        if producer is not None:
            self.drop(producer)
        source.close()

    def _one(self, producer: Any, source: Any) -> None:
        one = Transaction(f"t{self.number}.{len(self.history)}", time.monotonic())
        self.history.append(one)
        self.aborts = True  # whatever fails before its end: `writes` has what was not sent, too
        producer.begin_transaction()
        one.reads += self.read(source)
        for count, partition in enumerate(self.random.sample(range(PARTITIONS), self.random.choice((2, 3)))):
            value = f"{one.name}.{count}"
            one.writes.append(value)
            self.write(producer, partition, value)
        self.aborts = self.random.random() < ABORTED_SHARE
        if self.aborts:
            producer.flush(1.0)
            producer.abort_transaction(STEP_SECONDS)
            self.ended(Outcome.ABORTED)
        else:
            producer.commit_transaction(STEP_SECONDS)
            self.ended(Outcome.COMMITTED)

    def ended(self, outcome: Outcome) -> None:
        """Note how the last transaction has ended."""
        self.history[-1].outcome, self.history[-1].ended = outcome, time.monotonic()
        if outcome is Outcome.COMMITTED:
            self.commits.append(self.history[-1].ended)

    # What differs from client to client.

    def source(self) -> Any:
        """Return a read_committed reader of everything."""
        return reader(self.bootstrap, "read_committed", [TopicPartition(TOPIC, one, 0) for one in range(PARTITIONS)])

    def begin(self) -> Any:
        """Return a producer whose transactions can begin."""
        settings = {
            "transactional.id": f"chaos-{self.number}",
            "transaction.timeout.ms": TRANSACTION_MS,
            "socket.timeout.ms": 5000,
            "message.timeout.ms": TRANSACTION_MS,
        }
        producer = Producer({**QUIET, **settings, "bootstrap.servers": self.bootstrap})
        producer.init_transactions(STEP_SECONDS)
        return producer

    def read(self, source: Any) -> list[str]:
        return [message.value().decode() for message in source.consume(5, 0.02) if message.error() is None]

    def write(self, producer: Any, partition: int, value: str) -> None:
        producer.produce(TOPIC, value, partition=partition)
        producer.poll(0)

    def goes_on(self, producer: Any, failed: Any) -> bool:
        """Tell whether the producer can begin another transaction, the last one being over.

        What became of one that another producer has to end nobody knows.
        """
        error = failed.args[0]
        if error.fatal() or not error.txn_requires_abort():
            return False
        try:
            producer.abort_transaction(STEP_SECONDS)
        except KafkaException:
            return False
        self.ended(Outcome.ABORTED)
        return True

    def drop(self, producer: Any) -> None:
        """Have done with a producer; librdkafka's goes with its last reference."""


class Watcher(Worker):
    """A read_committed reader of everything."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.reads: list[Read] = []

    def work(self) -> None:
        places = [TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)]
        source = reader(self.bootstrap, "read_committed", places)
        while not self.over.is_set():
            for message in source.consume(500, 0.2):
                if message.error() is None:
                    self.reads.append(Read(message.partition(), message.offset(), message.value().decode()))
        source.close()


class Member(Worker):
    """A member of a group, alone in it, that commits; offsets as they were committed, and found again."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.commits: list[list[int]] = [[] for _ in range(PARTITIONS)]

    def work(self) -> None:
        settings = {"group.id": "chaos", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer({**QUIET, **settings, "bootstrap.servers": self.bootstrap, "session.timeout.ms": 6000})
        consumer.subscribe([TOPIC])
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        while not self.over.is_set():
            if not consumer.consume(200, 0.3):
                continue
            try:
                consumer.commit(asynchronous=False)
                for place in consumer.committed(places, timeout=5):
                    if place.error is None and place.offset >= 0:
                        self.commits[place.partition].append(place.offset)
            except KafkaException:
                continue  # a rebalance, a coordinator that is gone: the next commit is a new one
        consumer.close()


def final_log(bootstrap: str, topic: str = TOPIC) -> dict[int, list[tuple[int, str]]]:
    """Read everything that is committed, by a reader of its own."""
    asker = reader(bootstrap, "read_committed", [])
    places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    ends = {place.partition: end_of(asker, place) for place in places}
    asker.close()
    consumer = reader(bootstrap, "read_committed", places)
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(place.offset < ends[place.partition] for place in ask_again(lambda: consumer.position(places))):
        assert time.monotonic() < deadline, f"stuck: read up to {consumer.position(places)} of {ends}"
        for message in consumer.consume(5000, 0.5):
            error = message.error()
            if error is None:
                found[message.partition()].append((message.offset(), message.value().decode()))
            else:
                assert error.code() != KafkaError.OFFSET_OUT_OF_RANGE, error
    consumer.close()
    return found


def longest_gap(times: list[float], began: float, ended: float) -> float:
    """Return the longest time without any of `times`, in seconds."""
    marks = sorted([began, *(at for at in times if began < at < ended), ended])
    return max(after - before for before, after in itertools.pairwise(marks))


def goes_on(transactors: list[Transactor]) -> Callable[[], bool]:
    """Tell whether each has committed since this was called."""
    before = [len(one.commits) for one in transactors]
    return lambda: all(len(one.commits) > count for one, count in zip(transactors, before, strict=True))
