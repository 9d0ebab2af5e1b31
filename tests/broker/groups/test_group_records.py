"""Records of `__consumer_offsets` against bytes written down from Kafka's definitions, and the way to a partition."""

import pytest

from odradek.broker.coordination.partition_count import partition_for
from odradek.broker.groups.group_metadata import GroupMetadata, GroupState, Member
from odradek.broker.groups.group_offsets import CommittedOffset
from odradek.broker.groups.group_records import (
    GroupKey,
    OffsetKey,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group,
    read_key,
    read_offset,
)
from odradek.protocol.errors import MalformedMessage


def test_offset_key():
    data = offset_key("g", ("topic", 3))
    assert data == bytes.fromhex("0001 0001 67 0005 746f706963 00000003")
    assert read_key(data) == OffsetKey("g", ("topic", 3))
    assert read_key(b"\0\0" + data[2:]) == OffsetKey("g", ("topic", 3))


def test_offset_value_of_version_3():
    committed = CommittedOffset(42, 1000, leader_epoch=5, metadata="m")
    data = offset_value(committed)
    assert data == bytes.fromhex("0003 000000000000002a 00000005 0001 6d 00000000000003e8")
    assert read_offset(data) == committed


def test_offset_value_with_its_own_expiry_is_version_1():
    committed = CommittedOffset(42, 1000, metadata="m", expire_timestamp_ms=2000)
    data = offset_value(committed)
    assert data == bytes.fromhex("0001 000000000000002a 0001 6d 00000000000003e8 00000000000007d0")
    assert read_offset(data) == committed


def test_offset_value_of_version_4_is_read():
    data = bytes.fromhex("0004 000000000000002a 00000005 02 6d 00000000000003e8 00")
    assert read_offset(data) == CommittedOffset(42, 1000, leader_epoch=5, metadata="m")


def test_group_key_and_value():
    assert group_key("g") == bytes.fromhex("0002 0001 67")
    assert read_key(group_key("g")) == GroupKey("g")
    member = Member("m", "i", "c", "/h", 7, 6, "consumer", (("x", b"\1"), ("range", b"\2")), b"")
    group = GroupMetadata("g", GroupState.STABLE, 1000, 4, protocol_name="range")
    group.add(member)
    data = group_value(group, {"m": b"\3"})
    assert data == bytes.fromhex(
        "0003 0008 636f6e73756d6572 00000004 0005 72616e6765 0001 6d 00000000000003e8 00000001"
        "0001 6d 0001 69 0001 63 0002 2f68 00000007 00000006 00000001 02 00000001 03"
    )
    loaded = read_group("g", data)
    assert (loaded.state, loaded.generation, loaded.leader) == (GroupState.STABLE, 4, "m")
    assert (loaded.protocol_type, loaded.protocol_name, loaded.state_since_ms) == ("consumer", "range", 1000)
    assert loaded.members["m"].assignment == b"\3"
    assert loaded.members["m"].protocols == (("range", b"\2"),)
    assert loaded.static_member_id("i") == "m"


def test_group_value_without_members():
    group = GroupMetadata("g", GroupState.EMPTY, 1000, 5, protocol_type="consumer")
    data = group_value(group, {})
    assert data == bytes.fromhex("0003 0008 636f6e73756d6572 00000005 ffff ffff 00000000000003e8 00000000")
    assert read_group("g", data).state is GroupState.EMPTY


def test_group_value_of_version_0_takes_the_session_for_the_rebalance_timeout():
    data = bytes.fromhex(
        "0000 0008 636f6e73756d6572 00000004 0005 72616e6765 0001 6d 00000001"
        "0001 6d 0001 63 0002 2f68 00000006 00000001 02 00000001 03"
    )
    loaded = read_group("g", data)
    assert loaded.members["m"].rebalance_timeout_ms == 6
    assert loaded.state_since_ms == -1


def test_unknown_key_is_skipped_and_nonsense_refused():
    assert read_key(b"\0\3rest") is None
    for nonsense in (b"", b"\0", b"\0\1\0", b"\0\2\0\5g"):
        with pytest.raises(MalformedMessage):
            read_key(nonsense)
    with pytest.raises(MalformedMessage):
        read_offset(b"\0\7")


def test_partition_of_the_smallest_hash_is_0():
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("hello", 50) == 22
