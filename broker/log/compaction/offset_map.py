"""Key → offset of its newest record, in memory that is bounded whatever the keys are.

A slot is 24 bytes: 16 of a hash that stands for the key, 8 of the offset; two keys with one hash would take 2^64 keys.
Filled to at most `load_factor`; collisions go on by a step of their own. Entries are never removed.
Source of the idea and of the sizes: org.apache.kafka.storage.internals.log.SkimpyOffsetMap of 3.9.
"""

from array import array
from hashlib import blake2b

HASH_BYTES = 16
SLOT_BYTES = HASH_BYTES + 8
SMALLEST_SLOTS = 3
EMPTY = 0
"""Offsets are stored plus one."""


class OffsetMap:
    """`latest_offset` is how far the log has been put in, -1 in the beginning; whoever fills the map moves it on."""

    __slots__ = ("_hashes", "_limit", "_offsets", "_slots", "entries", "latest_offset")

    def __init__(self, memory_bytes: int, load_factor: float, most_keys: int) -> None:
        """For at most `most_keys` keys: less memory is taken when they need less. ValueError when it holds no key."""
        fitting = memory_bytes // SLOT_BYTES
        wanted = int(most_keys / load_factor) + 2
        self._slots = _prime_up_to(max(SMALLEST_SLOTS, fitting)) if fitting <= wanted else _prime_from(wanted)
        self._limit = int(self._slots * load_factor)
        if fitting < SMALLEST_SLOTS or self._limit < 1:
            raise ValueError(f"{memory_bytes} bytes filled to {load_factor} hold no key")
        self._hashes = bytearray(self._slots * HASH_BYTES)
        self._offsets = array("q", bytes(8 * self._slots))
        self.entries = 0
        self.latest_offset = -1

    @property
    def is_full(self) -> bool:
        """No further key may be put in."""
        return self.entries >= self._limit

    @property
    def memory_bytes(self) -> int:
        return self._slots * SLOT_BYTES

    def put(self, key: bytes, offset: int) -> None:
        """The newest record of `key`; to be called in the order of the log, and only while the map is not full."""
        assert self.entries < self._limit, (self.entries, self._limit)
        digest = blake2b(key, digest_size=HASH_BYTES).digest()
        slot = self._find(digest)
        offsets = self._offsets
        if offsets[slot] == EMPTY:
            self._hashes[slot * HASH_BYTES : slot * HASH_BYTES + HASH_BYTES] = digest
            self.entries += 1
        offsets[slot] = offset + 1
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        """-1 when the key was never put in."""
        return self._offsets[self._find(blake2b(key, digest_size=HASH_BYTES).digest())] - 1

    def _find(self, digest: bytes) -> int:
        """The slot that has this hash, or the empty one where it belongs. A prime number of slots: all are reached."""
        slots, offsets, hashes = self._slots, self._offsets, self._hashes
        number = int.from_bytes(digest, "big")
        slot = number % slots
        step = 0
        while offsets[slot] != EMPTY:
            at = slot * HASH_BYTES
            if hashes[at : at + HASH_BYTES] == digest:
                return slot
            if step == 0:
                step = 1 + (number >> 64) % (slots - 1)
            slot = (slot + step) % slots
        return slot


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
