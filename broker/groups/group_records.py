"""Keys and values of the records in `__consumer_offsets`, between bytes and what the coordinator works with.

Written as Kafka 3.9 writes them: for an offset key 1 with value 3 (value 1 when the client asked for a retention),
for a group key 2 with value 3. All versions are read; a key of a later version is skipped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from odradek.broker.coordination.owned_partitions import SkippedRecords
from odradek.broker.groups.group_metadata import GroupMetadata, GroupState, Member
from odradek.broker.groups.group_offsets import NO_EXPIRY, CommittedOffset, OffsetTable
from odradek.protocol.codec import decode_versioned, encode_versioned, version_of
from odradek.protocol.control_records import ControlType, control_type
from odradek.protocol.conversion import has_messages, to_batches
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.primitives import Buffer
from odradek.protocol.record_batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    batches,
    check_crc,
)
from odradek.protocol.records import Columns, decode_records, encode_batch
from odradek.protocol.steps import Steps
from odradek.protocol.topic_names import PartitionKey

OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION = 3
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3

TOMBSTONE_BATCH_BYTES: Final = 64 * 1024
"""Most bytes of keys in one batch of tombstones, which is then below any reasonable max.message.bytes."""

Record: TypeAlias = tuple[bytes, bytes | None]
"""Key and value; a record without a value is a tombstone."""

NOT_MADE: Final[Mapping[PartitionKey, Record]] = MappingProxyType({})
"""No records that were made before."""


class OffsetKey(NamedTuple):
    """The key of a committed offset."""

    group_id: str
    partition: PartitionKey


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
    """Make one batch of at least one record, as the leader appends it (`offsets.topic.compression.codec`).

    With a producer, the batch is part of its transaction; as in Kafka it has the sequence 0, which means nothing.
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


def offset_key(group_id: str, partition: PartitionKey) -> bytes:
    """Return the key of the group's offset for a partition."""
    topic, index = partition
    return encode_versioned(OffsetCommitKey(group=group_id, topic=topic, partition=index), OFFSET_KEY_VERSION)


def offset_value(committed: CommittedOffset) -> bytes:
    """Return the value of a committed offset."""
    has_expiry = committed.expire_timestamp_ms != NO_EXPIRY
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
    )
    return encode_versioned(value, OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else OFFSET_VALUE_VERSION)


def offset_record(group_id: str, partition: PartitionKey, committed: CommittedOffset) -> Record:
    """Return the record of a committed offset."""
    return offset_key(group_id, partition), offset_value(committed)


def offset_records(group_id: str, offsets: Mapping[PartitionKey, CommittedOffset]) -> Steps[dict[PartitionKey, Record]]:
    """Return the records of many committed offsets, made in steps."""
    records = {}
    for at, committed in offsets.items():
        records[at] = offset_record(group_id, at, committed)
        yield
    return records


def offset_tombstone(group_id: str, partition: PartitionKey) -> Record:
    """Return the record by which a committed offset is forgotten."""
    return offset_key(group_id, partition), None


def offset_tombstones(group_id: str, partitions: Iterable[PartitionKey]) -> Steps[dict[PartitionKey, Record]]:
    """Return the tombstones of many committed offsets, made in steps."""
    tombstones = {}
    for at in partitions:
        tombstones[at] = offset_tombstone(group_id, at)
        yield
    return tombstones


def batches_of_tombstones(tombstones: Iterable[Record]) -> Iterator[list[Record]]:
    """Part tombstones, in their order, into batches whose keys have up to TOMBSTONE_BATCH_BYTES, or one key."""
    some: list[Record] = []
    size = 0
    for key, value in tombstones:
        size += len(key)
        if some and size > TOMBSTONE_BATCH_BYTES:
            yield some
            some, size = [], len(key)
        some.append((key, value))
    if some:
        yield some


def group_key(group_id: str) -> bytes:
    """Return the key of a group's metadata."""
    return encode_versioned(GroupMetadataKey(group=group_id), GROUP_KEY_VERSION)


def group_value(group: GroupMetadata, assignment: dict[str, bytes]) -> bytes:
    """Make the value of a group's metadata: members with their metadata for the chosen protocol and assignments."""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name or ""),
            assignment=assignment[member.member_id],
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=members,
    )
    return encode_versioned(value, GROUP_VALUE_VERSION)


def read_key(data: Buffer) -> OffsetKey | GroupKey | None:
    """Return what a key names; None for a version that is newer than this program. Raises MalformedMessage."""
    version = version_of(data)
    if version <= OFFSET_KEY_VERSION:
        key = decode_versioned(OffsetCommitKey, data)[1]
        return OffsetKey(key.group, (key.topic, key.partition))
    if version == GROUP_KEY_VERSION:
        return GroupKey(decode_versioned(GroupMetadataKey, data)[1].group)
    return None


def read_offset(data: Buffer) -> CommittedOffset:
    """Return the value of a committed offset. Raises MalformedMessage."""
    value = decode_versioned(OffsetCommitValue, data)[1]
    return CommittedOffset(
        offset=value.offset,
        commit_timestamp_ms=value.commit_timestamp,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        expire_timestamp_ms=value.expire_timestamp,
    )


def read_group(group_id: str, data: Buffer) -> GroupMetadata:
    """Decode the value of a group's metadata: a stable group, or an empty one without members.

    Raises MalformedMessage, also when a member or a `group.instance.id` is there twice. The first member leads a group
    whose leader is none of them.
    """
    version, value = decode_versioned(GroupMetadataValue, data)
    member_ids = [member.member_id for member in value.members]
    instance_ids = [one.group_instance_id for one in value.members if one.group_instance_id is not None]
    if len(set(member_ids)) != len(member_ids) or len(set(instance_ids)) != len(instance_ids):
        raise MalformedMessage(f"group {group_id}: a member is there twice")
    group = GroupMetadata(
        group_id=group_id,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        state_since_ms=value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader=value.leader if value.leader in member_ids else None,
    )
    for member in value.members:
        rebalance_timeout_ms = member.session_timeout if version == 0 else member.rebalance_timeout
        group.add(
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
    group.refresh_subscribed_topics()
    return group


RECORDS_PER_STEP = 100


class GroupReplay:
    """Groups and offsets after the batches seen so far. `next_offset` is that of the first record not seen yet."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.skipped = SkippedRecords()
        self._groups: dict[str, GroupMetadata] = {}
        self._offsets: dict[str, OffsetTable] = {}
        self._transactions: dict[int, set[str]] = {}
        """Groups that an open transaction has commits for, by producer id."""

    def steps(self, data: Buffer) -> Iterator[None]:
        """Take in the whole batches of `data`, pausing after every few records. Raises MalformedMessage for a damaged
        batch: none of its commits is believed when its checksum is wrong (Kafka does not look at it)."""
        if has_messages(data):  # of an older Kafka's directory
            data = b"".join(to_batches(data, compressed=False))
        for position, header in batches(data, allow_partial_tail=True):
            check_crc(data, position, header)
            records = decode_records(data, position)
            if header.is_control:
                self._control(header, records)
            else:
                yield from self._records(header, records)
            self.next_offset = header.next_offset
            yield

    def results(self) -> Iterator[tuple[GroupMetadata, OffsetTable]]:
        """Yield every group that is left; a group that has only offsets is empty, and without a protocol."""
        for group_id, group in self._groups.items():
            yield group, self._offsets.pop(group_id, OffsetTable())
        for group_id, offsets in self._offsets.items():
            if not offsets.is_empty():
                yield GroupMetadata(group_id), offsets

    def _records(self, header: BatchHeader, records: Columns) -> Iterator[None]:
        for index, (key, value) in enumerate(zip(records.keys, records.values, strict=True)):
            try:
                self._record(header, key, value)
            except MalformedMessage as error:
                self.skipped.add(records.offsets[index], error)
            if index % RECORDS_PER_STEP == RECORDS_PER_STEP - 1:
                yield

    def _record(self, header: BatchHeader, key: bytes | None, value: bytes | None) -> None:
        """Take in one record. Raises MalformedMessage, and then nothing has changed."""
        if key is None:
            raise MalformedMessage("no key")
        named = read_key(key)
        if isinstance(named, OffsetKey):
            self._offset(header, named, value)
        elif isinstance(named, GroupKey):
            self._group(named.group_id, value)

    def _offset(self, header: BatchHeader, key: OffsetKey, value: bytes | None) -> None:
        committed = None if value is None else read_offset(value)
        table = self._offsets.setdefault(key.group_id, OffsetTable())
        if header.is_transactional:
            self._transactions.setdefault(header.producer_id, set()).add(key.group_id)
            table.load_transactional(header.producer_id, key.partition, committed, header.base_offset)
        elif committed is None:
            table.remove([key.partition])
        else:
            table.load(key.partition, committed, header.base_offset)

    def _group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self._groups.pop(group_id, None)
        else:
            self._groups[group_id] = read_group(group_id, value)

    def _control(self, header: BatchHeader, records: Columns) -> None:
        if not records.keys:
            return  # emptied by compaction
        kind = control_type(records.keys[0])
        if kind is None:
            return
        for group_id in self._transactions.pop(header.producer_id, ()):
            offsets = self._offsets[group_id]
            marker = offsets.close_transaction(header.producer_id, committed=kind is ControlType.COMMIT)
            offsets.end_transactions(header.producer_id, marker)
