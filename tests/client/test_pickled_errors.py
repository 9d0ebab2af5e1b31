"""Errors reach another process whole, as from a pool's worker, and from Spark's executors to its driver."""

import copy
import pickle

import pytest

from odradek.client import errors
from odradek.client.original.messages import KeyedMessage
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError

AT = TopicPartition("flights", 3)
ERRORS: list[KafkaError] = [
    KafkaError(ErrorCode.NOT_CONTROLLER, "ask another"),
    errors.ConfigError("no such setting", setting="linger.ms"),
    errors.BrokerUnreachable("kafka:9092", "refused", login_refused=True),
    errors.NoBrokerReachable({"kafka:9092": "refused", "other:9092": "no route"}),
    errors.RequestTimedOut("kafka:9092", "no answer"),
    errors.ClientTimeout("not done within 5 ms", topic_partition=AT, offset=7),
    errors.BatchRefused(ErrorCode.INVALID_RECORD, "bad", AT, {1: "no key"}),
    errors.DeserializationError("not JSON", topic_partition=AT, offset=7, next_offset=8),
    errors.AbortRequired("id", errors.BrokerUnreachable("kafka:9092", "refused")),
    errors.LogTruncated(AT, 9, 5),
    errors.FailedToSendMessage([(KeyedMessage("flights", "x"), errors.RequestTimedOut("kafka:9092", "no answer"))]),
]


def pickled(error: KafkaError) -> KafkaError:
    found = pickle.loads(pickle.dumps(error))
    assert isinstance(found, KafkaError)
    return found


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "through", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy], ids=["pickle", "copy"]
)
def test_an_error_is_the_same_afterwards(error: KafkaError, through: object) -> None:
    assert callable(through)
    found = through(error)
    assert type(found) is type(error) and str(found) == str(error)
    assert (found.code, found.topic, found.partition, found.offset) == (
        error.code,
        error.topic,
        error.partition,
        error.offset,
    )
    assert found.__dict__.keys() == error.__dict__.keys()
    assert (found.retriable, found.fatal, found.requires_abort) == (error.retriable, error.fatal, error.requires_abort)


def test_what_is_inside_comes_with_it() -> None:
    refused = pickle.loads(pickle.dumps(errors.BatchRefused(ErrorCode.INVALID_RECORD, "bad", AT, {1: "no key"})))
    assert str(refused.of_record(1)) == "INVALID_RECORD: flights-3: no key"
    assert "its batch has records that the broker refuses" in str(refused.of_record(0))
    unreachable = pickle.loads(pickle.dumps(errors.BrokerUnreachable("kafka:9092", "refused")))
    assert (unreachable.address, unreachable.reason) == ("kafka:9092", "refused")
