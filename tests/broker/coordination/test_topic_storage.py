"""A coordinator's writing to its partitions."""

import logging
from typing import Any

import pytest

from odradek.broker.coordination.topic_storage import ALL, LEADER_ALONE, ReplicatedTopicStorage
from odradek.broker.log.batches import Origin
from odradek.protocol.errors import ErrorCode, KafkaError


class Replicas:
    """A replica manager whose appends are replicated when the test says so."""

    def __init__(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.error = error
        self.waiting: list[Any] = []
        self.appended: list[Any] = []

    def led(self, topic, index):
        if self.error is not ErrorCode.NONE:
            raise KafkaError(self.error)
        return topic, index

    def append(self, partition, records, acks, origin):
        self.appended.append((partition, acks, origin))

    def append_and_wait(self, partition, records, timeout_ms, done):
        self.append(partition, records, ALL, Origin.COORDINATOR)
        self.waiting.append(done)


def fail(error: ErrorCode) -> None:
    raise ZeroDivisionError("a bug of ours")


def test_what_fails_behind_an_append_does_not_reach_whoever_replicated_it(caplog) -> None:
    replicas: Any = Replicas()
    ReplicatedTopicStorage(replicas, "__consumer_offsets").append(3, bytearray(), 0, fail)
    with caplog.at_level(logging.ERROR):
        replicas.waiting[0](ErrorCode.NONE)  # called by the follower's connection
    assert "__consumer_offsets-3" in caplog.text and "a bug of ours" in caplog.text


@pytest.mark.parametrize("acks", [1, 0])
def test_fewer_acknowledgements_may_be_enough(acks: int) -> None:
    replicas: Any = Replicas()
    answers: list[ErrorCode] = []
    ReplicatedTopicStorage(replicas, "__consumer_offsets", acks).append(3, bytearray(), 0, answers.append)
    assert answers == [ErrorCode.NONE]
    assert replicas.appended == [(("__consumer_offsets", 3), acks, Origin.COORDINATOR)]


def test_what_need_not_wait_is_written_however_few_are_in_sync() -> None:
    replicas: Any = Replicas()
    assert ReplicatedTopicStorage(replicas, "__consumer_offsets").append_alone(3, bytearray()) is ErrorCode.NONE
    assert replicas.appended == [(("__consumer_offsets", 3), LEADER_ALONE, Origin.COORDINATOR)]
    assert not replicas.waiting


def test_what_is_not_led_is_refused() -> None:
    answers: list[ErrorCode] = []
    replicas: Any = Replicas(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    storage = ReplicatedTopicStorage(replicas, "__consumer_offsets")
    storage.append(3, bytearray(), 0, answers.append)
    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert storage.append_alone(3, bytearray()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
