"""A cluster under load: producers whose every acknowledgement is written down, and what the logs hold in the end.

Needs confluent-kafka, which is a development dependency.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.patience import PATIENCE_SECONDS, wait_until

TOPIC, PARTITIONS = "load", 6
PACE_SECONDS = 0.02
"""Between two records of a producer: what is tested needs requests in flight, not many of them."""
ASK_AGAIN_SECONDS = 0.2
T = TypeVar("T")
QUIET = {"log_level": 2}
"""Settings of a librdkafka that says little: a broker that is killed on purpose is no news."""
ASKED_AGAIN = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._PARTIAL,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
}
"""What is said while leaders move and brokers come back: clients ask again, single calls of librdkafka do not."""


class Cluster(Protocol):
    """Cluster under load, however it was started."""

    @property
    def bootstrap(self) -> str: ...


def ask_again(ask: Callable[[], T]) -> T:
    """Repeat a single call of librdkafka until it answers. Raises KafkaException of what does not pass."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in ASKED_AGAIN or time.monotonic() > deadline:
                raise
        time.sleep(ASK_AGAIN_SECONDS)


def create_topic(admin: AdminClient, topic: NewTopic) -> None:
    """Create a topic, asking again while the controller moves: librdkafka hands NOT_CONTROLLER on to its caller.

    An attempt whose answer was lost may have created it. Raises KafkaException of what does not pass, and of a topic
    that was there at the first attempt.
    """
    attempts = 0

    def create() -> None:
        nonlocal attempts
        attempts += 1
        try:
            admin.create_topics([topic])[topic.topic].result(PATIENCE_SECONDS)
        except KafkaException as error:
            if attempts == 1 or error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    ask_again(create)


def until_done(step: Callable[[float], None]) -> None:
    """A step of a transactional producer, again for as long as it says that it may be taken again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            step(max(deadline - time.monotonic(), 1))
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


@dataclass
class Load:
    """Idempotent producers with 5 requests in flight and acks=all: value `producer:number` to partition number % 6."""

    bootstrap: str
    producers: int = 2
    topic: str = TOPIC
    pace_seconds: float = PACE_SECONDS
    answer_ms: int = 60_000
    """How long a broker may leave a request unanswered before it is sent again, to whoever leads by then."""
    acknowledged: dict[tuple[int, int], str] = field(default_factory=dict)
    """(partition, offset) → value."""
    unplaced: list[str] = field(default_factory=list)
    """Values that librdkafka reports as delivered without an offset: their batch was in the log when it was refused or
    timed out, and before it was repeated a later one was acknowledged (an implicit acknowledgement)."""
    failed: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        self._last: dict[int, int] = {}
        self._heard: set[str] = set()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(self.producers)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        wait_until(lambda: len(self.acknowledged) > 100, "the first acknowledgements")
        # Who has not met the topic before a broker dies may be told by the next one that there is none, and gives up.
        wait_until(lambda: len(self._heard) == self.producers, "the first acknowledgement of each producer")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def in_flight(self) -> int:
        return self.sent - len(self.acknowledged) - len(self.unplaced) - len(self.failed)

    def _run(self, number: int) -> None:
        producer = Producer(
            {
                **QUIET,
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "max.in.flight": 5,
                "linger.ms": 1,
                "message.timeout.ms": int(PATIENCE_SECONDS * 1000),
                "socket.timeout.ms": self.answer_ms,
                "batch.num.messages": 20,
            }
        )
        count = 0
        while not self._stop.is_set():
            value = f"{number}:{count}"
            producer.produce(self.topic, value, partition=count % PARTITIONS, on_delivery=self._delivered)
            count += 1
            self.sent += 1
            producer.poll(self.pace_seconds)
        producer.flush(PATIENCE_SECONDS)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        self.times.append(time.monotonic())
        if message.offset() is None:
            self.unplaced.append((message.value() or b"").decode())
            return
        partition, offset, value = row_of(message)
        self.acknowledged[(partition, offset)] = value
        self._heard.add(value.partition(":")[0])
        self._last[partition] = max(offset, self._last.get(partition, -1))

    def goes_on(self) -> Callable[[], bool]:
        """Tell whether every partition has been written to since this was called."""
        marks = {partition: self._last.get(partition, -1) for partition in range(PARTITIONS)}
        return lambda: all(self._last.get(partition, -1) > mark for partition, mark in marks.items())


def transaction_coordinator(bootstrap: str, transactional_id: str) -> int:
    """Return the broker that coordinates it, once the first of `bootstrap` knows one."""
    found: list[int] = []

    def ask() -> bool:
        with RawConnection(bootstrap.split(",")[0]) as connection:
            answer = connection.ask(FindCoordinatorRequest(key=transactional_id, key_type=1), 2)
        if not answer.error_code:
            found.append(answer.node_id)
        return bool(found)

    wait_until(ask, f"a coordinator of {transactional_id}")
    return found[0]


def row_of(message: Message) -> tuple[int, int, str]:
    """Return (partition, offset, value) of a message."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None and offset is not None and isinstance(value, bytes), (partition, offset, value)
    return partition, offset, value.decode()


def end_of(consumer: Consumer, partition: TopicPartition) -> int:
    """Return the high watermark, of whoever leads by then."""
    watermarks = ask_again(lambda: consumer.get_watermark_offsets(partition, timeout=30))
    assert watermarks is not None, partition
    return int(watermarks[1])


def read_log(bootstrap: str, topic: str) -> dict[int, list[tuple[int, str]]]:
    """Read everything in the topic: (offset, value) by partition, as a consumer sees it."""
    consumer = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": "verify", "enable.auto.commit": False})
    ends = {p: end_of(consumer, TopicPartition(topic, p)) for p in range(PARTITIONS)}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(end and (not found[p] or found[p][-1][0] < end - 1) for p, end in ends.items()):
        assert time.monotonic() < deadline, f"read { ({p: len(v) for p, v in found.items()}) } of {ends}"
        for message in consumer.consume(10_000, 0.5):
            error = message.error()
            if error is not None and error.code() in ASKED_AGAIN:
                continue
            assert error is None, error
            partition, offset, value = row_of(message)
            found[partition].append((offset, value))
    consumer.close()
    return found


def read_to_the_end(bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed") -> list[str]:
    """Return every value that a consumer of that isolation gets to see, transactions or not."""
    settings = {"group.id": "verify", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({**QUIET, **settings, "bootstrap.servers": bootstrap, "isolation.level": isolation})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    values: list[str] = []
    ended: set[int | None] = set()
    while len(ended) < partitions:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None, f"{len(values)} values of {topic} read, {len(ended)} of {partitions} partitions"
        error = message.error()
        if error is not None and error.code() in ASKED_AGAIN:
            continue
        if error is None:
            values.append(row_of(message)[2])
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())  # which may be told again, when a leader has changed
    consumer.close()
    return values


def check_nothing_lost(load: Load, bootstrap: str) -> None:
    """Assert that no acknowledged record is lost or moved, and none repeated or out of order."""
    log = read_log(bootstrap, load.topic)
    held = {(partition, offset): value for partition, rows in log.items() for offset, value in rows}
    lost = {at: value for at, value in load.acknowledged.items() if held.get(at) != value}
    assert not lost, (
        f"{len(lost)} of {len(load.acknowledged)} acknowledged records lost or moved: {list(lost.items())[:5]}"
    )
    missing = set(load.unplaced) - set(held.values())
    assert not missing, f"{len(missing)} records acknowledged without an offset lost: {sorted(missing)[:5]}"
    for partition, rows in log.items():
        last: dict[str, tuple[int, int]] = {}
        for offset, value in rows:
            producer, _, number = value.partition(":")
            before, at = last.get(producer, (-1, -1))
            said = f"partition {partition} offset {offset}: {value} after {producer}:{before} at {at}"
            assert int(number) > before, said
            last[producer] = int(number), offset
    assert not load.failed, load.failed[:3]


class Observer:
    """Observer of what the cluster says of itself."""

    def __init__(self, cluster: Cluster, topic: str = TOPIC) -> None:
        self.topic = topic
        self.admin = AdminClient({**QUIET, "bootstrap.servers": cluster.bootstrap})

    def create_topic(self) -> None:
        """Create the topic once all three brokers are there: a test before may have brought one back only now."""
        wait_until(lambda: len(ask_again(lambda: self.admin.list_topics(timeout=10)).brokers) == 3, "three brokers")
        create_topic(self.admin, NewTopic(self.topic, PARTITIONS, 3, config={"min.insync.replicas": "2"}))

    def leaders(self) -> dict[int, int]:
        return {p: state.leader for p, state in self._partitions().items()}

    def controller(self) -> int:
        """Return the controller's id, once the broker that is asked knows it to be alive: until then it says -1."""
        found = -1

        def is_known() -> bool:
            nonlocal found
            found = int(ask_again(lambda: self.admin.list_topics(timeout=10)).controller_id)
            return found >= 0

        wait_until(is_known, "a controller")
        return found

    def in_sync(self) -> bool:
        """Tell whether every replica of every partition is in sync, and every partition has a leader."""
        states = self._partitions()
        return len(states) == PARTITIONS and all(len(s.isrs) == 3 and s.leader >= 0 for s in states.values())

    def _partitions(self) -> dict[int, PartitionMetadata]:
        topics = ask_again(lambda: self.admin.list_topics(self.topic, timeout=10)).topics
        return dict(topics[self.topic].partitions)

    def busiest(self) -> int:
        """Return the broker that leads most partitions."""
        leaders = list(self.leaders().values())
        return max(range(3), key=leaders.count)
