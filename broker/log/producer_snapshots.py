"""`<offset>.snapshot`: the producers of a partition at that offset, in Kafka's format; and the snapshots of one log.

int16 version = 1, uint32 CRC-32C of the rest, array of (int64 producer id, int16 epoch, int32 last sequence, int64 last
offset, int32 offset delta, int64 timestamp, int32 coordinator epoch, int64 first offset of the open transaction or -1).
Of the remembered batches only the newest is kept. Source: ProducerStateManager.writeSnapshot of 3.9.
"""

import logging
import re
import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable

from odradek.broker.log.errors import NO_ROOM, CorruptFile
from odradek.broker.log.producer_entry import ProducerEntry, RememberedBatch
from odradek.broker.log.producer_sequences import sequence_after
from odradek.broker.log.producer_state import ProducerState
from odradek.protocol.checksum import crc32c
from odradek.world.files import Files

logger = logging.getLogger(__name__)

SNAPSHOT = ".snapshot"
NAME = re.compile(r"[0-9]{20}\.snapshot")
VERSION = 1
HEAD = struct.Struct(">hI")
COUNT = struct.Struct(">i")
ENTRY = struct.Struct(">qhiqiqiq")


def encode_snapshot(producers: Iterable[ProducerEntry]) -> bytes:
    """Return the file's bytes."""
    entries = [_encode_entry(producer) for producer in producers]
    body = COUNT.pack(len(entries)) + b"".join(entries)
    return HEAD.pack(VERSION, crc32c(body)) + body


def _encode_entry(producer: ProducerEntry) -> bytes:
    sequence, offset, delta = -1, -1, 0
    if producer.batches:
        newest = producer.batches[-1]
        sequence, offset, delta = newest.last_sequence, newest.last_offset, newest.last_offset - newest.first_offset
    return ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        sequence,
        offset,
        delta,
        producer.last_timestamp_ms,
        producer.coordinator_epoch,
        producer.transaction_first_offset,
    )


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Decode the producers of a snapshot. Raises CorruptFile."""
    if len(data) < HEAD.size + COUNT.size:
        raise CorruptFile(f"snapshot of {len(data)} bytes")
    version, checksum = HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptFile(f"snapshot version {version}, expected {VERSION}")
    body = data[HEAD.size :]
    if crc32c(body) != checksum:
        raise CorruptFile(f"snapshot checksum is {crc32c(body)}, stored {checksum}")
    (count,) = COUNT.unpack_from(body)
    if len(body) != COUNT.size + count * ENTRY.size:
        raise CorruptFile(f"snapshot of {count} entries has {len(data)} bytes")
    return [_decode_entry(*fields) for fields in ENTRY.iter_unpack(body[COUNT.size :])]


def _decode_entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    transaction_first_offset: int,
) -> ProducerEntry:
    producer = ProducerEntry(producer_id, epoch)
    if last_offset >= 0:
        first_sequence = sequence_after(last_sequence, -offset_delta) if last_sequence >= 0 else -1
        first_offset = last_offset - offset_delta
        producer.remember(RememberedBatch(first_sequence, last_sequence, first_offset, last_offset, timestamp_ms))
        producer.known_offset = last_offset
    producer.last_timestamp_ms = timestamp_ms
    producer.coordinator_epoch = coordinator_epoch
    producer.transaction_first_offset = transaction_first_offset
    return producer


class Snapshots:
    """Files `<offset>.snapshot` of a partition's directory. Methods raise OSError as the disk does."""

    __slots__ = ("_directory", "_files", "_offsets")

    def __init__(self, files: Files, directory: str, names: list[str]) -> None:
        """Take the listing of the directory as `names`."""
        self._files = files
        self._directory = directory
        self._offsets = sorted(int(name.removesuffix(SNAPSHOT)) for name in names if is_snapshot(name))

    def moved_to(self, directory: str) -> None:
        """Take the new name of the log's directory."""
        self._directory = directory

    @property
    def latest(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    def path(self, offset: int) -> str:
        """Return where the snapshot at that offset is."""
        return f"{self._directory}/{offset:020d}{SNAPSHOT}"

    def write(self, state: ProducerState) -> None:
        """Write a snapshot of the state's end offset, unless there is one already, or no room.

        A torn one is found by its checksum.
        """
        offset = state.map_end_offset
        if offset in self._offsets:
            return
        data = encode_snapshot(state.producers.values())
        try:
            self._files.write_atomically(self.path(offset), data, sync=False)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            logger.error("no space for %s, which is not written: %s", self.path(offset), error)
            return
        insort(self._offsets, offset)

    def load(self, first_offset: int, now_ms: int, expiration_ms: int) -> ProducerState:
        """Load the newest good snapshot, without expired producers; bad ones are removed. With none, begin empty."""
        while self._offsets:
            offset = self._offsets[-1]
            try:
                producers = decode_snapshot(self._files.read(self.path(offset)))
            except (CorruptFile, FileNotFoundError) as error:
                logger.warning("%s cannot be read and is removed: %s", self.path(offset), error)
                self._remove(self._offsets[-1:])
                continue
            state = ProducerState(offset, producers)
            state.expire(now_ms, expiration_ms)
            return state
        return ProducerState(first_offset)

    def remove_after(self, offset: int) -> None:
        """Drop the snapshots after `offset`."""
        self._remove(self._offsets[bisect_right(self._offsets, offset) :])

    def keep_of_segments(self, base_offsets: Collection[int]) -> None:
        """Drop the snapshots at which no segment begins, except the newest when it is after all of these: the one of a
        clean shutdown (ProducerStateManager.removeStraySnapshots)."""
        begins = set(base_offsets)
        stray = [offset for offset in self._offsets if offset not in begins]
        if stray and stray[-1] > max(begins, default=-1):
            stray.pop()
        self._remove(stray)

    def remove_before(self, offset: int) -> None:
        """Drop the snapshots before `offset`."""
        self._remove(self._offsets[: bisect_left(self._offsets, offset)])

    def remove_all(self) -> None:
        """Drop every snapshot."""
        self._remove(self._offsets)

    def remove_at(self, offsets: list[int]) -> None:
        """Drop the snapshots at these offsets, where there are any: no segment begins there any more."""
        self._remove([offset for offset in offsets if offset in self._offsets])

    def _remove(self, offsets: list[int]) -> None:
        for offset in offsets:
            if self._files.exists(self.path(offset)):
                self._files.remove(self.path(offset))
        gone = set(offsets)
        self._offsets = [offset for offset in self._offsets if offset not in gone]


def is_snapshot(name: str) -> bool:
    """Tell whether a file has the name of a snapshot: `00000000000000000042.snapshot`."""
    return NAME.fullmatch(name) is not None
