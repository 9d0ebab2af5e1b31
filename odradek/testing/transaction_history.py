"""History of transactions: what they wrote and read, and the anomalies in it, by the names of Jepsen and Adya.

    lost            a committed record is not in the log that a read_committed reader is given in the end
    duplicate       a record is there at two offsets
    G0              of two transactions, one begun after the other was committed, the later wrote before the earlier
    G1a             a record of an aborted transaction was read
    G1c             transactions that read each other's writes in a circle
    moved           two readers were given different records at one offset
    back            an offset that was read, or committed by a group, and then a lower one

Writes of transactions that run side by side may interleave in Kafka: write cycles among those are none of its promises,
so G0 looks at transactions in sequence, and G1c at reads alone. A transaction whose end nobody knows may be either.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass
class Transaction:
    """A transaction as its client knows it. Times in seconds of one clock."""

    name: str
    began: float
    writes: list[str] = field(default_factory=list)
    """Values, each unlike any other."""
    reads: list[str] = field(default_factory=list)
    """Values that it was given, read_committed, before it ended."""
    outcome: Outcome = Outcome.UNKNOWN
    ended: float = 0.0
    """Time at which its end was acknowledged."""


class Read(NamedTuple):
    """A record as a reader was given it."""

    partition: int
    offset: int
    value: str


Log = Mapping[int, Sequence[tuple[int, str]]]
"""Offset and value by partition, as a read_committed reader is given them in the end."""


class Anomaly(NamedTuple):
    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


def anomalies(
    transactions: Iterable[Transaction], readers: Iterable[Sequence[Read]], log: Log, commits: Iterable[Sequence[int]]
) -> list[Anomaly]:
    """Find all that must not be.

    `readers`: what each was given, in order; `commits`: of each partition of a group, offsets in the order in which
    they were committed or found.
    """
    known = list(transactions)
    seen = [list(reads) for reads in readers]
    return [
        *_lost(known, log),
        *_duplicates(log),
        *_out_of_sequence(known, log),
        *_aborted_reads(known, seen, log),
        *_read_cycles(known),
        *_moved(seen, log),
        *_back(seen, commits),
    ]


def _lost(transactions: Sequence[Transaction], log: Log) -> Iterator[Anomaly]:
    there = {value for rows in log.values() for _, value in rows}
    for one in transactions:
        missing = [value for value in one.writes if value not in there]
        if one.outcome is Outcome.COMMITTED and missing:
            yield Anomaly("lost", f"{', '.join(missing)} of {one.name}, committed")
        elif one.outcome is Outcome.UNKNOWN and 0 < len(missing) < len(one.writes):
            yield Anomaly("lost", f"{', '.join(missing)} of {one.name}, of which the rest is there")


def _duplicates(log: Log) -> Iterator[Anomaly]:
    places: dict[str, list[str]] = defaultdict(list)
    for partition, rows in log.items():
        for offset, value in rows:
            places[value].append(f"{partition}@{offset}")
    for value, found in places.items():
        if len(found) > 1:
            yield Anomaly("duplicate", f"{value} at {', '.join(found)}")


def _out_of_sequence(transactions: Sequence[Transaction], log: Log) -> Iterator[Anomaly]:
    writer = {value: one for one in transactions for value in one.writes}
    for partition, rows in log.items():
        first: Transaction | None = None
        for offset, value in reversed(rows):
            one = writer.get(value)
            if one is None:
                continue
            if first is not None and one.began > first.ended:
                yield Anomaly(
                    "G0", f"{value} at {partition}@{offset} is before {first.name}, which was committed before"
                )
            if one.outcome is Outcome.COMMITTED and (first is None or one.ended < first.ended):
                first = one


def _aborted_reads(
    transactions: Sequence[Transaction], readers: Sequence[Sequence[Read]], log: Log
) -> Iterator[Anomaly]:
    aborted = {value: one for one in transactions if one.outcome is Outcome.ABORTED for value in one.writes}
    read = {value for rows in log.values() for _, value in rows}
    read |= {one.value for reads in readers for one in reads}
    read |= {value for one in transactions for value in one.reads}
    for value in sorted(read & aborted.keys()):
        yield Anomaly("G1a", f"{value} of {aborted[value].name}, aborted, was read")


def _read_cycles(transactions: Sequence[Transaction]) -> Iterator[Anomaly]:
    """Take away transactions that have read of nobody who is left, as long as there are any: what stays is in circles,
    or has read of one."""
    writer = {value: one.name for one in transactions for value in one.writes}
    sources = {
        one.name: {writer[value] for value in one.reads if writer.get(value, one.name) != one.name}
        for one in transactions
    }
    while free := [name for name, read_of in sources.items() if not read_of & sources.keys()]:
        for name in free:
            del sources[name]
    if sources:
        yield Anomaly("G1c", f"{', '.join(sorted(sources)[:5])} have read of each other")


def _moved(readers: Sequence[Sequence[Read]], log: Log) -> Iterator[Anomaly]:
    first = {(partition, offset): value for partition, rows in log.items() for offset, value in rows}
    for reads in readers:
        for partition, offset, value in reads:
            before = first.setdefault((partition, offset), value)
            if before != value:
                yield Anomaly("moved", f"{before} and {value} were read at {partition}@{offset}")


def _back(readers: Sequence[Sequence[Read]], commits: Iterable[Sequence[int]]) -> Iterator[Anomaly]:
    for number, reads in enumerate(readers):
        last: dict[int, int] = {}
        for partition, offset, _ in reads:
            if offset <= last.get(partition, -1):
                yield Anomaly("back", f"reader {number} was given {partition}@{offset} after {last[partition]}")
            last[partition] = offset
    for partition, offsets in enumerate(commits):
        for before, after in itertools.pairwise(offsets):
            if after < before:
                yield Anomaly("back", f"the group's offset of {partition} went from {before} to {after}")
