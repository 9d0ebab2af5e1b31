"""Produce on the wire: turns a call into a request, and a response into answers by partition. No I/O."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.client.errors import ClientError
from odradek.client.offsets import by_topic
from odradek.client.producer.batch import ProducerBatch
from odradek.client.producer.sender import Answer, ProduceCall
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.protocol.records import encode_batch


def same_answer(call: ProduceCall, error: ErrorCode, message: str = "") -> dict[TopicPartition, Answer]:
    """Return one and the same answer for every batch of a call."""
    return {batch.topic_partition: Answer(error, message=message) for batch in call.batches}


class Compression(NamedTuple):
    """Codec and level by which batches are compressed."""

    codec: int
    """Number of the codec in Kafka's protocol; 0 is none."""
    level: int | None = None
    """Level of a codec that has levels; None is the codec's default."""


def local_failure(batch: ProducerBatch, fault: Exception, *, unsent: bool) -> Answer:
    """Return the answer for a batch that a fault in this process has stopped."""
    failure = ClientError(f"{batch.topic_partition}: {len(batch)} record(s) not sent: {type(fault).__name__}: {fault}")
    failure.__cause__ = fault
    return Answer(ErrorCode.UNKNOWN_SERVER_ERROR, failure=failure, unsent=unsent)


def encode_all(
    batches: Iterable[ProducerBatch], compression: Compression, *, transactional: bool
) -> tuple[dict[TopicPartition, bytearray], dict[TopicPartition, Answer]]:
    """Return the bytes of batches, and answers for those that cannot be encoded, without which the others are sent."""
    encoded: dict[TopicPartition, bytearray] = {}
    failed: dict[TopicPartition, Answer] = {}
    for batch in batches:
        try:
            encoded[batch.topic_partition] = encode(batch, compression, transactional=transactional)
        except Exception as fault:  # noqa: BLE001 - a codec that fails, a number that no field takes
            failed[batch.topic_partition] = local_failure(batch, fault, unsent=True)
    return encoded, failed


def produce_request(
    encoded: Mapping[TopicPartition, bytearray], acks: int, timeout_ms: int, transactional_id: str | None = None
) -> ProduceRequest:
    """Return one request with these batches; with a `transactional_id` they belong to its transaction."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=number, records=encoded[TopicPartition(topic, number)])
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(encoded).items()
        ],
    )


def encode(batch: ProducerBatch, compression: Compression, *, transactional: bool = False) -> bytearray:
    """Encode a batch, with its sequence if it has one."""
    return encode_batch(
        0,
        batch.timestamps_ms,
        batch.keys,
        batch.values,
        batch.headers if any(batch.headers) else None,
        codec=compression.codec,
        level=compression.level,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=transactional,
    )


def read_answers(response: ProduceResponse) -> dict[TopicPartition, Answer]:
    """Return a broker's answer for each batch."""
    answers: dict[TopicPartition, Answer] = {}
    for topic in response.responses:
        for one in topic.partition_responses:
            reasons = {reason.batch_index: reason.batch_index_error_message or "" for reason in one.record_errors}
            answers[TopicPartition(topic.name, one.index)] = Answer(
                error_code(one.error_code),
                one.base_offset,
                one.log_append_time_ms,
                one.error_message or "",
                reasons=reasons,
            )
    return answers
