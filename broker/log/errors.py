"""Exceptions of a disk in trouble. directories/live_logs.py has what happens when a disk fails, call by call."""

import errno

from odradek.protocol.errors import ErrorCode, KafkaError

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""Clients may have taken them all: no disk is to be given up for that, as Kafka gives up every one it has."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, *OUT_OF_DESCRIPTORS)
"""No room, on the disk or for another open file, is no damage: what needed it is refused or put off, and the directory
goes on."""


class StorageFailure(KafkaError):  # noqa: N818 - the word the whole broker uses
    """A read or write failed: the log directory is offline from now on, and every log in it with it. But for a
    read or flush that had no descriptor left for its file: that may be tried again.

    For the client whose request ran into it, it is KAFKA_STORAGE_ERROR, as it is for all that come after.
    """

    def __init__(self, directory: str, cause: OSError) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {directory}: {cause}")
        self.directory = directory
        self.cause = cause


class NoRoom(KafkaError):  # noqa: N818 - what there is not
    """A log could not be made because the disk is full. Nothing is offline: it may be tried again."""


class UnusableDirectory(Exception):  # noqa: N818 - says what it is
    """A log directory that cannot be taken at start: not writable, locked by another broker, of another cluster."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(f"log directory {directory} cannot be used: {reason}")
        self.directory = directory
        self.reason = reason


class CorruptFile(Exception):  # noqa: N818 - says what it is
    """A small file of ours does not decode; whoever reads it falls back to what the log itself says."""
