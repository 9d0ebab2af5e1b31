"""Batches that a broker refuses because of some of their records (KIP-467)."""

from typing import Any

import pytest

from odradek.aio import Admin, Producer
from odradek.client.admin.values import NewTopic
from odradek.client.errors import BatchRefused, ClientError, in_words
from odradek.client.producer.produce_requests import read_answers
from odradek.client.producer.sender import Answer, refusal
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.testing import run
from odradek.testing.virtual_run import VirtualCluster

T0 = TopicPartition("t", 0)


def test_each_record_gets_its_own_error() -> None:
    """All got that of the whole batch, which does not say whose fault it was: those that others took down with them can
    be sent again."""

    async def main(cluster: VirtualCluster) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.create_topics([NewTopic("t", 1, 1, configs={"cleanup.policy": "compact"})])
        heard: list[tuple[int, Exception | None]] = []
        async with Producer(bootstrap_servers=cluster.bootstrap, linger_ms=100) as producer:
            futures = [
                await producer.send(
                    "t", b"v", key, callback=lambda metadata, error, number=number: heard.append((number, error))
                )
                for number, key in enumerate([b"a", None, b"b"])
            ]
            raised = []
            for one in futures:
                with pytest.raises(KafkaError) as caught:
                    await one
                raised.append(caught.value)
            errors = [one.exception(0) for one in futures]
            late: list[Exception] = []
            futures[1].add_errback(late.append)
        assert raised == errors
        assert heard == list(enumerate(errors))
        assert late == [errors[1]]
        assert isinstance(errors[1], KafkaError) and errors[1].code is ErrorCode.INVALID_RECORD
        assert "t-0: Compacted topic cannot accept message without key" in str(errors[1])
        for other in (errors[0], errors[2]):
            assert isinstance(other, ClientError), other
            assert "its batch has records that the broker refuses" in str(other)

    run(main, brokers=1)


def answer(code: ErrorCode, text: str | None, records: dict[int, str | None]) -> Answer:
    named = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
        for index, message in records.items()
    ]
    one = PartitionProduceResponse(index=0, error_code=code, error_message=text, record_errors=named)
    response = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[one])])
    return read_answers(response)[T0]


@pytest.mark.parametrize(
    ("code", "text", "records", "expected"),
    [
        (ErrorCode.INVALID_TIMESTAMP, None, {1: "late"}, {1: (ErrorCode.INVALID_TIMESTAMP, "t-0: late")}),
        (
            ErrorCode.INVALID_TIMESTAMP,
            "several",
            {0: "late", 2: None},
            {0: (ErrorCode.INVALID_RECORD, "t-0: late"), 2: (ErrorCode.INVALID_RECORD, "t-0: several")},
        ),
        (
            ErrorCode.INVALID_RECORD,
            None,
            {0: None},
            {0: (ErrorCode.INVALID_RECORD, f"t-0: {in_words(ErrorCode.INVALID_RECORD)}")},
        ),
    ],
)
def test_a_record_is_told_the_most_that_is_known_of_it(
    code: ErrorCode, text: str | None, records: dict[int, str | None], expected: dict[int, Any]
) -> None:
    """As SenderTest.testRecordErrorPropagatedToApplication has it: of several records the code is not known."""
    error = refusal(T0, answer(code, text, records))
    assert isinstance(error, BatchRefused) and error.code is code
    found = {index: error.of_record(index) for index in range(3)}
    assert {i: (one.code, one.message) for i, one in found.items() if not isinstance(one, ClientError)} == expected
    assert type(refusal(T0, answer(code, text, {}))) is KafkaError
