"""Records of `__consumer_offsets`: committed offsets and group metadata, each behind an int16 version.

The version of a key tells what the record is: 0 and 1 an offset, 2 a group, 3 to 8 parts of the groups of the new
protocol (KIP-848), which only KRaft clusters have: coordinators skip them. A record without value is a tombstone.

OffsetCommitValue
1   expiry time of this one offset; only this version has it. Kafka writes 1 when a commit brings a retention time
2   no expiry: the group's retention decides
3   leader epoch of the last consumed record
4   flexible; Kafka reads it and does not write it

GroupMetadataValue
1   rebalance timeout of members, which before was their session timeout
2   time of the last change of state, from which a group's offsets age
3   group instance ids
4   flexible; Kafka reads it and does not write it
"""

from odradek.protocol.fields import BYTES, INT32, INT64, STRING, Array, Message, Struct, field


class OffsetCommitKey(Message):
    VERSIONS = (0, 1)

    group: str = field(STRING, "0-1")
    topic: str = field(STRING, "0-1")
    partition: int = field(INT32, "0-1")


class OffsetCommitValue(Message):
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    offset: int = field(INT64, "0+")
    leader_epoch: int = field(INT32, "3+", default=-1)
    metadata: str = field(STRING, "0+")
    commit_timestamp: int = field(INT64, "0+")
    expire_timestamp: int = field(INT64, "1", default=-1)


class GroupMetadataKey(Message):
    VERSIONS = (2, 2)

    group: str = field(STRING, "2")


class ConsumerGroupKey(Message):
    """Key of a group's record, by version: 3 the group, 4 its partitions, 6 its target; the beginning of 5, 7 and 8."""

    VERSIONS = (3, 8)

    group_id: str = field(STRING, "3-8")


class ConsumerGroupMemberKey(Message):
    """Key of a member's record by version: 5 the member, 7 its target assignment, 8 its current one."""

    VERSIONS = (5, 8)

    group_id: str = field(STRING, "5-8")
    member_id: str = field(STRING, "5-8")


class MemberMetadata(Struct):
    member_id: str = field(STRING, "0+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    client_id: str = field(STRING, "0+")
    client_host: str = field(STRING, "0+")
    rebalance_timeout: int = field(INT32, "1+", default=-1)
    session_timeout: int = field(INT32, "0+")
    subscription: bytes = field(BYTES, "0+")
    assignment: bytes = field(BYTES, "0+")


class GroupMetadataValue(Message):
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    protocol_type: str = field(STRING, "0+")
    generation: int = field(INT32, "0+")
    protocol: str | None = field(STRING, "0+", nullable="0+")
    leader: str | None = field(STRING, "0+", nullable="0+")
    current_state_timestamp: int = field(INT64, "2+", default=-1)
    members: list[MemberMetadata] = field(Array(MemberMetadata), "0+")
