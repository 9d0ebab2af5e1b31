"""Ends of leader epochs, asked of brokers that do not compare epochs in a Fetch (KIP-320). Pure."""

from collections.abc import Mapping

from odradek.client.consumer.fetching import CONSUMER_REPLICA_ID, Asked, FetchCall
from odradek.client.consumer.positions import Positions
from odradek.client.consumer.verdicts import AskAgain, Diverged, OutOfRange, Verdict
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

UNDEFINED = -1


def unvalidated(call: FetchCall, positions: Positions) -> dict[TopicPartition, Asked]:
    """Return those of a call's partitions that this leader has not confirmed, where an epoch is known to compare."""
    found = {}
    for topic_partition, asked in call.asked.items():
        state = positions.partitions.get(topic_partition)
        if state is not None and asked.last_epoch >= 0 and state.valid_in != asked.leader_epoch:
            found[topic_partition] = asked
    return found


def epochs_request(asked: Mapping[TopicPartition, Asked]) -> OffsetForLeaderEpochRequest:
    """Return the question where these partitions' last epochs end."""
    topics = [
        OffsetForLeaderTopic(
            topic=topic,
            partitions=[
                OffsetForLeaderPartition(
                    partition=number,
                    current_leader_epoch=asked[TopicPartition(topic, number)].leader_epoch,
                    leader_epoch=asked[TopicPartition(topic, number)].last_epoch,
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(asked).items()
    ]
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=topics)


def judge_epochs(
    asked: Mapping[TopicPartition, Asked], answer: OffsetForLeaderEpochResponse
) -> dict[TopicPartition, Verdict | None]:
    """Return what an answer means for its partitions: None for one that is confirmed (Java: maybeCompleteValidation).

    A partition whose epoch the leader does not know is out of range: everything it had is gone.
    """
    verdicts: dict[TopicPartition, Verdict | None] = {}
    for topic in answer.topics:
        for one in topic.partitions:
            topic_partition = TopicPartition(topic.topic, one.partition)
            question = asked.get(topic_partition)
            if question is None:
                continue
            error = error_code(one.error_code)
            if error != ErrorCode.NONE:
                verdicts[topic_partition] = AskAgain(error)
            elif UNDEFINED in (one.end_offset, one.leader_epoch):
                verdicts[topic_partition] = OutOfRange()
            elif one.end_offset < question.offset or one.leader_epoch < question.last_epoch:
                verdicts[topic_partition] = Diverged(min(one.end_offset, question.offset), one.leader_epoch)
            else:
                verdicts[topic_partition] = None
    return verdicts
