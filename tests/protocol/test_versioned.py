"""Golden bytes of records that Kafka writes to its own topics, and of the consumers' own protocol.

Written by hand; Kafka's own are in tests/broker/log/test_kafkas_records.py.
"""

import pytest

from odradek.protocol.codec import decode_growing, decode_versioned, encode_versioned, version_of
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import Message
from odradek.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from odradek.protocol.messages.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue

TIME = 0x0000018F_00000000
MEMBER = MemberMetadata(
    member_id="m", client_id="c", client_host="/1", rebalance_timeout=5, session_timeout=6, subscription=b"s"
)
GOLDEN: list[tuple[Message, int, str]] = [
    (OffsetCommitKey(group="g", topic="t", partition=3), 1, "0001 0001 67 0001 74 00000003"),
    (
        OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=TIME),
        3,
        "0003 0000000000000005 00000002 0001 6d 0000018f00000000",
    ),
    (
        OffsetCommitValue(offset=5, metadata="", commit_timestamp=TIME, expire_timestamp=TIME + 1),
        1,
        "0001 0000000000000005 0000 0000018f00000000 0000018f00000001",
    ),
    (GroupMetadataKey(group="g"), 2, "0002 0001 67"),
    (
        GroupMetadataValue(
            protocol_type="consumer",
            generation=4,
            protocol="range",
            leader="m",
            current_state_timestamp=TIME,
            members=[MEMBER],
        ),
        3,
        "0003 0008 636f6e73756d6572 00000004 0005 72616e6765 0001 6d 0000018f00000000 00000001"
        "0001 6d ffff 0001 63 0002 2f31 00000005 00000006 00000001 73 00000000",
    ),
    (TransactionLogKey(transactional_id="tx"), 0, "0000 0002 7478"),
    (
        TransactionLogValue(
            producer_id=9,
            producer_epoch=1,
            transaction_timeout_ms=60000,
            transaction_status=1,
            transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 2])],
            transaction_last_update_timestamp_ms=TIME,
            transaction_start_timestamp_ms=TIME,
        ),
        0,
        "0000 0000000000000009 0001 0000ea60 01 00000001 0001 74 00000002 00000000 00000002"
        "0000018f00000000 0000018f00000000",
    ),
    (
        ConsumerProtocolSubscription(topics=["t"], owned_partitions=[TopicPartition(topic="t", partitions=[1])]),
        1,
        "0001 00000001 0001 74 ffffffff 00000001 0001 74 00000001 00000001",
    ),
    (
        ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="t", partitions=[1])], user_data=b""),
        0,
        "0000 00000001 0001 74 00000001 00000001 00000000",
    ),
]


@pytest.mark.parametrize(("value", "version", "expected"), GOLDEN, ids=lambda part: type(part).__name__)
def test_golden_bytes(value: Message, version: int, expected: str) -> None:
    data = bytes.fromhex(expected)
    assert encode_versioned(value, version) == data
    assert version_of(data) == version
    assert decode_versioned(type(value), data) == (version, value)
    assert decode_versioned(type(value), memoryview(data)) == (version, value)


def test_flexible_versions_are_read_too() -> None:
    value = TransactionLogValue(producer_id=1, next_producer_id=5, transaction_partitions=None)
    assert decode_versioned(TransactionLogValue, encode_versioned(value, 1)) == (1, value)
    offset = OffsetCommitValue(offset=1, leader_epoch=3, metadata="x")
    assert decode_versioned(OffsetCommitValue, encode_versioned(offset, 4)) == (4, offset)


@pytest.mark.parametrize("data", ["", "00", "0005 00", "ffff 00", "0000 0002 7478 00", "0000 0002 74"])
def test_what_is_not_such_a_value(data: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_versioned(TransactionLogKey, bytes.fromhex(data))


def test_a_newer_subscription_is_read_as_the_newest_we_have() -> None:
    known = ConsumerProtocolSubscription(topics=["t"], generation_id=4, rack_id="r")
    data = (9).to_bytes(2, "big") + encode_versioned(known, 3)[2:] + b"more"
    assert decode_growing(ConsumerProtocolSubscription, data) == (9, known)
    with pytest.raises(MalformedMessage):
        decode_growing(ConsumerProtocolSubscription, b"\xff\xff")
