"""Comparison of the records in the logs with those sent and acknowledged. No I/O."""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from odradek.demo.readers import Read

Rows = Mapping[int, Sequence[tuple[int, bytes]]]
"""Partition → its records as (offset, value), in the order of the file."""
Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Numbers of records. All after the first three should be 0."""

    produced: int
    acknowledged: int
    in_log_by_partition: Mapping[int, int]
    lost: int
    """Acknowledged, but not in the log."""
    misplaced: int
    """Acknowledged and in the log, but not at the acknowledged offset."""
    repeated: int
    """Copies in the log beyond the first, as each record was sent once."""
    unknown: int
    """Records in the log that were never sent."""
    out_of_order_by_partition: Mapping[int, int]
    """Partition → records that come after a later record of the same producer."""

    @property
    def in_log(self) -> int:
        return sum(self.in_log_by_partition.values())

    @property
    def out_of_order(self) -> int:
        return sum(self.out_of_order_by_partition.values())

    @property
    def problems(self) -> list[str]:
        """Return what is wrong, in words; an empty list when all is well."""
        counts = {
            "not acknowledged": self.produced - self.acknowledged,
            "lost": self.lost,
            "not where they were acknowledged": self.misplaced,
            "repeated": self.repeated,
            "out of order": self.out_of_order,
            "in the log but never sent": self.unknown,
        }
        return [f"{count:,} records {what}" for what, count in counts.items() if count]


def compare(sent: Sequence[bytes], producers: int, places: Sequence[Place | None], log: Rows) -> Findings:
    """Return how the log differs from what was sent.

    `sent[i]` was sent by producer i % producers, in this order, and acknowledged at `places[i]`, or None if it was not.
    All values are different. An acknowledgement with offset -1, which a broker gives for an old duplicate whose offset
    it has forgotten, fits anywhere in its partition.
    """
    number_of = {value: number for number, value in enumerate(sent)}
    held: dict[int, list[Place]] = {}
    unknown = 0
    out_of_order: dict[int, int] = {}
    for partition, rows in log.items():
        numbers = [(offset, number_of.get(value)) for offset, value in rows]
        known = [(offset, number) for offset, number in numbers if number is not None]
        unknown += len(numbers) - len(known)
        for offset, number in known:
            held.setdefault(number, []).append((partition, offset))
        out_of_order[partition] = _behind_later_ones((number for _, number in known), producers)
    lost = misplaced = 0
    for number, place in enumerate(places):
        if place is not None and number not in held:
            lost += 1
        elif place is not None and not _is_among(place, held[number]):
            misplaced += 1
    return Findings(
        produced=len(sent),
        acknowledged=sum(place is not None for place in places),
        in_log_by_partition={partition: len(rows) for partition, rows in log.items()},
        lost=lost,
        misplaced=misplaced,
        repeated=sum(len(found) - 1 for found in held.values()),
        unknown=unknown,
        out_of_order_by_partition=out_of_order,
    )


def _behind_later_ones(numbers: Iterable[int], producers: int) -> int:
    """Count the numbers that come after a higher number of the same producer."""
    latest = [-1] * producers
    count = 0
    for number in numbers:
        producer = number % producers
        count += number < latest[producer]
        latest[producer] = max(latest[producer], number)
    return count


def _is_among(place: Place, found: Sequence[Place]) -> bool:
    partition, offset = place
    return place in found or (offset == -1 and any(one[0] == partition for one in found))


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """Counts of records that a group read."""

    read: int
    different: int
    """Different records, each counted once."""
    missed: int
    """Records in the log that no reader has read."""
    altered: int
    """Records of reads whose content differs from the log's."""
    out_of_order_by_partition: Mapping[int, int]
    """Partition → records of reads that did not begin where they should have."""
    readers_by_partition: Mapping[int, Sequence[int]]
    """Partition → its readers, in their order."""

    @property
    def out_of_order(self) -> int:
        return sum(self.out_of_order_by_partition.values())

    @property
    def read_again(self) -> int:
        """Number of repeated reads, which delivery at least once permits."""
        return self.read - self.different

    @property
    def problems(self) -> list[str]:
        counts = {
            "not read by the group": self.missed,
            "read otherwise than they are in the log": self.altered,
            "read out of order": self.out_of_order,
        }
        return [f"{count:,} records {what}" for what, count in counts.items() if count]


def compare_reads(reads: Sequence[Read], log: Rows) -> GroupFindings:
    """Compare every piece that a reader has reported with the log's records at these offsets."""
    values = {partition: dict(rows) for partition, rows in log.items()}
    times: Counter[Place] = Counter()
    altered = 0
    for read in reads:
        crc = 0
        for offset in range(read.first_offset, read.first_offset + read.records):
            times[(read.partition, offset)] += 1
            crc = zlib.crc32(values.get(read.partition, {}).get(offset, b""), crc)
        altered += read.records * (crc != read.crc)
    in_log = {(partition, offset) for partition, rows in log.items() for offset, _ in rows}
    by_partition = {partition: [read for read in reads if read.partition == partition] for partition in sorted(log)}
    return GroupFindings(
        read=times.total(),
        different=len(times),
        missed=len(in_log - times.keys()),
        altered=altered,
        out_of_order_by_partition={one: read_out_of_order(found) for one, found in by_partition.items()},
        readers_by_partition={
            one: list(dict.fromkeys(read.reader for read in found)) for one, found in by_partition.items()
        },
    )


def read_out_of_order(reads: Iterable[Read]) -> int:
    """Count the records in pieces that begin at a wrong place. `reads` are those of one partition, in their order.

    A piece must begin where its reader was. If the reader has taken the partition over from another, it must begin at
    an offset up to which everything was read: records may be repeated, but none skipped.
    """
    count = end_offset = 0
    before: Read | None = None
    for read in reads:
        in_order = read.first_offset <= end_offset
        if before is not None and before.reader == read.reader:
            in_order = read.first_offset == before.end_offset
        count += read.records * (not in_order)
        end_offset = max(end_offset, read.end_offset)
        before = read
    return count
