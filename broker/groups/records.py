"""Keys and values of the records in `__consumer_offsets`, between bytes and what the coordinator works with.

Written as Kafka 3.9 writes them: for an offset key 1 with value 3 (value 1 when the client asked for a retention),
for a group key 2 with value 3. All versions are read; a key of a later version is skipped.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from odradek.broker.groups.offsets import NO_EXPIRY, CommittedOffset, TopicPartition
from odradek.broker.groups.roster import Member, Roster
from odradek.broker.groups.states import GroupState
from odradek.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.primitives import Buffer
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from odradek.protocol.records import encode_batch
from odradek.protocol.versioned import decode_versioned, encode_versioned, version_of

OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION = 3
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3

Record: TypeAlias = tuple[bytes, bytes | None]
"""Key and value; a record without a value is a tombstone."""


class OffsetKey(NamedTuple):
    """The key of a committed offset."""

    group_id: str
    partition: TopicPartition


class GroupKey(NamedTuple):
    """The key of a group's metadata."""

    group_id: str


def batch_of(
    records: Sequence[Record],
    now_ms: int,
    codec: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytearray:
    """One batch of at least one record, as the leader appends it (`offsets.topic.compression.codec`).

    With a producer, it is part of that one's transaction; as Kafka writes it, with sequence 0, which means nothing.
    """
    transactional = producer_id != NO_PRODUCER_ID
    return encode_batch(
        0,
        [now_ms] * len(records),
        [key for key, _ in records],
        [value for _, value in records],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=0 if transactional else NO_SEQUENCE,
        transactional=transactional,
    )


def offset_key(group_id: str, partition: TopicPartition) -> bytes:
    """The key of the group's offset for a partition."""
    topic, index = partition
    return encode_versioned(OffsetCommitKey(group=group_id, topic=topic, partition=index), OFFSET_KEY_VERSION)


def offset_value(committed: CommittedOffset) -> bytes:
    """The value of a committed offset."""
    has_expiry = committed.expire_timestamp_ms != NO_EXPIRY
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
    )
    return encode_versioned(value, OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else OFFSET_VALUE_VERSION)


def group_key(group_id: str) -> bytes:
    """The key of a group's metadata."""
    return encode_versioned(GroupMetadataKey(group=group_id), GROUP_KEY_VERSION)


def group_value(roster: Roster, assignment: dict[str, bytes]) -> bytes:
    """The value of a group's metadata: its members with the metadata of the chosen protocol and these assignments."""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(roster.protocol_name or ""),
            assignment=assignment[member.member_id],
        )
        for member in roster.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=roster.protocol_type or "",
        generation=roster.generation,
        protocol=roster.protocol_name,
        leader=roster.leader,
        current_state_timestamp=roster.state_since_ms,
        members=members,
    )
    return encode_versioned(value, GROUP_VALUE_VERSION)


def read_key(data: Buffer) -> OffsetKey | GroupKey | None:
    """What a key names; None for a version that is newer than this program. Raises MalformedMessage."""
    version = version_of(data)
    if version <= OFFSET_KEY_VERSION:
        key = decode_versioned(OffsetCommitKey, data)[1]
        return OffsetKey(key.group, (key.topic, key.partition))
    if version == GROUP_KEY_VERSION:
        return GroupKey(decode_versioned(GroupMetadataKey, data)[1].group)
    return None


def read_offset(data: Buffer) -> CommittedOffset:
    """The value of a committed offset. Raises MalformedMessage."""
    value = decode_versioned(OffsetCommitValue, data)[1]
    return CommittedOffset(
        offset=value.offset,
        commit_timestamp_ms=value.commit_timestamp,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        expire_timestamp_ms=value.expire_timestamp,
    )


def read_group(group_id: str, data: Buffer) -> Roster:
    """The value of a group's metadata: a stable group, or an empty one without members. Raises MalformedMessage."""
    version, value = decode_versioned(GroupMetadataValue, data)
    roster = Roster(
        group_id=group_id,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        state_since_ms=value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader=value.leader,
    )
    for member in value.members:
        rebalance_timeout_ms = member.session_timeout if version == 0 else member.rebalance_timeout
        roster.add(
            Member(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout,
                protocol_type=value.protocol_type,
                protocols=((value.protocol or "", member.subscription),),
                assignment=member.assignment,
            )
        )
    roster.refresh_subscribed_topics()
    return roster
