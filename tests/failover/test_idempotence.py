"""A producer that repeats its last five batches to whoever leads by then, over SIGKILL, controlled stops and restarts.

Each is acknowledged with the place and the time of its first writing, and the log holds it once.
"""

import time

import pytest
from confluent_kafka import KafkaException

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.load import Observer, read_log
from odradek.testing.log_environments import make_batch
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster

pytestmark = pytest.mark.cluster

IN_FLIGHT = 5
PARTITION = 0
RETRIED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,  # the dead were in sync for as long as a busy machine took to miss them
}


class Sender:
    """A producer of its own: its id, its sequences, and where each batch was written first."""

    def __init__(self, cluster: UpCluster, observer: Observer, first_ms: int) -> None:
        self._cluster, self._observer, self._first_ms = cluster, observer, first_ms
        with RawConnection(f"127.0.0.1:{cluster.port}") as connection:
            answer = connection.ask(InitProducerIdRequest(transactional_id=None), 4)
        assert answer.error_code == 0, answer
        self._producer_id = answer.producer_id
        self.places: list[int] = []

    def send(self, sequence: int) -> tuple[int, int, int]:
        """(error, base offset, append time), of whoever leads when it answers."""
        answers: list[tuple[int, int, int]] = []
        wait_until(lambda: self._answered(sequence, answers), f"an answer for batch {sequence}")
        return answers[0]

    def _answered(self, sequence: int, answers: list[tuple[int, int, int]]) -> bool:
        try:
            leader = self._observer.leaders().get(PARTITION, -1)
        except KafkaException:
            return False  # nobody is there at all
        if leader < 0:
            return False
        batch = make_batch(
            [f"0:{sequence}".encode()],
            producer_id=self._producer_id,
            sequence=sequence,
            timestamp_ms=self._first_ms + sequence,
        )
        data = [PartitionProduceData(index=PARTITION, records=bytes(batch))]
        topics = [TopicProduceData(name=self._observer.topic, partition_data=data)]
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
        try:
            with RawConnection(f"127.0.0.1:{self._cluster.port + leader}") as connection:
                (answer,) = connection.ask(request, 9).responses[0].partition_responses
        except (OSError, EOFError):
            return False
        if answer.error_code in RETRIED:
            return False
        answers.append((answer.error_code, answer.base_offset, answer.log_append_time_ms))
        return True

    def write(self, count: int) -> None:
        for _ in range(count):
            sequence = len(self.places)
            error, offset, _ = self.send(sequence)
            assert error == 0
            self.places.append(offset)

    def check_repeated(self) -> None:
        last = len(self.places)
        for sequence in range(last - IN_FLIGHT, last):
            assert self.send(sequence) == (0, self.places[sequence], self._first_ms + sequence), sequence
        assert self.send(last - IN_FLIGHT - 1)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert self.send(last + 1)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_over_kills_stops_and_restarts(cluster: UpCluster, observer: Observer) -> None:
    sender = Sender(cluster, observer, time.time_ns() // 1_000_000)

    def leader() -> int:
        return observer.leaders()[PARTITION]

    sender.write(8)
    victim = leader()
    cluster.kill(victim)
    sender.check_repeated()
    cluster.start(victim)
    wait_until(observer.in_sync, "all replicas in sync")
    sender.write(3)
    victim = leader()
    cluster.terminate(victim)
    sender.check_repeated()
    cluster.start(victim)
    wait_until(observer.in_sync, "all replicas in sync")
    sender.write(2)
    for broker in range(3):
        cluster.kill(broker)
    for broker in range(3):
        cluster.start(broker)
    sender.check_repeated()
    sender.write(1)
    wait_until(observer.in_sync, "all replicas in sync")
    written = [value for _, value in read_log(cluster.bootstrap, observer.topic)[PARTITION]]
    assert written == [f"0:{sequence}" for sequence in range(14)]
