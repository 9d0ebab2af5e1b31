"""The real file system as the disk of an embedded broker: what its process holds is given back when it is killed."""

from odradek.world.files import File
from odradek.world.os_files import OsFiles


class FolderDisk(OsFiles):
    """Files of the operating system. The locks of a killed broker end with it, though this process lives on."""

    def __init__(self) -> None:
        self._locks: list[File] = []

    def lock(self, path: str) -> File:
        lock = super().lock(path)
        self._locks.append(lock)
        return lock

    def kill(self) -> None:
        """End the process that holds them: open files and locks are gone, written bytes stay."""
        for lock in self._locks:
            lock.close()
        self._locks.clear()
