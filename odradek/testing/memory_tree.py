"""The data of a ZooKeeper without its sessions: a tree of znodes that transactions change all or nothing.

Behaves as ZooKeeper 3.9 in what a client can see: versions, zxids, sequence numbers that count the children ever made
under a parent, `children_version` that counts makings and deletions.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from odradek.zk_schema.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    SetData,
    Stat,
    StoreError,
    WatchKind,
    parent,
)


class Change(NamedTuple):
    """A znode that a transaction touched. CHILDREN is implied for the parent by CREATED and DELETED."""

    kind: WatchKind
    path: str


class Node:
    """A znode."""

    __slots__ = ("children", "children_made", "created_ms", "czxid", "data", "modified_ms", "mzxid", "owner", "version")

    def __init__(self, data: bytes, owner: int, zxid: int, now_ms: int) -> None:
        self.data = data
        self.owner = owner
        self.version = 0
        self.czxid = self.mzxid = zxid
        self.created_ms = self.modified_ms = now_ms
        self.children: set[str] = set()
        self.children_made = 0

    def copy(self) -> "Node":
        """Return one of its own for another tree."""
        copied = Node(self.data, self.owner, self.czxid, self.created_ms)
        copied.version, copied.mzxid, copied.modified_ms = self.version, self.mzxid, self.modified_ms
        copied.children, copied.children_made = set(self.children), self.children_made
        return copied

    def stat(self) -> Stat:
        return Stat(
            version=self.version,
            czxid=self.czxid,
            mzxid=self.mzxid,
            ephemeral_owner=self.owner,
            children_version=2 * self.children_made - len(self.children),
            created_ms=self.created_ms,
            modified_ms=self.modified_ms,
        )


def check_path(path: str) -> None:
    """Refuse what is no absolute, plain path. Raises ValueError."""
    if path != "/" and not {"", ".", ".."}.isdisjoint(path.split("/")[1:]):
        raise ValueError(f"not the path of a znode: {path!r}")


class Tree:
    """Tree of all znodes, and the number of the last transaction."""

    def __init__(self) -> None:
        self.last_zxid = 0
        self._nodes = {"/": Node(b"", 0, 0, 0)}

    def copy(self) -> "Tree":
        """Return a tree that goes its own way from here."""
        copied = Tree()
        copied.last_zxid = self.last_zxid
        copied._nodes = {path: node.copy() for path, node in self._nodes.items()}
        return copied

    def node(self, path: str) -> Node:
        """Return a znode. Raises NoNode, and ValueError for a path that a client of ZooKeeper refuses."""
        node = self.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def get(self, path: str) -> Node | None:
        node = self._nodes.get(path)
        if node is None:
            check_path(path)
        return node

    def ephemerals(self, session_id: int) -> list[str]:
        """Paths of the znodes that live with a session."""
        return [path for path, node in self._nodes.items() if node.owner == session_id]

    def commit(
        self, operations: Sequence[Operation], session_id: int, now_ms: int
    ) -> tuple[list[OperationResult], list[Change]]:
        """Carry out all operations in one transaction, or none: raises MultiFailed."""
        transaction = _Transaction(self._nodes, self.last_zxid + 1, session_id, now_ms)
        results: list[OperationResult] = []
        for index, operation in enumerate(operations):
            try:
                results.append(transaction.apply(operation))
            except StoreError as cause:
                transaction.undo()
                raise MultiFailed(index, cause) from cause
        self.last_zxid += 1
        return results, transaction.changes


class _Transaction:
    """Changes the tree step by step, remembering how to take each step back."""

    def __init__(self, nodes: dict[str, Node], zxid: int, session_id: int, now_ms: int) -> None:
        self.changes: list[Change] = []
        self._nodes = nodes
        self._zxid = zxid
        self._session_id = session_id
        self._now_ms = now_ms
        self._undo: list[Callable[[], object]] = []

    def undo(self) -> None:
        for step in reversed(self._undo):
            step()

    def apply(self, operation: Operation) -> OperationResult:
        match operation:
            case Create():
                return self._create(operation)
            case SetData():
                return self._set(operation)
            case Delete():
                self._delete(operation)
            case Check():
                self._expect(operation.path, operation.version)
        return None

    def _expect(self, path: str, version: int) -> Node:
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(path)
        return node

    def _create(self, operation: Create) -> str:
        above = self._nodes.get(parent(operation.path))
        if above is None:
            raise NoNode(parent(operation.path))
        if above.owner:
            raise NoChildrenForEphemerals(operation.path)
        path = f"{operation.path}{above.children_made:010d}" if operation.sequential else operation.path
        if path in self._nodes:
            raise NodeExists(path)
        name = path.rpartition("/")[2]
        self._nodes[path] = Node(
            operation.data, self._session_id if operation.ephemeral else 0, self._zxid, self._now_ms
        )
        above.children.add(name)
        above.children_made += 1
        self._undo.append(lambda: self._uncreate(path, above, name))
        self.changes.append(Change(WatchKind.CREATED, path))
        return path

    def _uncreate(self, path: str, above: Node, name: str) -> None:
        del self._nodes[path]
        above.children.remove(name)
        above.children_made -= 1

    def _set(self, operation: SetData) -> Stat:
        node = self._expect(operation.path, operation.version)
        before = (node.data, node.version, node.mzxid, node.modified_ms)
        self._undo.append(lambda: self._restore(node, before))
        node.data = operation.data
        node.version += 1
        node.mzxid = self._zxid
        node.modified_ms = self._now_ms
        self.changes.append(Change(WatchKind.CHANGED, operation.path))
        return node.stat()

    def _restore(self, node: Node, before: tuple[bytes, int, int, int]) -> None:
        node.data, node.version, node.mzxid, node.modified_ms = before

    def _delete(self, operation: Delete) -> None:
        node = self._expect(operation.path, operation.version)
        if node.children:
            raise NotEmpty(operation.path)
        above = self._nodes[parent(operation.path)]
        name = operation.path.rpartition("/")[2]
        del self._nodes[operation.path]
        above.children.remove(name)
        self._undo.append(lambda: self._undelete(operation.path, node, above, name))
        self.changes.append(Change(WatchKind.DELETED, operation.path))

    def _undelete(self, path: str, node: Node, above: Node, name: str) -> None:
        self._nodes[path] = node
        above.children.add(name)
