"""Deletion of records up to an offset (KIP-107). Coroutines for the client's loop."""

from collections.abc import Mapping, Sequence

from odradek.client.calls import Deadline, ask_leaders
from odradek.client.cluster import Cluster
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)


async def delete_records(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], broker_id: int | None, deadline: Deadline
) -> dict[TopicPartition, int]:
    """Delete what is before these offsets (-1: everything); return where each log begins now. Raises KafkaError."""

    def request(asked: Sequence[TopicPartition]) -> DeleteRecordsRequest:
        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=number, offset=offsets[TopicPartition(topic, number)])
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(asked).items()
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=cluster.config.request_timeout_ms)

    return await ask_leaders(
        cluster,
        offsets,
        request,
        DeleteRecordsResponse,
        lambda answer: {
            TopicPartition(topic.name, one.partition_index): (one.error_code, one.low_watermark)
            for topic in answer.topics
            for one in topic.partitions
        },
        deadline,
        broker_id=broker_id,
    )
