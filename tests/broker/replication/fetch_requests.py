"""Fetch requests of two topics, by a consumer or a follower."""

from odradek.broker.cluster.metadata_cache import TopicNames
from odradek.broker.replication.fetch_sessions import OpenedFetch
from odradek.protocol.messages.fetch import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

A_ID, B_ID, C_ID = b"a" * 16, b"b" * 16, b"c" * 16
NAMES = TopicNames({"a": A_ID, "b": B_ID}, {A_ID: "a", B_ID: "b"})
BY_ID, BY_NAME = FIRST_VERSION_WITH_TOPIC_IDS, FIRST_VERSION_WITH_TOPIC_IDS - 1
LEADER, FOLLOWER = 1, 0
CONSUMER = ReplicaState(replica_id=-1, replica_epoch=-1)
AS_FOLLOWER = ReplicaState(replica_id=FOLLOWER, replica_epoch=9)


def request(
    *partitions: tuple[bytes, int, int],
    session: int = 0,
    epoch: int = 0,
    forgotten: tuple[tuple[bytes, int], ...] = (),
    replica: ReplicaState = CONSUMER,
) -> FetchRequest:
    return FetchRequest(
        replica_state=replica,
        session_id=session,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic=NAMES.names_by_id.get(topic_id, "?"),
                topic_id=topic_id,
                partitions=[FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)],
            )
            for topic_id, index, offset in partitions
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic=NAMES.names_by_id[topic_id], topic_id=topic_id, partitions=[index])
            for topic_id, index in forgotten
        ],
    )


def asked(opened: OpenedFetch) -> list[tuple[str, int, int]]:
    return [(wanted.topic, wanted.index, wanted.fetch_offset) for wanted in opened.partitions]
