"""Files and directories of a file system in memory, and what is left of them when the machine stops.

Of a file remains what was synced; of what was written since, each sector by itself: as written, as it was before, zeros
or garbage. Of the changes of names in a directory that was not synced remains a prefix in the order they were made:
one prefix of all of them on a file system with one journal, one of each directory where there is none.
"""

import random
from collections.abc import Callable, Iterator

SECTOR_BYTES = (16, 64, 512)
"""Disks write sectors of 512 bytes and more; small ones tear small test files in more places."""


class FileNode:
    """A file's content: what programs see, and what the disk has for certain."""

    __slots__ = ("_durable", "_kept_bytes", "data", "locked", "modified_ms")

    def __init__(self, data: bytes = b"", modified_ms: int = 0) -> None:
        self.data = bytearray(data)
        self.locked = False
        self.modified_ms = modified_ms
        self._durable = b""
        self._kept_bytes = 0
        """Bytes at the beginning that no truncation has touched since the last sync."""

    def truncate(self, size: int) -> None:
        """Cut, or fill with zeros."""
        if size < len(self.data):
            del self.data[size:]
        else:
            self.data.extend(bytes(size - len(self.data)))
        self._kept_bytes = min(self._kept_bytes, size)

    def sync(self) -> None:
        """Put all that is seen on the disk."""
        self._durable = bytes(self.data)
        self._kept_bytes = len(self.data)

    def stop(self, source: random.Random) -> None:
        """Become what a machine finds that was stopped."""
        self.data = bytearray(self._survivor(source))
        self.locked = False
        self.sync()

    def _survivor(self, source: random.Random) -> bytes:
        durable, data, kept = self._durable, bytes(self.data), self._kept_bytes
        if kept == len(durable) == len(data):
            return durable
        lengths = [len(data), source.randint(kept, len(data))]
        if kept < len(durable):
            lengths.append(len(durable))
        length = source.choice(lengths)
        content = data[:length] + durable[len(data) : length]
        sector_bytes = source.choice(SECTOR_BYTES)
        match source.choice(("none", "hole", "torn", "zeros after", "garbage after")):
            case "hole" if length > kept:
                begin = source.randint(kept, length - 1)
                size = min(sector_bytes, length - begin)
                content = content[:begin] + bytes(size) + content[begin + size :]
            case "torn":
                content = content[:kept] + _torn(content, durable, kept, sector_bytes, source)
            case "zeros after" if length > len(durable):
                content += bytes(source.randint(1, sector_bytes))
            case "garbage after" if length > len(durable):
                content += source.randbytes(source.randint(1, sector_bytes))
        return content


def _torn(content: bytes, durable: bytes, kept: int, sector_bytes: int, source: random.Random) -> bytes:
    """Return each sector after byte `kept` as it was written, as it was before, as zeros or as garbage."""
    parts = []
    while kept < len(content):
        end = min(kept - kept % sector_bytes + sector_bytes, len(content))
        size = end - kept
        old = durable[kept:end].ljust(size, b"\0")
        parts.append(source.choice((content[kept:end], content[kept:end], old, bytes(size), source.randbytes(size))))
        kept = end
    return b"".join(parts)


class DirectoryNode:
    """Names: as programs see them, as the disk has them for certain, and the changes between."""

    __slots__ = ("_durable", "_pending", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self._durable: dict[str, Node] = {}
        self._pending: list[tuple[int, Change]] = []

    def change(self, number: int, change: "Change") -> None:
        """Numbers rise over all directories."""
        change(self.entries)
        self._pending.append((number, change))

    def sync(self) -> None:
        """Put all names that are seen on the disk."""
        if self._pending:
            self._durable = dict(self.entries)
            self._pending.clear()

    def numbers(self) -> list[int]:
        """List the numbers of the changes that the disk may not have."""
        return [number for number, _ in self._pending]

    def stop(self, last_change: int) -> None:
        """Keep changes up to that number."""
        for number, change in self._pending:
            if number <= last_change:
                change(self._durable)
        self.entries = dict(self._durable)
        self._pending.clear()

    def walk(self) -> Iterator["Node"]:
        """Iterate over itself and all that is in it; what it has is asked for after it was given out."""
        yield self
        for node in list(self.entries.values()):
            if isinstance(node, DirectoryNode):
                yield from node.walk()
            else:
                yield node

    def directories(self) -> Iterator["DirectoryNode"]:
        """Iterate over itself and all directories in it."""
        yield self
        for node in self.entries.values():
            if type(node) is DirectoryNode:
                yield from node.directories()


Node = FileNode | DirectoryNode
Change = Callable[[dict[str, Node]], object]


def stop_machine(root: DirectoryNode, source: random.Random, one_journal: bool) -> None:
    """Turn every node into what is found after a power failure."""
    pending = sorted(number for node in root.walk() if isinstance(node, DirectoryNode) for number in node.numbers())
    last_change = source.choice([0, *pending])
    for node in root.walk():
        if isinstance(node, FileNode):
            node.stop(source)
        elif one_journal:
            node.stop(last_change)
        else:
            node.stop(source.choice([0, *node.numbers()]))
