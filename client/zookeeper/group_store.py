"""Znodes below /consumers/[group] that a member reads and writes: its registration, the group, the owners."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from odradek.client.calls import side_by_side
from odradek.client.config import is_address
from odradek.client.records import TopicPartition
from odradek.client.zookeeper.assignment import Assignment, GroupView, topics_needed
from odradek.client.zookeeper.subscriptions import consumer_of, is_pattern, threads_by_topic
from odradek.protocol.topic_names import name_fault
from odradek.zk_schema.lost_answers import create_ephemeral, create_if_missing
from odradek.zk_schema.store import BadVersion, NodeExists, NoNode, Store
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH, BrokerRegistration, broker_ids, broker_path
from odradek.zk_schema.znodes.consumers import (
    ConsumerRegistration,
    consumer_id_path,
    consumer_ids_path,
    decode_owner,
    encode_owner,
    owner_path,
    owners_path,
)
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.topics import TOPICS_PATH, TopicAssignment, topic_path

logger = logging.getLogger(__name__)

PLAINTEXT = "PLAINTEXT"


class ClaimOutcome(NamedTuple):
    """Outcome of a claim. `blockers`: paths of others' owner znodes, which are watched."""

    won: Assignment
    blockers: list[str]


class GroupStore:
    """Znodes of a member and its group. For the loop's thread only; all methods raise StoreError and BadZnode."""

    def __init__(
        self,
        store: Store,
        group_id: str,
        consumer_id: str,
        strategy: str,
        *,
        exclude_internal: bool,
        security_protocol: str = PLAINTEXT,
    ) -> None:
        """`security_protocol` is that of the listener on which the brokers are reached."""
        self._store = store
        self._security_protocol = security_protocol
        self._group_id = group_id
        self._consumer_id = consumer_id
        self._strategy = strategy
        self._exclude_internal = exclude_internal
        self._own_sessions: set[int] = set()

    # -- registration --------------------------------------------------------------------------------------------------

    async def register(self, registration: ConsumerRegistration) -> None:
        """Write the member's znode. One that an earlier session of this very member has left is replaced.

        Raises NodeExists, and leaves a watch on the group, if another process has the id: consumer.id is given twice,
        or a program was restarted before the session of its predecessor has expired.
        """
        path = consumer_id_path(self._group_id, self._consumer_id)
        await create_if_missing(self._store, consumer_ids_path(self._group_id))
        self._own_sessions.add(self._store.session_id)
        while True:
            try:
                await create_ephemeral(self._store, path, registration.encode())
            except NodeExists:
                await self._store.children(consumer_ids_path(self._group_id), watch=True)
                stat = await self._store.exists(path)
                if stat is not None and stat.ephemeral_owner not in self._own_sessions:
                    raise
                if stat is not None:
                    await self._delete_version(path, stat.version)
            else:
                return

    async def _delete_version(self, path: str, version: int) -> None:
        try:
            await self._store.delete(path, version)
        except (NoNode, BadVersion):
            return

    # -- reading -------------------------------------------------------------------------------------------------------

    async def read(self, owned: Collection[TopicPartition]) -> GroupView:
        """Read the group as it is now, and leave watches that fire at any later change."""
        members = await self._members()
        brokers = await self.brokers()
        existing = await self._children(TOPICS_PATH) if any(map(is_pattern, members.values())) else []
        threads = threads_by_topic(members, existing, exclude_internal=self._exclude_internal)
        needed = topics_needed(self._strategy, self._consumer_id, threads)
        numbers = await asyncio.gather(*(self._partitions(topic) for topic in needed))
        held = await asyncio.gather(*(self._holds(name) for name in owned))
        return GroupView(
            members,
            {topic: threads[topic] for topic in needed},
            dict(zip(needed, numbers, strict=True)),
            brokers,
            frozenset(name for name, holds in zip(owned, held, strict=True) if holds),
        )

    async def _members(self) -> dict[str, ConsumerRegistration]:
        names = await self._children(consumer_ids_path(self._group_id))
        found = await asyncio.gather(*(self._member(name) for name in names))
        return {name: one for name, one in zip(names, found, strict=True) if one is not None}

    async def _member(self, consumer_id: str) -> ConsumerRegistration | None:
        """Return a member; None when it has just left, for which the watch on the list of members fires."""
        try:
            data, _ = await self._store.get(consumer_id_path(self._group_id, consumer_id))
        except NoNode:
            return None
        return ConsumerRegistration.decode(self._group_id, consumer_id, data)

    async def brokers(self) -> list[str]:
        """Return the addresses of the live brokers, and leave a watch that fires when brokers come or go."""
        names = await self._children(BROKER_IDS_PATH)
        found = await asyncio.gather(*(self._broker(one) for one in sorted(broker_ids(names))))
        if found and not any(found):
            logger.warning("%s: no broker has a listener with %s", self._consumer_id, self._security_protocol)
        return sorted(address for address in found if address is not None)

    async def _broker(self, broker_id: int) -> str | None:
        """Return a broker's address; None when it has just gone, has no such listener, cannot be decoded, or has an
        address that cannot be one."""
        try:
            data, _ = await self._store.get(broker_path(broker_id))
            endpoints = BrokerRegistration.decode(broker_id, data).endpoints
        except NoNode:
            return None
        except BadZnode as bad:
            logger.warning("%s: a broker is ignored: %s", self._consumer_id, bad)
            return None
        found = next((one.address for one in endpoints if one.security_protocol == self._security_protocol), None)
        if found is not None and not is_address(found):
            logger.warning(
                "%s: broker %d is ignored: %s cannot be connected to: see its advertised.listeners",
                self._consumer_id,
                broker_id,
                found,
            )
            return None
        return found

    async def _partitions(self, topic: str) -> tuple[int, ...]:
        """Return the partitions of a topic; none if it does not exist, in which case its creation is watched for.

        None at all of what cannot be a topic: other members' subscriptions may name anything.
        """
        if name_fault(topic) is not None:
            return ()
        while True:
            try:
                data, _ = await self._store.get(topic_path(topic), watch=True)
                return tuple(sorted(TopicAssignment.decode(topic, data).partitions))
            except NoNode:
                if await self._store.exists(topic_path(topic), watch=True) is None:
                    return ()

    async def _children(self, path: str) -> list[str]:
        """Return a znode's children, sorted; none if it does not exist, in which case its creation is watched for."""
        while True:
            try:
                return sorted(await self._store.children(path, watch=True))
            except NoNode:
                if await self._store.exists(path, watch=True) is None:
                    return []

    # -- ownership -----------------------------------------------------------------------------------------------------

    async def _holds(self, name: TopicPartition) -> bool:
        stat = await self._store.exists(owner_path(self._group_id, *name))
        return stat is not None and stat.ephemeral_owner == self._store.session_id

    async def claim(self, partitions: Mapping[TopicPartition, str], session_id: int) -> ClaimOutcome:
        """Create owner znodes in this session, as many as possible. When this raises, some may have been created.

        Raises SessionExpired when there is another session by now, so that none is created in that unnoticed.
        """
        for topic in {name.topic for name in partitions}:
            await create_if_missing(self._store, owners_path(self._group_id, topic))
        answers = await side_by_side(self._claim(session_id, name, thread) for name, thread in partitions.items())
        won: Assignment = {}
        lost = []
        for (name, thread), is_ours in zip(partitions.items(), answers, strict=True):
            if is_ours:
                won[name] = thread
            else:
                lost.append(owner_path(self._group_id, *name))
        watched = await asyncio.gather(*(self._store.exists(path, watch=True) for path in lost))
        return ClaimOutcome(won, [path for path, stat in zip(lost, watched, strict=True) if stat is not None])

    async def _claim(self, session_id: int, name: TopicPartition, thread: str) -> bool:
        path = owner_path(self._group_id, *name)
        while True:
            await self._store.until_connected(session_id)
            try:
                await create_ephemeral(self._store, path, encode_owner(thread))
            except NodeExists:
                if not await self._was_left_by_us(path):
                    return False
            else:
                return True

    async def _was_left_by_us(self, path: str) -> bool:
        """Delete an owner znode if an earlier session of this very member has left it; tell whether that is so."""
        try:
            data, stat = await self._store.get(path)
        except NoNode:
            return False
        if consumer_of(decode_owner(data)) != self._consumer_id or stat.ephemeral_owner not in self._own_sessions:
            return False
        await self._delete_version(path, stat.version)
        return True

    async def release(self, partitions: Collection[TopicPartition]) -> None:
        """Delete the owner znodes of these partitions that belong to this session."""
        await asyncio.gather(*(self._release(owner_path(self._group_id, *name)) for name in partitions))

    async def _release(self, path: str) -> None:
        try:
            _, stat = await self._store.get(path)
        except NoNode:
            return
        if stat.ephemeral_owner == self._store.session_id:
            await self._delete_version(path, stat.version)
