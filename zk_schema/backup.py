"""Znodes of a cluster as lines of text, and back: for a backup, and for moving a cluster to another ZooKeeper.

Two kinds are left out: ephemeral znodes, which belong to living sessions (who is registered, who is the controller),
and notifications, which say only that something else has changed: their counters begin anew in another ZooKeeper.
"""

import asyncio
import base64
import json
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from odradek.zk_schema.store import NoNode, Store, children_if_any
from odradek.zk_schema.znodes.acls import ACL_CHANGES_PATH, EXTENDED_ACL_CHANGES_PATH
from odradek.zk_schema.znodes.brokers import BROKER_SEQUENCE_ID_PATH
from odradek.zk_schema.znodes.cluster import PRODUCER_ID_BLOCK_PATH, ProducerIdBlock
from odradek.zk_schema.znodes.controller import (
    CONTROLLER_EPOCH_PATH,
    decode_controller_epoch,
    encode_controller_epoch,
)
from odradek.zk_schema.znodes.notifications import CONFIG_CHANGES_PATH, ISR_CHANGE_PATH, LOG_DIR_EVENT_PATH
from odradek.zk_schema.znodes.tokens import TOKEN_CHANGES_PATH
from odradek.zk_schema.znodes.topics import PartitionState

FORMAT, VERSION = "odradek znodes", 1
AT_ONCE = 200
"""Requests that are under way at a time."""
OF_ZOOKEEPER = "zookeeper"
"""Child of the root that is ZooKeeper's own."""
NOTIFICATIONS = frozenset(
    {
        ACL_CHANGES_PATH,
        CONFIG_CHANGES_PATH,
        EXTENDED_ACL_CHANGES_PATH,
        ISR_CHANGE_PATH,
        LOG_DIR_EVENT_PATH,
        TOKEN_CHANGES_PATH,
    }
)
COUNTED = BROKER_SEQUENCE_ID_PATH
"""Znode of which only the version counts: it is the number of broker ids that were given out."""
STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
EPOCHS_AHEAD = 10_000
"""More elections than there are between a backup and the moment that it is needed."""
PRODUCER_IDS_AHEAD = 1_000_000_000
T = TypeVar("T")


class Znode(NamedTuple):
    """A persistent znode."""

    path: str
    data: bytes
    version: int = 0
    """Number of changes of COUNTED; 0 of all others, whose versions mean nothing once every broker has stopped."""


class NotABackup(ValueError):  # noqa: N818 - says what it is
    """Raised for a text that is not a backup made by `encode`."""


class NotEmpty(Exception):  # noqa: N818 - says what it is
    """Raised when a backup is to be restored where there is a cluster already."""


async def read_znodes(store: Store) -> list[Znode]:
    """Read all znodes that a cluster needs to come back, parents before children.

    A znode that changes meanwhile is read as it was or as it is. Only the copy of a cluster whose brokers have stopped
    is exact.
    """
    found: list[Znode] = []
    level = [""]
    while level:
        names = await _each(level, lambda path: _children(store, path))
        paths = sorted(f"{path}/{name}" for path, children in zip(level, names, strict=True) for name in children)
        read = await _each(paths, lambda path: _persistent(store, path))
        kept = [znode for znode in read if znode is not None]
        found += kept
        level = [znode.path for znode in kept]
    return found


async def write_znodes(store: Store, znodes: Iterable[Znode]) -> None:
    """Create znodes where there is no cluster yet. Raises NotEmpty."""
    if set(await store.children("/")) - {OF_ZOOKEEPER}:
        raise NotEmpty("there is a cluster already")
    by_depth: dict[int, list[Znode]] = {}
    for znode in znodes:
        by_depth.setdefault(znode.path.count("/"), []).append(znode)
    for depth in sorted(by_depth):
        await _each(by_depth[depth], lambda znode: _write(store, znode))


def ahead(znodes: Iterable[Znode]) -> list[Znode]:
    """Return znodes whose epochs and producer ids are well above those that were given out after the backup.

    They are for logs that are newer than the backup. If a leader epoch came twice, followers would keep records that
    they must cut off; if a producer id did, new records would be taken for repeated ones. Raises BadZnode.
    """
    return [znode._replace(data=_ahead(znode)) for znode in znodes]


def _ahead(znode: Znode) -> bytes:
    path, data = znode.path, znode.data
    if path == CONTROLLER_EPOCH_PATH:
        return encode_controller_epoch(decode_controller_epoch(data) + EPOCHS_AHEAD)
    if path == PRODUCER_ID_BLOCK_PATH and (block := ProducerIdBlock.decode(data)) is not None:
        moved = replace(block, first=block.first + PRODUCER_IDS_AHEAD, last=block.last + PRODUCER_IDS_AHEAD)
        return moved.encode()
    if state := STATE.fullmatch(path):
        known = PartitionState.decode(state[1], int(state[2]), data)
        return replace(known, leader_epoch=known.leader_epoch + EPOCHS_AHEAD).encode()
    return data


def encode(znodes: Sequence[Znode]) -> Iterator[str]:
    """Yield the lines of a backup: a heading, then a znode each, as JSON."""
    yield json.dumps({"format": FORMAT, "version": VERSION, "znodes": len(znodes)})
    for znode in znodes:
        line: dict[str, Any] = {"path": znode.path}
        try:
            line["text"] = znode.data.decode()
        except UnicodeDecodeError:
            line["base64"] = base64.b64encode(znode.data).decode()
        if znode.version:
            line["version"] = znode.version
        yield json.dumps(line, ensure_ascii=False)


def decode(lines: Iterable[str]) -> list[Znode]:
    """Read a backup. Raises NotABackup for anything else, and for one that was cut off."""
    rows = iter(lines)
    try:
        heading = json.loads(next(rows, "{}"))
        if not isinstance(heading, dict) or (heading.get("format"), heading.get("version")) != (FORMAT, VERSION):
            raise NotABackup("this is no export of znodes")
        znodes = [_decoded(json.loads(row)) for row in rows]
    except NotABackup:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise NotABackup(f"a line that makes no sense: {error}") from None
    if len(znodes) != heading.get("znodes"):
        raise NotABackup(f"{len(znodes)} of {heading.get('znodes')} znodes are there: it was cut off")
    return znodes


def _decoded(line: dict[str, Any]) -> Znode:
    data = base64.b64decode(line["base64"], validate=True) if "base64" in line else line["text"].encode()
    path, version = line["path"], line.get("version", 0)
    if not (isinstance(path, str) and path.startswith("/") and isinstance(version, int)):
        raise TypeError(f"path {path!r}, version {version!r}")
    return Znode(path, data, version)


async def _children(store: Store, path: str) -> list[str]:
    if path in NOTIFICATIONS:
        return []
    return [name for name in await children_if_any(store, path or "/") if path or name != OF_ZOOKEEPER]


async def _persistent(store: Store, path: str) -> Znode | None:
    """Read a znode; None for one that lives with a session, or has just been deleted."""
    try:
        data, stat = await store.get(path)
    except NoNode:
        return None
    if stat.ephemeral_owner:
        return None
    return Znode(path, data, stat.version if path == COUNTED else 0)


async def _write(store: Store, znode: Znode) -> None:
    await store.create(znode.path, znode.data)
    for _ in range(znode.version):
        await store.set(znode.path, znode.data)


async def _each(items: Sequence[Any], work: Callable[[Any], Coroutine[Any, Any, T]]) -> list[T]:
    """Do some work for each item, AT_ONCE of them at a time; return the results in their order."""
    results: list[T] = []
    for start in range(0, len(items), AT_ONCE):
        results += await asyncio.gather(*map(work, items[start : start + AT_ONCE]))
    return results
