"""Bit rot: bits on one broker's disk turn over, in what it has held for a while, and nobody is told.

The broker may send what has rotted, as Kafka does; nobody may take it for a record, and no replica may take it over.
That is all which a rotten disk may cost: while it is there, some of what lies on it cannot be read, and when somebody
has put another one in its place, all that was acknowledged is there, for the other replicas were in sync.

A false entry of an index costs time and leads past no record (`misled`).

Offsets and leader epochs of batches, indexes of aborted transactions, and checkpoints of leader epochs that would rise
as before, do not turn over here: no checksum of Kafka's formats covers them, and a start does not read the whole log to
find out what they should be.
"""

import posixpath
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from odradek.broker.log.batches import Batch, iterate_headers
from odradek.broker.log.checkpoint_format import LEADER_EPOCHS, decode_epochs
from odradek.broker.log.errors import CorruptFile, StorageFailure
from odradek.broker.log.leader_epochs import LeaderEpochs
from odradek.broker.log.log import Log
from odradek.broker.log.offset_lookup import find_offset
from odradek.broker.log.segment import Segment
from odradek.protocol.errors import KafkaError
from odradek.protocol.record_batch import BatchHeader, CorruptBatch, batches
from odradek.protocol.steps import at_once
from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulation.faults import Faults

LOG, INDEX = ".log", ".index"
UNCHECKED = (".txnindex", ".txnindex.deleted")
NOT_COVERED = (*range(8), *range(12, 16))
"""Bytes of a batch that its checksum does not cover: its offset, and its leader epoch."""
LOG_IN = 0.4
"""Probability that it is the log itself that rots."""
INDEX_IN = 0.3
"""Probability, otherwise, that it is an index of offsets."""
INDEX_NUMBER, LOW_BYTE = 4, 3
"""Bytes of an offset or a position, and that of them which, another one, leaves them rising mostly."""


class Reader(Protocol):
    """A client that reads, and judges what it is given."""

    def stop(self) -> None:
        """End at once."""


class BitRot:
    """Bit rot on the disks of one cluster; `others` says which brokers are free."""

    def __init__(self, others: Faults, read_again: Callable[[], Sequence[Reader]]) -> None:
        """`read_again` makes readers who read all topics from their beginning."""
        self._others, self._read_again, self._history = others, read_again, others.history
        self._random, self._note = others.random, others.history.note
        self._sound: dict[tuple[str, int], bool] = {}
        """Partitions of which something has rotted: True if it lies beside their batches, False if in them."""
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {"bit_rot": self.bit_rot}

    async def bit_rot(self) -> None:
        """Let a disk rot under a broker that works, or is killed, or shut down; then it leads or follows with it, until
        it is given another one. Only while all is well, and alone until all is well again."""
        await self._others.alone_while_well(self._rot_and_replace)

    async def _rot_and_replace(self, broker: EmbeddedBroker) -> None:
        if not await self._others.administrator.unthrottle():
            return  # limits would keep the others from following, and only the rotten disk would have what is new
        await self._stop(broker)
        self._history.rotten.add(broker.broker_id)
        self._others.on_lost_data(broker)
        self._sound.clear()
        rotten = [self._rot(broker) for _ in range(self._random.randint(1, 3))]
        await self._others.pass_time(0.05, 5.0)
        if not broker.running:
            await self._others.try_to_start(broker)
            await self._others.pass_time(0.5, 8.0)
        for partition in rotten:
            if partition is not None:
                await self._others.administrator.give_the_lead_to(partition, broker.broker_id)
        readers = self._read_again()
        await self._others.pass_time(0.5, 6.0)
        for reader in readers:
            reader.stop()
        self._look_up(broker)
        await self._replace(broker)

    def _look_up(self, broker: EmbeddedBroker) -> None:
        """Require that logs which have not rotted, but what is beside them has, give whatever is looked for."""
        held = broker.server.services.replicas.partitions if broker.running else {}
        for where, is_sound in self._sound.items():
            partition = held.get(where)
            if is_sound and partition is not None and not partition.offline:
                wrong = misled(partition.log)
                if wrong is not None:
                    self._history.violated(f"{partition} on {broker.host}: {wrong}")

    async def _stop(self, broker: EmbeddedBroker) -> None:
        """Kill it, or shut it down, or leave it alone."""
        match self._random.choice(("work", "kill", "shut down")):
            case "kill":
                self._note(f"kill {broker.host}")
                broker.kill()
            case "shut down":
                self._note(f"controlled shutdown of {broker.host}")
                await broker.stop()

    async def _replace(self, broker: EmbeddedBroker) -> None:
        self._note(f"{broker.host} is given a new disk")
        if broker.running:
            broker.kill()
        self._others.on_lost_data(broker)
        broker.files.erase()
        await self._others.start(broker)
        self._history.mended(broker.broker_id)

    def _rot(self, broker: EmbeddedBroker) -> tuple[str, int] | None:
        """Turn over a bit of one of its files; return whose partition's it is."""
        by_kind = defaultdict(list)
        for path in broker.files.paths():
            name = posixpath.basename(path)
            if broker.files.size(path) and not name.endswith(UNCHECKED):
                by_kind[posixpath.splitext(name)[1] or name].append(path)
        kind = self._random.choice(sorted(by_kind))
        for likely, chance in ((INDEX, INDEX_IN), (LOG, LOG_IN)):
            if likely in by_kind and self._random.random() < chance:
                kind = likely
        path = self._random.choice(by_kind[kind])
        topic, _, index = posixpath.basename(posixpath.dirname(path)).rpartition("-")
        partition = (topic, int(index)) if index.isdigit() else None
        if partition is not None:
            self._sound[partition] = kind != LOG and self._sound.get(partition, True)
        places = list(range(broker.files.size(path)))
        if kind == INDEX and self._random.random() < 0.7:
            places = places[LOW_BYTE::INDEX_NUMBER]
        if kind == LOG:
            places = self._places_in_log(broker, path, partition) if partition is not None else []
        if places:
            place, bit = self._random.choice(places), self._random.randrange(8)
            if kind == LEADER_EPOCHS and _are_others(broker.files.read(path), place, bit):
                return partition
            self._note(f"{broker.host}: bit {bit} of byte {place} of {path} turns over")
            broker.files.flip(path, place, 1 << bit)
        return partition

    def _places_in_log(self, broker: EmbeddedBroker, path: str, partition: tuple[str, int]) -> list[int]:
        """Return the bytes of batches that all other replicas have, as far as a checksum covers them."""
        others = [one.log_end(*partition) for one in self._others.cluster.brokers if one is not broker]
        held = min((end for end in others if end is not None), default=0)
        return [
            position + byte
            for position, header in _batches_that_are_found(broker.files.read(path))
            if header.next_offset <= held
            for byte in range(header.size_bytes)
            if byte not in NOT_COVERED
        ]


def _batches_that_are_found(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the batches of a log up to the first one whose size has rotted."""
    with suppress(CorruptBatch):
        yield from batches(data)


def _are_others(data: bytes, place: int, bit: int) -> bool:
    """Tell whether leader epochs with that bit turned over are others, which rise as well; whoever cannot read them,
    for they have rotted before, has to assume it."""
    turned = bytearray(data)
    turned[place] ^= 1 << bit
    try:
        before = decode_epochs(data)
    except CorruptFile:
        return True
    try:
        epochs = decode_epochs(bytes(turned))
    except CorruptFile:
        return False
    return epochs != before and LeaderEpochs(epochs).entries() == epochs


def misled(log: Log) -> str | None:
    """Tell of an offset or a time at which the log finds another batch than a scan of it does; None: of none.

    The log itself must be sound.
    """
    try:
        in_segments = [(one, list(iterate_headers(one.file, 0, one.size_bytes))) for one in log.segments]
        wrong = [text for segment, there in in_segments if (text := _misled_by_offsets(segment, there)) is not None]
        return wrong[0] if wrong else _misled_by_times(log, [batch for _, there in in_segments for batch in there])
    except (OSError, StorageFailure):  # its disk has failed, and nothing is told by it
        return None


def _misled_by_offsets(segment: Segment, batches: list[Batch]) -> str | None:
    for batch in batches:
        for offset in (batch.base_offset, batch.last_offset):
            try:
                found = segment.locate(offset)
            except CorruptBatch as bad:
                return f"{segment}: offset {offset} at byte {batch.position} is not found: {bad}"
            if found != batch.position:
                return f"{segment}: offset {offset} is at byte {batch.position}, and looked for at {found}"
    return None


def _misled_by_times(log: Log, batches: list[Batch]) -> str | None:
    """Compaction leaves batches whose time no record has any more: then the headers do not tell."""
    if log.config.compacts:
        return None
    largest = -1
    for batch in batches:
        if (time_ms := batch.max_timestamp_ms) <= largest:
            continue
        largest = time_ms
        if batch.base_offset < log.log_start_offset:
            continue
        try:
            found = at_once(find_offset(log, time_ms))
        except KafkaError as error:
            return f"{log}: time {time_ms} at offset {batch.base_offset} is not found: {error!r}"
        if found is None or not batch.base_offset <= found[1] <= batch.last_offset:
            return f"{log}: time {time_ms} is at offset {batch.base_offset}, and {found} is found"
    return None
