"""Real files and directories, as the operating system keeps them.

The system reports errors of open files without their names. They leave here with them: whoever reads that a log
directory goes offline wants to know where the disk has failed.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import struct
import sys

from odradek.world.files import Buffer, File

FALLOC_FL_KEEP_SIZE = 1
"""Flag of fallocate(2): the file's size stays what it is."""
SMALL_FILE_BYTES, LARGE_READ_BYTES = 16 * 1024, 1024 * 1024
LEADS_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Errors of stat(2) that tell of no trouble: there is no such file, or a link that never comes to one."""
FLOCK = "hhqqi0q"
"""struct flock of fcntl(2): kind, from where, start, length, process."""


class OsFile:
    """An open file of the operating system.

    The descriptor is given back when the last reference goes, so whoever still sends a range of a file that was closed
    by its log, or deleted, can finish: drop a reference instead of calling `close` when others may hold one.
    """

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def append(self, data: Buffer) -> int:
        length = len(data)
        try:
            written = os.write(self._descriptor, data)
            if written != length:
                view = memoryview(data)
                while written < length:
                    written += os.write(self._descriptor, view[written:])
        except OSError as error:
            error.filename = self.path
            raise
        return length

    def pread(self, size: int, position: int) -> bytes:
        try:
            data = os.pread(self._descriptor, size, position)
            if len(data) == size:
                return data
            parts = [data]
            while data and size > len(data):
                size -= len(data)
                position += len(data)
                data = os.pread(self._descriptor, size, position)
                parts.append(data)
        except OSError as error:
            error.filename = self.path
            raise
        return b"".join(parts)

    def size(self) -> int:
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            error.filename = self.path
            raise

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            error.filename = self.path
            raise

    def reserve(self, size: int) -> None:
        if sys.platform != "linux":
            return
        import ctypes  # few brokers preallocate

        library = ctypes.CDLL(None, use_errno=True)
        if library.fallocate(self._descriptor, FALLOC_FL_KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(size)):
            code = ctypes.get_errno()
            if code not in (errno.EOPNOTSUPP, errno.ENOSYS):
                self.truncate(self.size())
                raise OSError(code, os.strerror(code), self.path)

    def sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            error.filename = self.path
            raise

    def fileno(self) -> int:
        if self._descriptor < 0:
            raise OSError(f"{self.path} is closed")
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()


class OsFiles:
    """Files and directories of the operating system."""

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(path, os.open(path, flags, 0o644))

    def read(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # open() asks the system for more than it tells us
        try:
            parts = [os.read(descriptor, SMALL_FILE_BYTES)]
            while parts[-1]:
                parts.append(os.read(descriptor, LARGE_READ_BYTES))
            return b"".join(parts)
        except OSError as error:
            error.filename = path
            raise
        finally:
            os.close(descriptor)

    def write_atomically(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            try:
                written, view = 0, memoryview(data)
                while written < len(data):
                    written += os.write(descriptor, view[written:])
                if sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            os.unlink(temporary)
            error.filename = temporary
            raise
        os.replace(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        return _mode(path) != 0

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def is_directory(self, path: str) -> bool:
        return stat.S_ISDIR(_mode(path))

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path)
        except (FileExistsError, FileNotFoundError):
            os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        if os.path.islink(path):
            os.unlink(path)
        else:
            shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            error.filename = path
            raise
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> tuple[int, int]:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def lock(self, path: str) -> File:
        """Lock a file in two ways. Raises OSError when somebody else has locked it.

        `flock` works within one process too, and POSIX's lock is the one that Kafka's broker takes.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            error.filename = path
            raise
        return OsFile(path, descriptor)


def _mode(path: str) -> int:
    """Return what kind of file a path leads to, 0 when to none. Raises OSError: Python's own `os.path.exists` takes a
    disk that fails for a file that is not there, and what was compacted, or aborted, would be left out."""
    try:
        return os.stat(path).st_mode
    except OSError as error:
        if error.errno in LEADS_NOWHERE:
            return 0
        raise


def locked_by(path: str) -> int:
    """Return the process that holds POSIX's lock of a file, without taking it; 0 when nobody does, or there is no file.

    A process that hides in another container is -1. Never to be asked by the process that holds the lock: closing the
    file gives it back.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, process = struct.unpack(FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return 0 if kind == fcntl.F_UNLCK else process or -1


class ReadOnlyOsFiles(OsFiles):
    """Files for whoever only looks, and may not be allowed more."""

    def open(self, path: str, *, create: bool = False) -> File:
        return OsFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
