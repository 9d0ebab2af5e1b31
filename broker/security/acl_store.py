"""The access lists in ZooKeeper: read whole, changed with the version that was read, and followed by their changes.

Whoever changes a list writes its znode together with a sequential znode that names the resource; every broker watches
those and reads again what was named (AclAuthorizer and ZkNodeChangeNotificationListener of Kafka 3.9).
"""

import asyncio
import logging
from collections.abc import Callable, Set
from typing import Final, NamedTuple

from odradek.broker.security.acls import Acl
from odradek.world.clock import Clock, sleep
from odradek.zk_schema.change_nodes import ChangeNodes, write_and_tell
from odradek.zk_schema.lost_answers import create_if_missing, in_any_session
from odradek.zk_schema.store import (
    BadVersion,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Operation,
    SessionExpired,
    SetData,
    Store,
    get_if_any,
)
from odradek.zk_schema.znodes.acls import (
    ACL_CHANGES_PATH,
    EXTENDED_ACL_CHANGES_PATH,
    PatternType,
    ResourcePattern,
    ResourceType,
    acl_root,
    decode_acls,
    encode_acls,
)
from odradek.zk_schema.znodes.json_data import BadZnode

log = logging.getLogger(__name__)

CHANGES: Final = (ACL_CHANGES_PATH, EXTENDED_ACL_CHANGES_PATH)
UPDATE_ATTEMPTS_MAX: Final = 10
UPDATE_RETRY_MS: Final = 100.0

Acls = Set[Acl]


class Found(NamedTuple):
    """A list as ZooKeeper has it; `version` is None where there is no znode."""

    acls: frozenset[Acl]
    version: int | None


class TooManyAttempts(Exception):  # noqa: N818 - what happened
    """Raised for a list that others change all the time."""


class AclStore:
    """The znodes of access lists. Loop-thread only."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.zookeeper = store
        self._clock = clock
        self._changes = [ChangeNodes(store, path) for path in CHANGES]

    async def create_paths(self) -> None:
        """Create the znodes that lists and changes stand below, where they are missing."""
        types = [f"{acl_root(pattern)}/{kind.value}" for pattern in PatternType for kind in ResourceType]
        await asyncio.gather(*(create_if_missing(self.zookeeper, path) for path in (*CHANGES, *types)))

    async def all_patterns(self) -> list[ResourcePattern]:
        """Watch for changes, then list all resources that have lists: whatever changes from now on is told."""
        for nodes in self._changes:
            await nodes.begin()
        return [one for kind in PatternType for one in await self._patterns(kind)]

    async def _patterns(self, pattern_type: PatternType) -> list[ResourcePattern]:
        patterns = []
        for resource_type in ResourceType:
            try:
                names = await self.zookeeper.children(f"{acl_root(pattern_type)}/{resource_type.value}")
            except NoNode:
                continue
            patterns += [ResourcePattern(resource_type, name, pattern_type) for name in names]
        return patterns

    async def read(self, pattern: ResourcePattern) -> Found:
        """Read one list. Raises BadZnode."""
        found = await get_if_any(self.zookeeper, pattern.path)
        if found is None:
            return Found(frozenset(), None)
        data, stat = found
        try:
            return Found(frozenset(map(Acl.of, decode_acls(pattern.path, data))), stat.version)
        except BadZnode:
            raise
        except ValueError as error:
            raise BadZnode(pattern.path, data, str(error)) from error

    async def read_or_fault(self, pattern: ResourcePattern) -> Found | BadZnode:
        """Read one list, or say why it cannot be understood."""
        try:
            return await self.read(pattern)
        except BadZnode as error:
            return error

    async def changed(self) -> list[ResourcePattern]:
        """Watch on, and name the resources whose lists have changed since; changes that are old are deleted."""
        named: dict[ResourcePattern, None] = {}
        for nodes in self._changes:
            for told in await nodes.news():
                try:
                    named[ResourcePattern.decode_change(told.path, told.data)] = None
                except BadZnode as error:
                    log.error("an invalid change of access lists is ignored: %s", error)
        return list(named)

    async def update(self, pattern: ResourcePattern, change: Callable[[Acls], Acls]) -> frozenset[Acl]:
        """Change one list and tell all brokers, unless nothing changes; return the list as it is now.

        `change` may be called several times. Raises BadZnode and TooManyAttempts.
        """
        for _ in range(UPDATE_ATTEMPTS_MAX):
            before = await in_any_session(self.zookeeper, lambda: self.read(pattern))
            after = frozenset(change(before.acls))
            if after == before.acls:
                return after
            try:
                await self._write(pattern, after, before.version)
            except (ConnectionLost, SessionExpired):
                continue  # the list tells whether it was carried out
            except (BadVersion, NodeExists, NoNode):
                await sleep(self._clock, UPDATE_RETRY_MS)
            else:
                log.info("the access list of %s %s has changed", pattern.resource_type.value, pattern.name)
                return after
        raise TooManyAttempts(f"{pattern.path} is changed by others again and again")

    async def _write(self, pattern: ResourcePattern, acls: Acls, version: int | None) -> None:
        data = encode_acls(acl.entry() for acl in sorted(acls))
        write: Operation
        if version is None:
            write = Create(pattern.path, data)
        elif acls:
            write = SetData(pattern.path, data, version)
        else:
            write = Delete(pattern.path, version)
        await write_and_tell(self.zookeeper, [write], pattern.change_prefix, pattern.encode_change())
