"""`.txnindex`: the aborted transactions whose markers lie in a segment, 34 bytes each; absent when there are none.

Source: org.apache.kafka.storage.internals.log.TransactionIndex and AbortedTxn of 3.9.
"""

import logging
import struct
from itertools import pairwise
from typing import NamedTuple

from odradek.broker.log.errors import NO_ROOM, CorruptFile
from odradek.world.files import Files

logger = logging.getLogger(__name__)

VERSION = 0
ENTRY = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """Data of `producer_id` from `first_offset` to the marker at `last_offset` is to be skipped by readers."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(aborted: AbortedTransaction) -> bytes:
    """Encode one entry."""
    return ENTRY.pack(VERSION, *aborted)


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    """Decode all entries of a file. Raises CorruptFile."""
    if len(data) % ENTRY.size:
        raise CorruptFile(f"transaction index of {len(data)} bytes: not a multiple of {ENTRY.size}")
    entries = []
    for version, *fields in ENTRY.iter_unpack(data):
        if version != VERSION:
            raise CorruptFile(f"transaction index entry of version {version}")
        entries.append(AbortedTransaction(*fields))
    if any(a.last_offset >= b.last_offset for a, b in pairwise(entries)):
        raise CorruptFile("entries of the transaction index do not increase")
    for one in entries:  # without a checksum nothing else shows a flipped bit, or zeros
        if one.producer_id < 0 or one.last_stable_offset < 0 or not 0 <= one.first_offset < one.last_offset:
            raise CorruptFile(f"transaction index with {one}")
    return entries


class TransactionIndex:
    """The file of one segment, read once and then kept in memory. Methods raise OSError as the disk does."""

    __slots__ = ("_files", "_path", "_unwritten", "_written")

    def __init__(self, files: Files, path: str) -> None:
        self._files, self._path = files, path
        self._written: list[AbortedTransaction] | None = None
        self._unwritten: tuple[AbortedTransaction, ...] = ()
        """Entries that come after these, for which there was no room on the disk."""

    def moved_to(self, path: str) -> None:
        """Take the new name of the file."""
        self._path = path

    def entries(self) -> list[AbortedTransaction]:
        """Return all aborted transactions in the order of their markers; not to be changed. Raises CorruptFile."""
        written = self._read()
        return [*written, *self._unwritten] if self._unwritten else written

    def _read(self) -> list[AbortedTransaction]:
        if self._written is None:
            try:
                self._written = decode_aborted(self._files.read(self._path))
            except FileNotFoundError:
                self._written = []
        return self._written

    def append(self, aborted: AbortedTransaction) -> None:
        """Append an entry; the first one creates the file."""
        written = self._read()
        self._files.open(self._path, create=True).append(encode_aborted(aborted))
        written.append(aborted)

    def append_or_put_off(self, aborted: AbortedTransaction) -> None:
        """Append an entry, in memory alone while there is no room on the disk: its marker is in the log already."""
        self._unwritten += (aborted,)
        self.try_again()

    def try_again(self) -> bool:
        """Write what was put off. Returns whether all is in the file, to be synced."""
        if not self._unwritten:
            return True
        try:
            written = self._read()
            file = self._files.open(self._path, create=True)
            if file.size() > len(written) * ENTRY.size:  # an attempt may have left the beginning of an entry
                file.truncate(len(written) * ENTRY.size)
            file.append(b"".join(map(encode_aborted, self._unwritten)))
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            logger.warning("%s: no space for aborted transactions: %s", self._path, error)
            return False
        except CorruptFile as bad:
            logger.error("%s: %s", self._path, bad)
            return False
        written += self._unwritten
        self._unwritten = ()
        return True

    def keep_before(self, offset: int) -> None:
        """Forget the transactions whose marker is at or after `offset`."""
        entries = self.entries()
        kept = [entry for entry in entries if entry.last_offset < offset]
        if len(kept) < len(entries):
            self._files.write_atomically(self._path, b"".join(map(encode_aborted, kept)), sync=False)
            self._written, self._unwritten = kept, ()

    def clear(self) -> bool:
        """Forget all, readable or not: it is learned again from the batches. Tells whether there was a file."""
        self._written, self._unwritten = [], ()
        if not self._files.exists(self._path):
            return False
        self._files.remove(self._path)
        return True

    def sync(self) -> None:
        """Sync the file, if there is one, to the disk."""
        if self._files.exists(self._path):
            self._files.open(self._path).sync()

    def release(self) -> None:
        """Give the memory back, unless it holds what the disk has no room for."""
        if not self._unwritten:  # else the file may end with the beginning of an entry
            self._written = None
