"""Files and directories. Everything a log writes goes through these two protocols, so that a test can tear any byte.

Paths are plain strings. Every call raises OSError as the operating system would.
"""

from typing import Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file."""

    path: str

    def append(self, data: Buffer) -> int:
        """Write all of `data` at the end; return its length. Raises OSError when not all of it could be written."""

    def pread(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes from `position`; fewer only at the end of the file."""

    def size(self) -> int:
        """Return the length in bytes."""

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes."""

    def reserve(self, size: int) -> None:
        """Take room for `size` bytes in all; the length stays. `truncate` gives back what is not used.

        A file system that cannot do this does nothing.
        """

    def sync(self) -> None:
        """Return when the content is on the disk (fsync)."""

    def fileno(self) -> int:
        """Return the descriptor, for sendfile; a simulated file has none and raises OSError."""

    def close(self) -> None:
        """Give the descriptor back; harmless twice."""


class Files(Protocol):
    """A file system."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and writing. Raises FileNotFoundError unless it is there, or `create`."""

    def read(self, path: str) -> bytes:
        """Return all of a file's content. Raises FileNotFoundError."""

    def write_atomically(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        """Replace the whole file: temporary name, sync, rename, sync of the directory. A crash leaves old or new.

        Without `sync` that holds when the process is killed; when the machine stops the file may be torn or gone.
        """

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory has that name."""

    def size(self, path: str) -> int:
        """Return a file's length in bytes."""

    def modified_ms(self, path: str) -> int:
        """Return when a file was last changed, in milliseconds since 1970."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set when a file was last changed, in milliseconds since 1970."""

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def is_directory(self, path: str) -> bool:
        """Tell whether a path is that of a directory."""

    def make_directory(self, path: str) -> None:
        """Make a directory with its parents; harmless when it is there."""

    def rename(self, old: str, new: str) -> None:
        """Rename atomically, replacing `new`. Durable only after `sync_directory`."""

    def remove(self, path: str) -> None:
        """Remove a file. Raises FileNotFoundError."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all that is in it; of a link to a directory, only the link."""

    def sync_directory(self, path: str) -> None:
        """Return when creations, renames and removals in a directory are on the disk (fsync)."""

    def lock(self, path: str) -> File:
        """Create the file and hold it alone until the File is closed; BlockingIOError when somebody else does."""

    def free_bytes(self, path: str) -> tuple[int, int]:
        """Return the total and the usable bytes of the file system that holds `path`."""


class FileRange:
    """Bytes of a file that are to be sent from where they are. Holding it keeps the file readable, deleted or not."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """Return the bytes themselves."""
        return self.file.pread(self.length, self.position)
