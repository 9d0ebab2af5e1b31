"""Exceptions of a disk in trouble. directories/live_logs.py has what happens when a disk fails, call by call."""

import errno

from odradek.protocol.errors import ErrorCode, KafkaError

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""Errors when no file descriptor is left: clients may hold them all. No log directory is given up for that; Kafka gives
up every one."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, *OUT_OF_DESCRIPTORS)
"""Errors when the disk is full, or no other file can be opened. Nothing is damaged: what needed the room is refused or
put off, and the directory goes on."""


class StorageFailure(KafkaError):  # noqa: N818 - the word the whole broker uses
    """A read or write failed: the log directory is offline from now on, with every log in it. Only a read or flush that
    lacked a file descriptor leaves it online, and may be tried again.

    The client whose request met the failure is answered KAFKA_STORAGE_ERROR, and so are all that come after.
    """

    def __init__(self, directory: str, cause: OSError) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {directory}: {cause}")
        self.directory = directory
        self.cause = cause


class NoRoom(KafkaError):  # noqa: N818 - says what is lacking
    """A log could not be made because the disk is full. Nothing is offline: it may be tried again."""


class UnusableDirectory(Exception):  # noqa: N818 - says what it is
    """A log directory that cannot be taken at start: not writable, locked by another broker, of another cluster."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(f"log directory {directory} cannot be used: {reason}")
        self.directory = directory
        self.reason = reason


class CorruptFile(Exception):  # noqa: N818 - says what it is
    """An index, snapshot or checkpoint does not decode; whoever reads it falls back to what the log itself says."""
