"""A file system in memory that forgets what was not synced, fails, and stops where it is told to.

`crash` stops the machine (see simulated_disk for what is left), `kill` only the process: all that was written is there.
`stop_at` does so within a call: of an append any number of bytes are written, of other calls all or nothing. The
choices come from one seeded random source, so a failing test is its seed.
"""

import errno
import os
import posixpath
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from odradek.testing.simulated_disk import Change, DirectoryNode, FileNode, Node, stop_machine
from odradek.world.files import Buffer, File


class MachineStopped(BaseException):  # nothing that handles errors may go on after this
    """The call at which the process or the machine stopped; `crash` or `kill` come next."""


HIT = {"all": ("read", "change", "room"), "changes": ("change", "room"), "room": ("room",), "descriptors": ()}
"""Kinds of calls that a fault hits; the last one only those that open a file."""


class Fault(NamedTuple):
    """Calls that fail: from number `first` on `times` of those that concern a path under `under`."""

    first: int
    times: int
    code: int = errno.EIO
    under: str = "/"
    what: str = "all"
    """`changes`: reads go well, the file system was mounted anew for reading only; `room`: it is full, only new bytes
    and new files are refused; `descriptors`: no file can be opened, those that are open serve on."""

    def hits(self, call: int, path: str, kind: str) -> bool:
        """Tell whether the fault hits a call. `kind`: read, change, or room for a change that needs some."""
        kinds = HIT[self.what]
        return self.first <= call and self.times > 0 and path.startswith(self.under) and kind in kinds


class SimulatedFile:
    """An open file; valid until the machine or the process stops, whatever happens to its name."""

    def __init__(self, files: "SimulatedFiles", path: str, node: FileNode) -> None:
        self.path = path
        self._files = files
        self._node = node
        self._generation = files.generation
        self._owns_lock = False

    def _check(self) -> None:
        assert self._generation == self._files.generation, f"{self.path} was opened before the crash"
        self._files.read_from(self.path)

    def append(self, data: Buffer) -> int:
        assert self._generation == self._files.generation, f"{self.path} was opened before the crash"
        self._files.append_to(self._node, self.path, data)
        return len(data)

    def pread(self, size: int, position: int) -> bytes:
        self._check()
        return bytes(self._node.data[position : position + size])

    def size(self) -> int:
        self._check()
        return len(self._node.data)

    def truncate(self, size: int) -> None:
        assert self._generation == self._files.generation, f"{self.path} was opened before the crash"
        self._files.change(self.path, lambda: self._node.truncate(size))

    def reserve(self, size: int) -> None:
        """Reserve room, of which there is enough unless a fault is at hand."""
        self._files.change(self.path, lambda: None, "room")

    def sync(self) -> None:
        assert self._generation == self._files.generation, f"{self.path} was opened before the crash"
        self._files.change(self.path, self._node.sync)
        self._files.syncs += 1

    def fileno(self) -> int:
        raise OSError(f"{self.path} is simulated")

    def hold_lock(self) -> None:
        """Hold the lock, for SimulatedFiles.lock."""
        self._node.locked = self._owns_lock = True

    def close(self) -> None:
        if self._owns_lock:
            self._node.locked = self._owns_lock = False


class SimulatedFiles:
    """A file system; `now_ms` dates the changes.

    `capacity_bytes` makes the disk full at that size; `broken` holds path prefixes where everything fails with EIO.
    `changes` counts the calls that change something, `calls` all that a `fault` may hit.
    """

    def __init__(self, seed: int = 0, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.random = random.Random(seed)
        self.now_ms = now_ms
        self.generation = 0
        self.syncs = 0
        self.changes = 0
        self.calls = 0
        self.stop_at: int | None = None
        """Number of the change that is the last: that one, or the first after it whose path contains `stop_where`."""
        self.stop_where = ""
        self.on_stop: Callable[[], object] = lambda: None
        """Called within the last change; what it calls must have ended the process before anything else runs."""
        self.fault: Fault | None = None
        self.capacity_bytes: int | None = None
        self.broken: set[str] = set()
        self._one_journal = self.random.random() < 0.5
        self._stopped = False
        self._root = DirectoryNode()
        self._name_changes = 0

    # what a test does to it

    def kill(self) -> None:
        """End the process: open files and locks are gone, written bytes stay."""
        self._begin_anew()
        for node in self._root.walk():
            if isinstance(node, FileNode):
                node.locked = False

    def crash(self) -> None:
        """Stop the machine: keep what is durable and, by chance, part of the rest."""
        self._begin_anew()
        stop_machine(self._root, self.random, self._one_journal)

    def erase(self) -> None:
        """Put an empty disk in the place of this one; the process that held files of it must have ended."""
        self._begin_anew()
        self._root = DirectoryNode()

    def _begin_anew(self) -> None:
        self.generation += 1
        self._stopped = False
        self.live_on()

    def live_on(self) -> None:
        """Make no change the last one."""
        self.stop_at, self.stop_where, self.on_stop = None, "", lambda: None

    def set_content(self, path: str, data: bytes) -> None:
        """Put a whole file there, durably."""
        directory, name = self._parent(path, make=True)
        node = FileNode(data, self.now_ms())
        node.sync()
        directory.change(0, lambda entries: entries.__setitem__(name, node))
        directory.sync()

    def paths(self) -> list[str]:
        """List all files. It is no call that a fault could hit."""

        def below(path: str, directory: DirectoryNode) -> Iterator[str]:
            for name, node in directory.entries.items():
                if isinstance(node, DirectoryNode):
                    yield from below(f"{path}/{name}", node)
                else:
                    yield f"{path}/{name}"

        return sorted(below("", self._root))

    def flip(self, path: str, byte: int, bits: int = 1) -> None:
        """Rot: these bits of that byte are the other way round from now on; nobody is told, open files see it."""
        node = self._find(path)
        assert isinstance(node, FileNode), path
        node.data[byte] ^= bits
        node.sync()

    # where calls stop or fail

    def read_from(self, path: str) -> None:
        """Begin a call that reads. Raises OSError, MachineStopped."""
        self._fail(path, "read")

    def _fail(self, path: str, kind: str) -> None:
        if self._stopped:
            raise MachineStopped(path)
        self.calls += 1
        for prefix in self.broken:
            if path.startswith(prefix):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        fault = self.fault
        if fault is not None and fault.hits(self.calls, path, kind):
            self.fault = fault._replace(times=fault.times - 1)
            raise OSError(fault.code, os.strerror(fault.code), path)

    def _is_last_change(self, path: str) -> bool:
        self.changes += 1
        self._stopped = self.stop_at is not None and self.changes >= self.stop_at and self.stop_where in path
        if self._stopped:
            self.on_stop()
        return self._stopped

    def change(self, path: str, change: Callable[[], object], kind: str = "change") -> None:
        """Make all of a change or nothing. Raises OSError, MachineStopped."""
        self._fail(path, kind)
        if self._is_last_change(path):
            if self.random.random() < 0.5:
                change()
            raise MachineStopped(path)
        change()

    def append_to(self, node: FileNode, path: str, data: Buffer) -> None:
        """Append as much as fits; ENOSPC when that was not all. Raises OSError, MachineStopped."""
        node.modified_ms = self.now_ms()
        try:
            self._fail(path, "room")
        except OSError:
            node.data += bytes(data[: self.random.randint(0, len(data))])
            raise
        if self._is_last_change(path):
            node.data += bytes(data[: self.random.randint(0, len(data))])
            raise MachineStopped(path)
        room = len(data)
        if self.capacity_bytes is not None:
            room = min(room, max(0, self.capacity_bytes - self._used_bytes()))
        node.data += bytes(data[:room])
        if room < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def _used_bytes(self) -> int:
        return sum(len(node.data) for node in self._root.walk() if isinstance(node, FileNode))

    # names

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for name in path.split("/"):
            if name:
                if type(node) is not DirectoryNode:
                    return None
                node = node.entries.get(name)
        return node

    def _parent(self, path: str, *, make: bool = False) -> tuple[DirectoryNode, str]:
        """Return the directory that has or would have it, and the name in it."""
        above, name = posixpath.split(path)
        if make and self._find(above) is None:
            directory, last = self._parent(above, make=True)
            directory.change(0, lambda entries: entries.setdefault(last, DirectoryNode()))
            directory.sync()
        node = self._find(above)
        if not isinstance(node, DirectoryNode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node, name

    def _rename(self, path: str, directory: DirectoryNode, change: Change, kind: str = "change") -> None:
        """Make one change of a directory's names. Raises OSError, MachineStopped."""
        self._name_changes += 1
        self.change(path, lambda: directory.change(self._name_changes, change), kind)

    def _file(self, path: str) -> FileNode:
        self.read_from(path)
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(node, DirectoryNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _create(self, path: str) -> FileNode:
        directory, name = self._parent(path)
        node = FileNode(modified_ms=self.now_ms())
        self._rename(path, directory, lambda entries: entries.__setitem__(name, node), "room")
        return node

    def _take_descriptor(self, path: str) -> None:
        """Open a file, or a directory. Raises OSError while a fault leaves no descriptors."""
        fault = self.fault
        if fault is not None and fault.what == "descriptors" and path.startswith(fault.under):
            raise OSError(fault.code, os.strerror(fault.code), path)

    def open(self, path: str, *, create: bool = False) -> File:
        self._take_descriptor(path)
        node = self._create(path) if create and self._find(path) is None else self._file(path)
        return SimulatedFile(self, path, node)

    def read(self, path: str) -> bytes:
        self._take_descriptor(path)
        return bytes(self._file(path).data)

    def write_atomically(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        self._take_descriptor(path)
        temporary = path + ".tmp"
        if self._find(temporary) is not None:
            self.remove(temporary)
        node = self._create(temporary)
        try:
            self.append_to(node, temporary, data)
            if sync:
                self.change(temporary, node.sync)
        except OSError:
            directory, name = self._parent(temporary)
            directory.change(self._name_changes, lambda entries: entries.pop(name, None))
            raise
        self.rename(temporary, path)
        if sync:
            self.sync_directory(posixpath.dirname(path))

    def exists(self, path: str) -> bool:
        self.read_from(path)
        return self._find(path) is not None

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._file(path).modified_ms = modified_ms

    def list_directory(self, path: str) -> list[str]:
        self._take_descriptor(path)
        self.read_from(path)
        if isinstance(self._find(path), FileNode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return sorted(self._parent(path + "/")[0].entries)

    def is_directory(self, path: str) -> bool:
        self.read_from(path)
        return isinstance(self._find(path), DirectoryNode)

    def make_directory(self, path: str) -> None:
        self.read_from(path)
        if self._find(path) is None:
            self.make_directory(posixpath.dirname(path))
            directory, name = self._parent(path)
            node = DirectoryNode()
            self._rename(path, directory, lambda entries: entries.setdefault(name, node), "room")

    def rename(self, old: str, new: str) -> None:
        """Rename within one directory, as a log does: one change that a crash takes whole or not at all."""
        assert posixpath.dirname(old) == posixpath.dirname(new), (old, new)
        directory, name = self._parent(old)
        node = directory.entries.get(name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        following = posixpath.basename(new)

        def move(entries: dict[str, Node]) -> None:
            entries.pop(name, None)
            entries[following] = node

        self._rename(old, directory, move)

    def remove(self, path: str) -> None:
        self._file(path)
        directory, name = self._parent(path)
        self._rename(path, directory, lambda entries: entries.pop(name, None))

    def remove_directory(self, path: str) -> None:
        for name in self.list_directory(path):
            inner = f"{path}/{name}"
            if self.is_directory(inner):
                self.remove_directory(inner)
            else:
                self.remove(inner)
        directory, last = self._parent(path)
        self._rename(path, directory, lambda entries: entries.pop(last, None))

    def sync_directory(self, path: str) -> None:
        """Make a directory's changes of names durable; with one journal, also those of others before them."""
        self._take_descriptor(path)
        directory = self._parent(path + "/")[0]

        def sync() -> None:
            for node in self._root.directories() if self._one_journal else (directory,):
                node.sync()

        self.change(path, sync)

    def free_bytes(self, path: str) -> tuple[int, int]:
        total = self.capacity_bytes if self.capacity_bytes is not None else 1 << 40
        return total, max(0, total - self._used_bytes())

    def lock(self, path: str) -> File:
        node = self._create(path) if self._find(path) is None else self._file(path)
        if node.locked:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        file = SimulatedFile(self, path, node)
        file.hold_lock()
        return file
