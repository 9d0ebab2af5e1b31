"""`.txnindex`: the aborted transactions whose markers lie in a segment, 34 bytes each; absent when there are none.

Source: org.apache.kafka.storage.internals.log.TransactionIndex and AbortedTxn of 3.9.
"""

import struct
from itertools import pairwise
from typing import NamedTuple

from odradek.broker.log.failure import CorruptFile

VERSION = 0
ENTRY = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """Data of `producer_id` from `first_offset` to the marker at `last_offset` is to be skipped by readers."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(aborted: AbortedTransaction) -> bytes:
    """One entry."""
    return ENTRY.pack(VERSION, *aborted)


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    """All entries of a file. Raises CorruptFile."""
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
