"""Translation of kazoo's values into the store's: errors, stats, events, results of a multi. Which watches are set."""

import ipaddress
import re
import socket
from collections.abc import Iterator, Sequence
from typing import Any

from kazoo import exceptions

from odradek.zk_schema.kazoo_store.handler import SetWatches
from odradek.zk_schema.store import (
    BadVersion,
    ConnectionLost,
    Create,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NoSuchHost,
    NotAuthorized,
    NotEmpty,
    Operation,
    OperationResult,
    SessionExpired,
    SetData,
    Stat,
    StoreError,
    Unsupported,
    WatchKind,
    ZooKeeperWantsALogin,
    is_znode_name,
    parent,
)

SET_WATCHES_PATHS_MAX = 1000
"""Paths in one SetWatches: far below the 1 MB that ZooKeeper takes in one request."""

KINDS = {
    "CREATED": WatchKind.CREATED,
    "DELETED": WatchKind.DELETED,
    "CHANGED": WatchKind.CHANGED,
    "CHILD": WatchKind.CHILDREN,
}

ERRORS: dict[type[Exception], type[StoreError]] = {
    exceptions.NoNodeError: NoNode,
    exceptions.NodeExistsError: NodeExists,
    exceptions.BadVersionError: BadVersion,
    exceptions.NotEmptyError: NotEmpty,
    exceptions.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    exceptions.NoAuthError: NotAuthorized,
    exceptions.AuthFailedError: SessionExpired,
    exceptions.InvalidACLError: NotAuthorized,
    exceptions.SessionClosedRequireSaslError: ZooKeeperWantsALogin,
    exceptions.SessionExpiredError: SessionExpired,
    exceptions.ConnectionLoss: ConnectionLost,
    exceptions.OperationTimeoutError: ConnectionLost,
    exceptions.SessionMovedError: ConnectionLost,
    exceptions.ConnectionClosedError: ConnectionLost,
    exceptions.UnimplementedError: Unsupported,
}

NOT_THE_CAUSE = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)
"""Answers of ZooKeeper for the operations of a multi that failed only because another one did."""


HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+)(:\d{1,5})?")
"""Pattern of one server: a name, an IPv4 address or an IPv6 address in brackets, and perhaps a port."""


class BadAddress(OSError):  # noqa: N818 (it is the address that is bad)
    """Raised for a `zookeeper.connect` that cannot be the address of a ZooKeeper."""


def split_connect(connect: str) -> tuple[str, str]:
    """Split `host:port,host:port/chroot`, as in `zookeeper.connect`, into hosts and chroot (""). Raises BadAddress."""
    hosts, slash, chroot = connect.partition("/")
    for host in hosts.split(","):
        match = HOST.fullmatch(host.strip())
        if match is None or (match[2] and not 0 < int(match[2][1:]) < 65_536) or not _is_host(match[1]):
            raise BadAddress(f"ZooKeeper at {connect!r}: {host!r} is not host:port (host:port,host:port/chroot)")
    path = (slash + chroot).rstrip("/")
    if not all(map(is_znode_name, path.split("/")[1:])):
        raise BadAddress(f"ZooKeeper at {connect!r}: {path!r} is not the path of a znode")
    return hosts, path


def _is_host(name: str) -> bool:
    """Tell whether a resolver can be asked for a name: where it cannot, kazoo's thread would die of the error."""
    try:
        if name.startswith("["):
            ipaddress.IPv6Address(name[1:-1])
        else:
            name.encode("idna")
    except ValueError:
        return False
    return True


def names_without_address(hosts: str) -> list[str]:
    """Return those of `host:port,host:port` whose names cannot be resolved now. Blocks."""
    nameless = []
    for host in hosts.split(","):
        name = HOST.sub(r"\1", host.strip())
        try:
            socket.getaddrinfo(name.strip("[]"), None)
        except OSError:
            nameless.append(name)
    return nameless


def start_error(error: StoreError, hosts: str) -> StoreError:
    """Return what to raise when no session began: `error`, or which of the servers' names have no address. Blocks."""
    if isinstance(error, ConnectionLost) and (nameless := names_without_address(hosts)):
        return NoSuchHost(nameless)
    return error


def store_error(error: Exception, path: str) -> StoreError:
    """Make the error that a call about `path` raises when kazoo has raised `error`."""
    return ERRORS.get(type(error), StoreError)(path)


def create_error(error: StoreError, path: str) -> StoreError:
    """Return the error of a create: when it found no znode, that was the parent."""
    return NoNode(parent(path)) if isinstance(error, NoNode) else error


def stat_of(stat: Any) -> Stat:
    """Make a Stat of kazoo's ZnodeStat."""
    return Stat(
        version=stat.version,
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        ephemeral_owner=stat.ephemeralOwner,
        children_version=stat.cversion,
        created_ms=stat.ctime,
        modified_ms=stat.mtime,
    )


def multi_results(operations: Sequence[Operation], answers: Sequence[Any], chroot: str) -> list[OperationResult]:
    """Translate what each operation gave; raises MultiFailed when they were not done."""
    for index, (operation, answer) in enumerate(zip(operations, answers, strict=True)):
        if isinstance(answer, Exception) and not isinstance(answer, NOT_THE_CAUSE):
            cause = store_error(answer, operation.path)
            raise MultiFailed(index, create_error(cause, operation.path) if isinstance(operation, Create) else cause)
    return [_result(operation, answer, chroot) for operation, answer in zip(operations, answers, strict=True)]


def _result(operation: Operation, answer: Any, chroot: str) -> OperationResult:
    match operation:
        case Create():
            return str(answer)[len(chroot) :]
        case SetData():
            return stat_of(answer)
        case _:
            return None


class Watched:
    """The watches that are set, by the lists in which SetWatches names them. Paths include the chroot."""

    def __init__(self) -> None:
        self._data: set[str] = set()
        self._exist: set[str] = set()
        self._children: set[str] = set()

    def existing(self, path: str, _: object = None) -> None:
        """Note a watch for the data of a znode that exists."""
        self._exist.discard(path)
        self._data.add(path)

    def existing_or_not(self, path: str, stat: object) -> None:
        """Note a watch for a znode that exists if there is a `stat`; if not, the watch waits for its creation."""
        if stat is not None:
            self.existing(path)
            return
        self._data.discard(path)
        self._exist.add(path)

    def children(self, path: str, _: object = None) -> None:
        self._children.add(path)

    def fired(self, kind: WatchKind, path: str) -> None:
        """Forget the watches that ZooKeeper has used up for an event."""
        if kind is not WatchKind.CHILDREN:
            self._data.discard(path)
            self._exist.discard(path)
        if kind in (WatchKind.CHILDREN, WatchKind.DELETED):
            self._children.discard(path)

    def clear(self) -> None:
        """Forget all watches, as the session has ended."""
        for paths in (self._data, self._exist, self._children):
            paths.clear()

    def data_paths(self) -> set[str]:
        return self._data | self._exist

    def children_paths(self) -> set[str]:
        return set(self._children)

    def requests(self, relative_zxid: int) -> Iterator[SetWatches]:
        """Make the requests that set all watches again."""
        for data in _slices(self._data):
            yield SetWatches(relative_zxid, data, [], [])
        for exist in _slices(self._exist):
            yield SetWatches(relative_zxid, [], exist, [])
        for children in _slices(self._children):
            yield SetWatches(relative_zxid, [], [], children)


def _slices(paths: set[str]) -> Iterator[list[str]]:
    ordered = sorted(paths)
    for begin in range(0, len(ordered), SET_WATCHES_PATHS_MAX):
        yield ordered[begin : begin + SET_WATCHES_PATHS_MAX]
