"""Key → offset of its newest record, in memory that is bounded whatever the keys are; and what follows for each record.

A slot is 24 bytes: 16 of a hash that stands for the key, 8 of the offset; two keys with one hash would take 2^64 keys.
The map is filled to at most `load_factor`; after a collision the hash gives the step to the next slot. Entries are
never removed. Source of the idea and of the sizes: org.apache.kafka.storage.internals.log.SkimpyOffsetMap of 3.9.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2s
from struct import Struct

from odradek.broker.log.batches import Batch
from odradek.protocol.record_batch import MAGIC_V2
from odradek.protocol.record_filter import GONE

HASH_BYTES = 16
SLOT_BYTES = HASH_BYTES + 8
SMALLEST_SLOTS = 3
HALVES = Struct(">QQ")
ROOMY_LOAD = 0.5
"""Load as long as memory allows it: in a map filled to nine tenths a missing key is looked for in ten slots."""
EMPTY = 0
"""Value of a slot without an offset: offsets are stored plus one."""
VERDICTS_MAX = 16 * 1024 * 1024
"""Bytes for verdicts on records."""


class OffsetMap:
    """Map of keys to offsets. `latest_offset`, moved by who fills it: how far the log has been put in; -1 at first."""

    __slots__ = ("_hashes", "_limit", "_offsets", "_slots", "entries", "latest_offset")

    def __init__(self, memory_bytes: int, load_factor: float, most_keys: int) -> None:
        """Make room for at most `most_keys` keys, in less memory when they need less. ValueError when it holds none."""
        fitting = memory_bytes // SLOT_BYTES
        wanted = int(most_keys / min(load_factor, ROOMY_LOAD)) + 2
        self._slots = _prime_up_to(max(SMALLEST_SLOTS, fitting)) if fitting <= wanted else _prime_from(wanted)
        self._limit = int(self._slots * load_factor)
        if fitting < SMALLEST_SLOTS or self._limit < 1:
            raise ValueError(f"{memory_bytes} bytes filled to {load_factor} hold no key")
        self._hashes = bytearray(self._slots * HASH_BYTES)
        self._offsets = array("q", bytes(8 * self._slots))
        self.entries = 0
        self.latest_offset = -1

    @property
    def memory_bytes(self) -> int:
        return self._slots * SLOT_BYTES

    def put(self, offsets: Sequence[int], keys: Sequence[bytes | None]) -> list[int]:
        """Put the next records of the log, until the map is full; return the offset of what each of them supersedes.

        It is -1 when there is nothing; a record without a key supersedes itself.
        """
        known, hashes, limit = self._offsets, self._hashes, self._limit
        superseded: list[int] = []
        for offset, (slot, digest) in zip(offsets, self._slots_of(keys), strict=True):
            if slot < 0:
                superseded.append(offset)
                continue
            if self.entries >= limit:
                break
            former = known[slot]
            if former == EMPTY:
                hashes[slot * HASH_BYTES : slot * HASH_BYTES + HASH_BYTES] = digest
                self.entries += 1
            known[slot] = offset + 1
            superseded.append(former - 1)
        if superseded:
            self.latest_offset = offsets[len(superseded) - 1]
        return superseded

    def get(self, keys: Sequence[bytes | None]) -> list[int]:
        """Return where the newest record of each key is; -1 when it was never put in."""
        return [self._offsets[slot] - 1 if slot >= 0 else -1 for slot, _ in self._slots_of(keys)]

    def _slots_of(self, keys: Sequence[bytes | None]) -> Iterator[tuple[int, bytes]]:
        """Yield for each key the slot with its hash, or the empty one for it, and the hash; (-1, b"") without a key.

        Each is looked up when it is asked for. The number of slots is prime, so that every step reaches all of them.
        """
        slots, offsets, hashes = self._slots, self._offsets, self._hashes
        for key in keys:
            if key is None:
                yield -1, b""
                continue
            digest = blake2s(key, digest_size=HASH_BYTES).digest()
            high, slot = HALVES.unpack(digest)
            slot %= slots
            while offsets[slot] != EMPTY:
                at = slot * HASH_BYTES
                if hashes[at : at + HASH_BYTES] == digest:
                    break
                slot = (slot + 1 + high % (slots - 1)) % slots
            yield slot, digest


def _is_prime(number: int) -> bool:
    if number < 4 or number % 2 == 0:
        return number in (2, 3)
    return all(number % divisor for divisor in range(3, int(number**0.5) + 1, 2))


def _prime_up_to(number: int) -> int:
    while not _is_prime(number):
        number -= 1
    return number


def _prime_from(number: int) -> int:
    while not _is_prime(number):
        number += 1
    return number


class RecordVerdicts:
    """Verdicts: what becomes of each dirty record from offset `start` to, not including, `end`.

    Known when the map is filled, so that few batches have to be decoded once more. A byte for each offset, for at most
    VERDICTS_MAX; of others the keys are looked up.
    """

    __slots__ = ("_start", "_verdicts")

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._verdicts = bytearray(min(max(0, end - start), VERDICTS_MAX))

    def _place(self, batch: Batch) -> slice | None:
        """Return where the bytes of a batch are in which every offset has a record; None for others and old formats."""
        begin, end = batch.base_offset - self._start, batch.last_offset + 1 - self._start
        complete = batch.magic == MAGIC_V2 and end - begin == batch.record_count
        return slice(begin, end) if complete and begin >= 0 and end <= len(self._verdicts) else None

    def learn(self, batch: Batch, verdicts: bytearray, superseded: Iterable[int]) -> None:
        """Note the verdicts on the next batch of the map, and that the records at `superseded` offsets have to go."""
        place = self._place(batch)
        if place is not None:
            self._verdicts[place] = verdicts
        known, start, size = self._verdicts, self._start, len(self._verdicts)
        for offset in superseded:
            if start <= offset < start + size:
                known[offset - start] = GONE

    def of(self, batch: Batch) -> bytearray | None:
        """Return a byte for each record of a batch that has come into the map; None when that is not known here."""
        place = self._place(batch)
        return None if place is None else self._verdicts[place]
