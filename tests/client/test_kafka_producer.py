"""KafkaProducer as an application sees it, on real sockets."""

from collections.abc import Sequence
from typing import Any

import pytest

from odradek.client.errors import ClientClosed, ClientError, ConfigError
from odradek.client.producer.client import KafkaProducer
from odradek.client.records import ConsumerGroupMetadata
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

PATIENCE_S = 10


@pytest.fixture
def broker(broker_on_loopback: Any) -> Any:
    """Takes everything, at offset 0."""
    one = PartitionProduceResponse(index=0, base_offset=0)
    answer = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[one])])
    broker_on_loopback.handlers |= {
        InitProducerIdRequest: lambda _: InitProducerIdResponse(producer_id=7),
        ProduceRequest: lambda _: answer,
    }
    return broker_on_loopback


def producer(broker: Any, **settings: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=f"127.0.0.1:{broker.port}", **settings)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"value": 1}, "value_serializer must give bytes, not int"),
        ({"value": b"", "headers": [("name", "text")]}, "a header is a text and bytes or None"),
        ({"value": b"", "headers": [(b"name", b"")]}, "a header is a text and bytes or None"),
        ({"value": b"", "timestamp_ms": -5}, "whole number of milliseconds"),
        ({"value": b"", "timestamp_ms": 0.5}, "whole number of milliseconds"),
    ],
)
def test_what_cannot_be_encoded_is_refused_at_once_and_is_in_nobodys_way(
    broker: Any, wrong: dict[str, Any], error: str
) -> None:
    """It was found on the producer's thread, whose request then had no end: the partition stood still."""
    with producer(broker, value_serializer=lambda value: value) as sending:
        with pytest.raises((TypeError, ConfigError), match=error):
            sending.send("t", **wrong)
        assert sending.send("t", b"good", headers=[("name", None)]).result(PATIENCE_S).offset == 0


def test_transactions_need_their_setting(broker: Any) -> None:
    with producer(broker) as sending:
        for call in (
            sending.init_transactions,
            sending.begin_transaction,
            sending.commit_transaction,
            sending.abort_transaction,
            lambda: sending.send_offsets_to_transaction({}, ConsumerGroupMetadata("g")),
        ):
            with pytest.raises(ClientError, match=r"_transactions?\(\) needs transactional\.id"):
                call()
    with pytest.raises(ClientClosed):
        sending.begin_transaction()


def test_a_record_before_the_first_transaction_is_refused(broker: Any) -> None:
    said = r"transactional\.id id: no send\(\) now: call init_transactions\(\) first"
    with producer(broker, transactional_id="id") as sending, pytest.raises(ClientError, match=said):
        sending.send("t", b"")


def test_a_partitioner_without_the_second_method_does_not_end_the_sending(broker: Any) -> None:
    class Half:
        def partition(self, topic: str, key: bytes | None, all_partitions: int, available: Sequence[int]) -> int:
            return 0

    with producer(broker, partitioner=Half()) as sending:
        for _ in range(3):
            assert sending.send("t", b"").result(PATIENCE_S).offset == 0


def test_a_callback_that_flushes_is_told_that_it_may_not(broker: Any) -> None:
    """It waited for itself, for ever."""
    heard: list[Exception] = []
    with producer(broker) as sending:

        def told(metadata: object, error: object) -> None:
            try:
                sending.flush(PATIENCE_S)
            except ClientError as refused:
                heard.append(refused)

        sending.send("t", b"", callback=told).result(PATIENCE_S)
    assert [str(one) for one in heard] == ["a callback may not flush: it would wait for itself"]
