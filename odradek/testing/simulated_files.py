"""A file system in memory that forgets what was not synced.

`crash` stops the machine: of each file remains what was synced and, by chance, a torn part of what was written since;
of the changes of names remains a prefix in the order they were made. `kill` ends only the process: all that was
written is there. The choices come from one seeded random source, so a failing test is its seed.
"""

import errno
import os.path
import random
from collections.abc import Callable

from odradek.world.files import Buffer, File

SECTOR_BYTES = 512


class _Node:
    """A file's content: what programs see, and what the disk has for certain."""

    __slots__ = ("data", "durable", "locked", "modified_ms")

    def __init__(self, data: bytes = b"", modified_ms: int = 0) -> None:
        self.data = bytearray(data)
        self.durable = bytes(data)
        self.locked = False
        self.modified_ms = modified_ms


def _common_bytes(a: bytes, b: bytes) -> int:
    """How far both are the same."""
    for index, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return index
    return min(len(a), len(b))


class SimulatedFile:
    """An open file; valid until the machine or the process stops, whatever happens to its name."""

    def __init__(self, files: "SimulatedFiles", path: str, node: _Node) -> None:
        self.path = path
        self._files = files
        self._node = node
        self._generation = files.generation
        self._owns_lock = False

    def _check(self) -> None:
        assert self._generation == self._files.generation, f"{self.path} was opened before the crash"
        self._files.check(self.path)

    def append(self, data: Buffer) -> int:
        self._check()
        self._files.take_room(self._node, data)
        return len(data)

    def pread(self, size: int, position: int) -> bytes:
        self._check()
        return bytes(self._node.data[position : position + size])

    def size(self) -> int:
        return len(self._node.data)

    def truncate(self, size: int) -> None:
        self._check()
        data = self._node.data
        if size < len(data):
            del data[size:]
        else:
            data.extend(bytes(size - len(data)))

    def sync(self) -> None:
        self._check()
        self._files.syncs += 1
        self._node.durable = bytes(self._node.data)

    def fileno(self) -> int:
        raise OSError(f"{self.path} is simulated")

    def hold_lock(self) -> None:
        """Called by SimulatedFiles.lock."""
        self._node.locked = self._owns_lock = True

    def close(self) -> None:
        if self._owns_lock:
            self._node.locked = self._owns_lock = False


class SimulatedFiles:
    """A file system; `now_ms` dates the changes.

    `capacity_bytes` makes the disk full at that size; `broken` holds path prefixes where everything fails with EIO.
    """

    def __init__(self, seed: int = 0, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.random = random.Random(seed)
        self.now_ms = now_ms
        self.generation = 0
        self.syncs = 0
        self.capacity_bytes: int | None = None
        self.broken: set[str] = set()
        self._names: dict[str, _Node | None] = {"/": None}
        self._durable_names: dict[str, _Node | None] = {"/": None}
        self._journal: list[Callable[[dict[str, _Node | None]], object]] = []

    # what a test does to it

    def kill(self) -> None:
        """End the process: open files and locks are gone, written bytes stay."""
        self.generation += 1
        for node in self._names.values():
            if node is not None:
                node.locked = False

    def crash(self) -> None:
        """Stop the machine: keep what is durable and, by chance, part of the rest."""
        self.generation += 1
        names = self._durable_names
        for change in self._journal[: self.random.randint(0, len(self._journal))]:
            change(names)
        self._journal.clear()
        for node in names.values():
            if node is not None:
                node.data = bytearray(self._survivor(node))
                node.durable = bytes(node.data)
                node.locked = False
        self._names = dict(names)

    def _survivor(self, node: _Node) -> bytes:
        """What a stopped machine leaves of one file."""
        durable, data = node.durable, bytes(node.data)
        if not data.startswith(durable):
            if self.random.random() < 0.5:
                return durable
            durable = durable[: _common_bytes(durable, data)]
        kept = self.random.randint(len(durable), len(data))
        survivor = data[:kept]
        damage = self.random.choice(("none", "zeros", "garbage", "hole"))
        if damage == "none" or kept == len(durable):
            return survivor
        if damage == "hole":
            begin = self.random.randint(len(durable), kept - 1)
            length = min(SECTOR_BYTES, kept - begin)
            return survivor[:begin] + bytes(length) + survivor[begin + length :]
        tail = self.random.randint(1, SECTOR_BYTES)
        return survivor + (bytes(tail) if damage == "zeros" else self.random.randbytes(tail))

    def set_content(self, path: str, data: bytes) -> None:
        """Put a whole file there, durably."""
        node = self._names[path] = _Node(data, self.now_ms())
        self._durable_names[path] = node

    # what the program does

    def check(self, path: str) -> None:
        """EIO when the path lies in a broken place."""
        for prefix in self.broken:
            if path.startswith(prefix):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def take_room(self, node: _Node, data: Buffer) -> None:
        """Append as much as fits; ENOSPC when that was not all."""
        room = len(data)
        if self.capacity_bytes is not None:
            used = sum(len(other.data) for other in self._names.values() if other is not None)
            room = min(room, max(0, self.capacity_bytes - used))
        node.data += bytes(data[:room])
        node.modified_ms = self.now_ms()
        if room < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _change(self, change: Callable[[dict[str, _Node | None]], object]) -> None:
        change(self._names)
        self._journal.append(change)

    def _node(self, path: str) -> _Node:
        self.check(path)
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        node = self._names[path]
        if node is None:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _create(self, path: str) -> _Node:
        self.check(path)
        if not self.is_directory(os.path.dirname(path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        node = _Node(modified_ms=self.now_ms())
        self._change(lambda names: names.__setitem__(path, node))
        return node

    def open(self, path: str, *, create: bool = False) -> File:
        self.check(path)
        node = self._create(path) if create and path not in self._names else self._node(path)
        return SimulatedFile(self, path, node)

    def read(self, path: str) -> bytes:
        return bytes(self._node(path).data)

    def write_atomically(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        if temporary in self._names:
            self.remove(temporary)
        node = self._create(temporary)
        self.take_room(node, data)
        if sync:
            node.durable = bytes(node.data)
        self.rename(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        self.check(path)
        return path in self._names

    def size(self, path: str) -> int:
        return len(self._node(path).data)

    def modified_ms(self, path: str) -> int:
        return self._node(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._node(path).modified_ms = modified_ms

    def list_directory(self, path: str) -> list[str]:
        self.check(path)
        if not self.is_directory(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return sorted(os.path.basename(name) for name in self._names if os.path.dirname(name) == path and name != path)

    def is_directory(self, path: str) -> bool:
        return path in self._names and self._names[path] is None

    def make_directory(self, path: str) -> None:
        self.check(path)
        if path not in self._names:
            self.make_directory(os.path.dirname(path))
            self._change(lambda names: names.setdefault(path, None))

    def rename(self, old: str, new: str) -> None:
        self.check(new)
        if old not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)

        def move(names: dict[str, _Node | None]) -> None:
            if names.get(old, "") is None:
                for name in [name for name in names if name.startswith(old + "/")]:
                    names[new + name[len(old) :]] = names.pop(name)
            if old in names:
                names[new] = names.pop(old)

        self._change(move)

    def remove(self, path: str) -> None:
        self._node(path)
        self._change(lambda names: names.pop(path, None))

    def remove_directory(self, path: str) -> None:
        self.check(path)
        for name in [name for name in self._names if name == path or name.startswith(path + "/")]:
            self._change(lambda names, name=name: names.pop(name, None))  # type: ignore[misc]

    def sync_directory(self, path: str) -> None:
        """Makes all changes of names so far durable: an ordered journal, as on common file systems."""
        self.check(path)
        for change in self._journal:
            change(self._durable_names)
        self._journal.clear()

    def free_bytes(self, path: str) -> tuple[int, int]:
        total = self.capacity_bytes if self.capacity_bytes is not None else 1 << 40
        used = sum(len(node.data) for node in self._names.values() if node is not None)
        return total, max(0, total - used)

    def lock(self, path: str) -> File:
        self.check(path)
        node = self._node(path) if path in self._names else self._create(path)
        if node.locked:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        file = SimulatedFile(self, path, node)
        file.hold_lock()
        return file
