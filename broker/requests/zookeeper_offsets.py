"""Offsets in ZooKeeper, /consumers/[group]/offsets/[topic]/[partition]: version 0 of OffsetCommit and OffsetFetch."""

from odradek.protocol.errors import ErrorCode
from odradek.zk_schema.store import NodeExists, NoNode, Store, StoreError
from odradek.zk_schema.znodes.consumers import decode_offset, encode_offset, offset_path
from odradek.zk_schema.znodes.json_data import BadZnode


async def write_offset(store: Store, group_id: str, topic: str, partition: int, offset: int) -> ErrorCode:
    """Create or overwrite an offset; the last writer wins, as it always did."""
    path = offset_path(group_id, topic, partition)
    data = encode_offset(offset)
    try:
        try:
            await store.set(path, data)
        except NoNode:
            await _create(store, path, data)
    except StoreError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


async def _create(store: Store, path: str, data: bytes) -> None:
    try:
        await store.create(path, data, parents=True)
    except NodeExists:
        await store.set(path, data)


async def read_offset(store: Store, group_id: str, topic: str, partition: int) -> tuple[int, ErrorCode]:
    """Return the offset; -1 with UNKNOWN_TOPIC_OR_PARTITION when there is none, which version 0 has no other word
    for."""
    try:
        data, _ = await store.get(offset_path(group_id, topic, partition))
        return decode_offset(group_id, topic, partition, data), ErrorCode.NONE
    except NoNode:
        return -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    except (StoreError, BadZnode):
        return -1, ErrorCode.UNKNOWN_SERVER_ERROR
