"""The log alone: appending, reading, recovery, compaction, without a network; what 2,000 partitions cost a broker.

    python bench/log.py [--rounds 3] [--quick] [--only WORD] [--no-broker] [--json] [--directory DIR]

Figures are medians. Where there is a bare loop (the same bytes with nothing but the system call, or the checksum) it
runs in turn with the log, and the ratio is what counts: a machine's speed drifts. Exit code 1 when a goal is missed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import compaction
import log_alone
import partitions
from log_alone import MB, Pair

HERE = Path(__file__).resolve().parent
GB = 1000 * MB
LEAST_RECOVERY_SCALE = 0.3
"""Smallest scale of a recovery: with less, what is measured is how long it takes to begin processes."""
PROCESSES = min(os.cpu_count() or 1, 8)
OPEN_GOAL_SECONDS, MEMORY_GOAL_MB, BESIDE_GOAL = 3.0, 200, 0.7


@dataclass(frozen=True, slots=True)
class Figure:
    """Line of the table. `goal` is for the ratio where there is one, else for the figure."""

    name: str
    value: float
    unit: str
    bare: float | None = None
    ratio: float | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool:
        judged = self.value if self.ratio is None else self.ratio
        low, high = self.at_least, self.at_most
        return (low is None or judged >= low) and (high is None or judged <= high)

    def __str__(self) -> str:
        beside = f"{self.bare:12,.0f} {self.ratio:6.2f}" if self.bare is not None else f"{'':12} {'':6}"
        goal = ""
        if self.at_least is not None or self.at_most is not None:
            sign, limit = (">=", self.at_least) if self.at_least is not None else ("<=", self.at_most)
            goal = f"goal {sign} {limit:,g}  {'met' if self.met else 'MISSED'}"
        number = f"{self.value:12,.2f}" if self.value < 100 else f"{self.value:12,.0f}"
        return f"{self.name:50} {number} {self.unit:5} {beside}   {goal}".rstrip()


def of_pairs(name: str, pairs: list[Pair], unit: str, scale: float, at_least: float | None = None) -> Figure:
    """The median, and the median of the ratios: each round's two runs came one after the other."""
    value, bare = (statistics.median(pair[index] for pair in pairs) / scale for index in (0, 1))
    return Figure(name, value, unit, bare, statistics.median(pair.log / pair.bare for pair in pairs), at_least)


@dataclass(frozen=True, slots=True)
class Options:
    rounds: int
    scale: float
    """Factor of the number of bytes."""
    directory: Path

    def bytes_of(self, size_bytes: float) -> int:
        return int(size_bytes * self.scale)


def appending(options: Options) -> list[Figure]:
    """Small ones by their number, large ones by their bytes: what is measured is one batch per call."""
    found = []
    for name, value_bytes, total in (
        ("100 B", 100, 30 * MB),
        ("16 kB", 16_000, 200 * MB),
        ("1 MB", 1_000_000, 400 * MB),
    ):
        pairs = [
            log_alone.appends(options.directory, value_bytes, options.bytes_of(total)) for _ in range(options.rounds)
        ]
        found.append(of_pairs(f"append, batches of {name}: number", pairs, "/s", 1))
        in_bytes = [Pair(*(speed * value_bytes for speed in pair)) for pair in pairs]
        found.append(of_pairs(f"append, batches of {name}: bytes", in_bytes, "MB/s", MB))
    return found


def reading(options: Options) -> list[Figure]:
    size = options.bytes_of(GB)
    found = log_alone.reads(options.directory, 16_000, size, options.rounds)
    return [
        of_pairs(f"read {size / GB:.1f} GB, {kind}, through sendfile", pairs, "MB/s", MB)
        for kind, pairs in found.items()
    ]


def recovery(options: Options) -> list[Figure]:
    found = []
    for logs, batch_bytes, total in ((1, 16_000, GB), (8, 16_000, GB), (8, 1_000, 0.5 * GB)):
        for processes in sorted({1, PROCESSES if logs > 1 else 1}):
            with tempfile.TemporaryDirectory(dir=options.directory) as directory:
                size = int(total * max(options.scale, LEAST_RECOVERY_SCALE))
                pairs = log_alone.recoveries(Path(directory), logs, size, batch_bytes, processes, options.rounds)
            name = f"recovery, {logs} logs, {batch_bytes / 1000:.0f} kB batches, {processes} processes"
            found.append(
                of_pairs(name.replace(" 1 logs", " 1 log").replace(" 1 processes", " 1 process"), pairs, "MB/s", MB)
            )
    return found


def compacting(options: Options) -> list[Figure]:
    """Each round in a process of its own, because the memory is that of its largest child."""
    rounds = []
    for _ in range(options.rounds):
        command = [sys.executable, str(HERE / "compaction.py"), "--json", str(max(8, int(64 * options.scale)))]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rounds.append(compaction.Compacted(**json.loads(output)))
    beside = [Pair(one.appends_beside, one.appends_alone) for one in rounds]
    return [
        Figure("compaction", statistics.median(one.bytes_before / one.seconds for one in rounds) / MB, "MB/s"),
        Figure("compaction, peak memory of the child", max(one.peak_bytes for one in rounds) / MB, "MB"),
        of_pairs("appends while it runs, beside appends alone", beside, "/s", 1, BESIDE_GOAL),
    ]


def many_partitions(options: Options) -> list[Figure]:
    count = max(100, int(partitions.PARTITIONS * options.scale))
    stop_seconds, clean, killed = partitions.measure(count)
    name = f"{count:,} partitions"
    return [
        Figure(f"{name}: logs open, clean stop", clean.open_seconds, "s", at_most=OPEN_GOAL_SECONDS),
        Figure(f"{name}: the same, of the processor", clean.open_processor_seconds, "s"),
        Figure(f"{name}: logs open, killed", killed.open_seconds, "s"),
        Figure(f"{name}: clean stop, all were written to", stop_seconds, "s"),
        Figure(f"{name}: resident memory", clean.resident_bytes / MB, "MB", at_most=MEMORY_GOAL_MB),
        Figure(f"{name}: files open, idle", clean.log_descriptors, "", at_most=count + partitions.OTHERS),
        Figure(f"{name}: files open, all used", clean.written_descriptors, "", at_most=count + partitions.OTHERS),
    ]


PARTS: dict[str, Callable[[Options], list[Figure]]] = {
    "append": appending,
    "read": reading,
    "recovery": recovery,
    "compaction": compacting,
    "partitions": many_partitions,
}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--rounds", type=int, default=3, help="number of rounds, of which the medians are shown")
    arguments.add_argument("--quick", action="store_true", help="write a tenth of the bytes")
    arguments.add_argument("--only", choices=PARTS, help="measure this part alone")
    arguments.add_argument("--no-broker", action="store_true", help="leave out the real broker with many partitions")
    arguments.add_argument("--json", action="store_true", help="print JSON")
    arguments.add_argument("--directory", help="folder for the logs, which take a few GB for a while")
    given = arguments.parse_args()
    parts = {name: part for name, part in PARTS.items() if given.only in (None, name)}
    if given.no_broker:
        parts.pop("partitions", None)
    say: Callable[[object], None] = (lambda line: None) if given.json else partial(print, flush=True)
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="odradek-bench-", dir=given.directory) as folder:
        options = Options(given.rounds, 0.1 if given.quick else 1.0, Path(folder))
        say(f"{'':50} {'the log':>12} {'':5} {'bare loop':>12} {'ratio':>6}   (medians of {given.rounds})")
        for part in parts.values():
            for figure in part(options):
                found.append(figure)
                say(figure)
    if given.json:
        print(json.dumps([asdict(figure) | {"met": figure.met} for figure in found], indent=1))
    return 0 if all(figure.met for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
