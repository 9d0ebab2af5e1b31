"""The partition of a coordinator's topic that a group or a transactional id lives in."""

import logging
from functools import lru_cache, partial

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import java_hash
from odradek.world.tasks import OnDeath, Tasks
from odradek.zk_schema.store import NoNode, Store, StoreError
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.topics import TopicAssignment, topic_path

log = logging.getLogger(__name__)

LONGEST_TEXT = 8_000
"""Most characters in the name that a client gives itself, its group or its transactions: strings in the records of
these topics have 16-bit lengths, in bytes."""
NAMES_MAX = 1_000
"""Names whose partition is remembered: each request of a group or a transaction asks for it."""
UNKNOWN_COUNT = 0
"""Number of partitions while ZooKeeper is asked for it."""
NOWHERE = -1
"""Partition of a name while the number is unknown: no broker leads this one."""


@lru_cache(NAMES_MAX)
def partition_for(name: str, partition_count: int) -> int:
    """Find the partition that a group or a transactional id lives in: Kafka's `Utils.abs(name.hashCode) % count`, where
    the absolute value of the smallest number is 0 (GroupMetadataManager.partitionFor). NOWHERE for UNKNOWN_COUNT."""
    if partition_count == UNKNOWN_COUNT:
        return NOWHERE
    value = java_hash(name)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


class PartitionCount:
    """Number of partitions of a coordinator's topic, which says where everything in it lives and must not change.

    It is read from ZooKeeper when the broker starts, because the broker leads partitions before its metadata has come:
    to guess by the setting would put a group where nobody looks for it. A topic that did not exist then is created with
    the setting: the first number in the metadata that is not below the setting holds as long as it is the same topic.
    When the metadata has fewer, ZooKeeper is asked: a partition that never had a leader is not in the metadata, and
    groups would move when it gets one. Until the answer comes, no name has a partition. Partitions that somebody adds
    later do not count: groups would move to where none of their offsets are (GroupMetadataManager.startup). A topic
    that was deleted and created again, as its id tells, holds nothing yet, and its own number counts: Kafka's brokers
    go on with the old number until they are restarted, one after the other.
    """

    def __init__(self, topic: str, metadata: MetadataCache, setting: int, tasks: Tasks) -> None:
        self._topic, self._metadata, self._setting, self._tasks = topic, metadata, setting, tasks
        self._read, self._id = 0, ZERO_UUID
        self._store: Store | None = None
        self._is_asking = False

    async def read(self, store: Store) -> None:
        """Read the number at the broker's start; `store` is kept, to be asked again later. Raises StoreError."""
        self._store = store
        try:
            data, _ = await store.get(topic_path(self._topic))
            found = TopicAssignment.decode(self._topic, data)
        except NoNode:
            return
        except BadZnode as error:
            log.error("the number of partitions of %s cannot be read: %s", self._topic, error)
        else:
            self._read, self._id = len(found.partitions), found.topic_id or ZERO_UUID

    def __call__(self) -> int:
        """Return the number of partitions; UNKNOWN_COUNT while ZooKeeper is asked."""
        topic_id = self._metadata.topic_id(self._topic)
        if self._id == ZERO_UUID:
            self._id = topic_id
        if self._read and topic_id in (self._id, ZERO_UUID):
            return self._read
        known = self._metadata.partition_count(self._topic)
        if known >= self._setting:
            self._read, self._id = known, topic_id
        elif known and self._store is not None:
            if not self._is_asking:
                self._is_asking = True
                self._tasks.spawn(f"partitions of {self._topic}", partial(self._ask, self._store), OnDeath.REPORT)
            return UNKNOWN_COUNT
        return known or self._read or self._setting

    async def _ask(self, store: Store) -> None:
        try:
            await self.read(store)
        except StoreError as error:  # the next request asks again
            log.info("%s: ZooKeeper does not say how many partitions it has: %s", self._topic, error)
        finally:
            self._is_asking = False
