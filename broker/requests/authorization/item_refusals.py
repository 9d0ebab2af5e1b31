"""Refusals of single resources that a request names, while others of it are handled.

Source: the handlers of KafkaApis of Kafka 3.9.
"""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import (
    create_partitions,
    delete_groups,
    delete_records,
    describe_groups,
    describe_producers,
    describe_transactions,
    list_offsets,
    offset_commit,
    offset_delete,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
)


def of_produced_topic(topic: produce.TopicProduceData, error: ErrorCode) -> produce.TopicProduceResponse:
    """Return the error for each partition."""
    return produce.TopicProduceResponse(
        name=topic.name,
        partition_responses=[
            produce.PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)
            for data in topic.partition_data
        ],
    )


def of_listed_topic(topic: list_offsets.ListOffsetsTopic, error: ErrorCode) -> list_offsets.ListOffsetsTopicResponse:
    """Return the error for each partition."""
    return list_offsets.ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            list_offsets.ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=error)
            for one in topic.partitions
        ],
    )


def of_committed_topic(
    topic: offset_commit.OffsetCommitRequestTopic, error: ErrorCode
) -> offset_commit.OffsetCommitResponseTopic:
    """Return the error for each partition."""
    return offset_commit.OffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            offset_commit.OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
            for one in topic.partitions
        ],
    )


def of_transaction_topic(
    topic: txn_offset_commit.TxnOffsetCommitRequestTopic, error: ErrorCode
) -> txn_offset_commit.TxnOffsetCommitResponseTopic:
    """Return the error for each partition."""
    return txn_offset_commit.TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            txn_offset_commit.TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
            for one in topic.partitions
        ],
    )


def of_epoch_topic(
    topic: offset_for_leader_epoch.OffsetForLeaderTopic, error: ErrorCode
) -> offset_for_leader_epoch.OffsetForLeaderTopicResult:
    """Return the error for each partition."""
    return offset_for_leader_epoch.OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            offset_for_leader_epoch.EpochEndOffset(partition=one.partition, error_code=error)
            for one in topic.partitions
        ],
    )


def of_deleted_records(
    topic: delete_records.DeleteRecordsTopic, error: ErrorCode
) -> delete_records.DeleteRecordsTopicResult:
    """Return the error for each partition."""
    return delete_records.DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            delete_records.DeleteRecordsPartitionResult(
                partition_index=one.partition_index, low_watermark=-1, error_code=error
            )
            for one in topic.partitions
        ],
    )


def of_deleted_offsets(
    topic: offset_delete.OffsetDeleteRequestTopic, error: ErrorCode
) -> offset_delete.OffsetDeleteResponseTopic:
    """Return the error for each partition."""
    return offset_delete.OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            offset_delete.OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=error)
            for one in topic.partitions
        ],
    )


def of_producers(topic: describe_producers.TopicRequest, error: ErrorCode) -> describe_producers.TopicResponse:
    """Return the error for each partition."""
    return describe_producers.TopicResponse(
        name=topic.name,
        partitions=[
            describe_producers.PartitionResponse(partition_index=index, error_code=error)
            for index in topic.partition_indexes
        ],
    )


def of_new_partitions(
    topic: create_partitions.CreatePartitionsTopic, error: ErrorCode
) -> create_partitions.CreatePartitionsTopicResult:
    """Return the error, and Kafka's sentence."""
    return create_partitions.CreatePartitionsTopicResult(
        name=topic.name, error_code=error, error_message="The topic authorization is failed."
    )


def of_described_group(group_id: str, error: ErrorCode) -> describe_groups.DescribedGroup:
    """Return the error, and nothing of the group."""
    return describe_groups.DescribedGroup(group_id=group_id, error_code=error)


def of_deleted_group(group_id: str, error: ErrorCode) -> delete_groups.DeletableGroupResult:
    """Return the error."""
    return delete_groups.DeletableGroupResult(group_id=group_id, error_code=error)


def of_transaction(transactional_id: str, error: ErrorCode) -> describe_transactions.TransactionState:
    """Return the error, and nothing of the transaction."""
    return describe_transactions.TransactionState(transactional_id=transactional_id, error_code=error)
