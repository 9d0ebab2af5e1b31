"""Reading ZooKeeper: who is registered, who is the controller, what partitions' states are, and since when."""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from odradek.zk_schema.store import Stat, Store, children_if_any, get_if_any
from odradek.zk_schema.znodes.admin import DELETE_TOPICS_PATH, delete_topic_path
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH, BrokerRegistration, broker_ids, broker_path
from odradek.zk_schema.znodes.controller import (
    CONTROLLER_EPOCH_PATH,
    CONTROLLER_PATH,
    ControllerRegistration,
    decode_controller_epoch,
)
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.topics import (
    NO_LEADER,
    TOPICS_PATH,
    PartitionState,
    TopicAssignment,
    state_path,
    topic_path,
)

READS_AT_ONCE = 200


@dataclass
class SeenInZooKeeper:
    """What a look at the znodes found. `brokers` has the stats of registrations, `deleting` those of topics that are
    marked for deletion."""

    controller: int | None = NO_LEADER
    """NO_LEADER: there is none; None: its znode cannot be decoded."""
    controller_since_ms: int | None = None
    controller_epoch: int | None = None
    brokers: dict[int, Stat] = field(default_factory=dict)
    deleting: dict[str, Stat] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    assignments: dict[str, TopicAssignment] = field(default_factory=dict)
    states: dict[tuple[str, int], tuple[PartitionState, Stat]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    """Znodes that exist but cannot be decoded, each with the reason."""


async def look(store: Store) -> SeenInZooKeeper:
    """Read the znodes of brokers, controller and deletions, and the names of topics. Raises StoreError."""
    seen = SeenInZooKeeper()
    controller, epoch = await _read(store, [CONTROLLER_PATH, CONTROLLER_EPOCH_PATH])
    try:
        if controller is not None:
            seen.controller, seen.controller_since_ms = None, controller[1].created_ms
            seen.controller = ControllerRegistration.decode(controller[0]).broker_id
        if epoch is not None:
            seen.controller_epoch = decode_controller_epoch(epoch[0])
    except BadZnode as bad:
        seen.unreadable.append(str(bad))
    ids = sorted(broker_ids(await children_if_any(store, BROKER_IDS_PATH)))
    for broker_id, znode in zip(ids, await _read(store, [broker_path(one) for one in ids]), strict=True):
        if znode is None:
            continue
        seen.brokers[broker_id] = znode[1]
        try:
            BrokerRegistration.decode(broker_id, znode[0])
        except BadZnode as bad:
            seen.unreadable.append(str(bad))
    seen.topics = frozenset(await children_if_any(store, TOPICS_PATH))
    marked = await children_if_any(store, DELETE_TOPICS_PATH)
    for name, znode in zip(marked, await _read(store, [delete_topic_path(one) for one in marked]), strict=True):
        if znode is not None:
            seen.deleting[name] = znode[1]
    return seen


async def registrations(store: Store) -> dict[int, int]:
    """Return the epochs of registered brokers, by broker. Raises StoreError."""
    ids = sorted(broker_ids(await children_if_any(store, BROKER_IDS_PATH)))
    znodes = await _read(store, [broker_path(one) for one in ids])
    return {broker_id: znode[1].czxid for broker_id, znode in zip(ids, znodes, strict=True) if znode is not None}


async def look_at_topics(store: Store, names: Collection[str], seen: SeenInZooKeeper) -> None:
    """Read the replicas and partition states of some topics into `seen`. Raises StoreError."""
    topics = sorted(names)
    for topic, znode in zip(topics, await _read(store, [topic_path(one) for one in topics]), strict=True):
        if znode is None:
            continue
        try:
            seen.assignments[topic] = TopicAssignment.decode(topic, znode[0])
        except BadZnode as bad:
            seen.unreadable.append(str(bad))
    wanted = [(topic, number) for topic, assignment in seen.assignments.items() for number in assignment.partitions]
    for (topic, number), znode in zip(wanted, await _read(store, [state_path(*one) for one in wanted]), strict=True):
        if znode is None:
            continue
        try:
            seen.states[(topic, number)] = (PartitionState.decode(topic, number, znode[0]), znode[1])
        except BadZnode as bad:
            seen.unreadable.append(str(bad))


async def _read(store: Store, paths: Iterable[str]) -> list[tuple[bytes, Stat] | None]:
    wanted, found = list(paths), []
    for start in range(0, len(wanted), READS_AT_ONCE):
        found += await asyncio.gather(*(get_if_any(store, path) for path in wanted[start : start + READS_AT_ONCE]))
    return found
