"""Groups below /consumers, read from outside: their members, the owners of partitions, and offsets."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from odradek.client.records import TopicPartition
from odradek.zk_schema.store import NoNode, Store, children_if_any
from odradek.zk_schema.znodes.consumers import (
    CONSUMERS_PATH,
    ConsumerRegistration,
    consumer_ids_path,
    decode_owner,
    group_path,
    offsets_path,
    owners_path,
)
from odradek.zk_schema.znodes.json_data import number_named, whole_number

T = TypeVar("T")


@dataclass
class GroupInZooKeeper:
    """A group of Kafka 0.8's consumer at one moment."""

    group_id: str
    members: dict[str, ConsumerRegistration] = field(default_factory=dict)
    """Members by consumer id."""
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    """Partition → the consumer thread that owns it: the consumer's id, `-`, the thread's number."""
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    """Partition → the next offset to consume. With offsets.storage=kafka these are in the cluster instead."""


async def group_ids(store: Store) -> list[str]:
    """Return the names of all groups, sorted. Raises StoreError."""
    return await children_if_any(store, CONSUMERS_PATH)


async def group_in_zookeeper(store: Store, group_id: str) -> GroupInZooKeeper | None:
    """Return a group; None when there is none of that name. Znodes that cannot be decoded are left out.

    Raises StoreError.
    """
    if await store.exists(group_path(group_id)) is None:
        return None
    group = GroupInZooKeeper(group_id)
    group.members = await _below(
        store, consumer_ids_path(group_id), lambda name, data: ConsumerRegistration.decode(group_id, name, data)
    )
    for topic in await children_if_any(store, f"{group_path(group_id)}/owners"):
        owners = await _below(store, owners_path(group_id, topic), lambda _, data: decode_owner(data))
        group.owners |= {
            TopicPartition(topic, number): owner
            for name, owner in owners.items()
            if (number := number_named(name)) is not None
        }
    for topic in await children_if_any(store, f"{group_path(group_id)}/offsets"):
        offsets = await _below(store, offsets_path(group_id, topic), whole_number)
        group.offsets |= {
            TopicPartition(topic, number): one
            for name, one in offsets.items()
            if (number := number_named(name)) is not None
        }
    return group


async def _below(store: Store, path: str, decode: Callable[[str, bytes], T]) -> dict[str, T]:
    """Return the decoded znodes below a path, by name, without those that are gone by now or cannot be decoded."""

    async def one(name: str) -> tuple[str, T] | None:
        try:
            data, _ = await store.get(f"{path}/{name}")
            return name, decode(name, data)
        except (NoNode, ValueError):
            return None

    found = await asyncio.gather(*(one(name) for name in await children_if_any(store, path)))
    return dict(pair for pair in found if pair is not None)
