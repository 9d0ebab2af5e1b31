"""`.txnindex`: the aborted transactions whose markers lie in a segment, 34 bytes each; absent when there are none.

Source: org.apache.kafka.storage.internals.log.TransactionIndex and AbortedTxn of 3.9.
"""

import struct
from itertools import pairwise
from typing import NamedTuple

from odradek.broker.log.errors import CorruptFile
from odradek.world.files import Files

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
        raise CorruptFile("transaction index does not rise")
    return entries


class TransactionIndex:
    """The file of one segment, read once and then kept in memory. Methods raise OSError as the disk does."""

    __slots__ = ("_entries", "_files", "_path")

    def __init__(self, files: Files, path: str) -> None:
        self._files, self._path = files, path
        self._entries: list[AbortedTransaction] | None = None

    def entries(self) -> list[AbortedTransaction]:
        """Return all in the order of their markers; not to be changed. Raises CorruptFile."""
        if self._entries is None:
            try:
                self._entries = decode_aborted(self._files.read(self._path))
            except FileNotFoundError:
                self._entries = []
        return self._entries

    def append(self, aborted: AbortedTransaction) -> None:
        """Append an entry; the first one creates the file."""
        entries = self.entries()
        self._files.open(self._path, create=True).append(encode_aborted(aborted))
        entries.append(aborted)

    def keep_before(self, offset: int) -> None:
        """Forget those whose marker is at or after `offset`."""
        entries = self.entries()
        kept = [entry for entry in entries if entry.last_offset < offset]
        if len(kept) < len(entries):
            self._files.write_atomically(self._path, b"".join(map(encode_aborted, kept)), sync=False)
            self._entries = kept

    def clear(self) -> bool:
        """Forget all, readable or not: the batches will tell again. Whether there was a file."""
        self._entries = []
        if not self._files.exists(self._path):
            return False
        self._files.remove(self._path)
        return True

    def sync(self) -> None:
        """Sync the file, if there is one, to the disk."""
        if self._files.exists(self._path):
            self._files.open(self._path).sync()

    def release(self) -> None:
        """Give the memory back."""
        self._entries = None
