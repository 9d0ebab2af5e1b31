"""The requests of a transaction, and what an answer's error means for it. No I/O."""

from collections.abc import Collection, Mapping
from enum import Enum

from odradek.client.errors import CommitFailed, in_words
from odradek.client.offsets import by_topic
from odradek.client.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import RETRIABLE, ErrorCode, KafkaError, error_code
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

ADD_PARTITIONS_HIGHEST_VERSION = 3
"""Highest version for clients: those above are for brokers among themselves (KIP-890)."""

CURRENT_PRODUCER_SINCE = 3
"""First version of InitProducerId that has the producer's present epoch. Without that, a fenced producer which asks for
a higher epoch would get one and fence its successor (KIP-360)."""
MEMBER_SINCE = 3
"""First version of TxnOffsetCommit with the member's generation. Older ones commit offsets of partitions that the
member has lost (KIP-447)."""

Producer = tuple[int, int]
"""Id and epoch of a producer."""


class Verdict(Enum):
    """What an error asks for: AGAIN, repeat the request; ABORT, abort the transaction; CLOSE, close the producer."""

    AGAIN = 1
    ABORT = 2
    CLOSE = 3


COORDINATOR_MOVED = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION}
)
"""Errors after which the coordinator is looked for before asking again."""
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
"""Errors of a coordinator that mean the same: versions without PRODUCER_FENCED have the second (KIP-588)."""
FATAL = FENCED | {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
}
FATAL_FOR_BATCHES = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Errors of a leader after which the producer is of no use. INVALID_PRODUCER_EPOCH is not among them: whether the
producer is fenced the coordinator says at the abort (KIP-588)."""
FORGOTTEN = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID})
"""Errors for a producer id that brokers have forgotten, unused for transactional.id.expiration.ms: the abort gets a new
identity (KIP-360)."""
MEMBERSHIP_LOST = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


def verdict(error: ErrorCode) -> Verdict:
    """Judge an error of a request in an open transaction (TransactionManager's handlers of Kafka 3.9)."""
    if error in RETRIABLE:
        return Verdict.AGAIN
    return Verdict.CLOSE if error in FATAL else Verdict.ABORT


def failure(transactional_id: str, error: ErrorCode, what: str) -> Exception:
    """Return the exception that the application gets for an error of `what`."""
    if error in FENCED:
        said = f"transactional.id {transactional_id}: {what}: another producer has taken over this id, or the "
        said += "transaction took longer than transaction.timeout.ms; close this producer"
        return KafkaError(ErrorCode.PRODUCER_FENCED, said)
    if error in MEMBERSHIP_LOST:
        return CommitFailed(f"{what} ({error.name}): the group rebalances or has moved on; poll again after the abort")
    return KafkaError(error, f"transactional.id {transactional_id}: {what}: {in_words(error)}")


def add_partitions_request(
    transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Return an AddPartitionsToTxn in the form of versions 0 to 3, which clients send."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=numbers)
            for topic, numbers in by_topic(sorted(partitions)).items()
        ],
    )


def add_partitions_errors(answer: AddPartitionsToTxnResponse) -> dict[TopicPartition, ErrorCode]:
    """Return the errors of partitions that were not added; OPERATION_NOT_ATTEMPTED: another partition was refused."""
    return {
        TopicPartition(topic.name, one.partition_index): error_code(one.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for one in topic.results_by_partition
        if one.partition_error_code
    }


def add_offsets_request(transactional_id: str, producer: Producer, group_id: str) -> AddOffsetsToTxnRequest:
    """Return an AddOffsetsToTxn, which makes the group's offsets part of the transaction."""
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id=group_id
    )


def end_request(transactional_id: str, producer: Producer, *, commit: bool) -> EndTxnRequest:
    """Return an EndTxn, which commits or aborts."""
    return EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=commit
    )


def offset_commit_request(
    transactional_id: str,
    producer: Producer,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: ConsumerGroupMetadata,
) -> TxnOffsetCommitRequest:
    """Return a TxnOffsetCommit on behalf of the group's member that `group` names (KIP-447)."""
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[_offset(number, offsets[TopicPartition(topic, number)]) for number in numbers],
            )
            for topic, numbers in by_topic(offsets).items()
        ],
    )


def _offset(number: int, position: OffsetAndMetadata) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        committed_metadata=position.metadata,
    )


def offset_commit_errors(answer: TxnOffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
    """Return the errors of offsets that were not committed."""
    return {
        TopicPartition(topic.name, one.partition_index): error_code(one.error_code)
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code
    }


def worst(errors: Collection[ErrorCode]) -> ErrorCode:
    """Return the error with the gravest verdict; NONE when there is none."""
    said = [error for error in errors if error is not ErrorCode.OPERATION_NOT_ATTEMPTED]
    return max(said, key=lambda error: verdict(error).value, default=ErrorCode.NONE)
