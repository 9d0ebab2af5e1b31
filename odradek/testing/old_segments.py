"""Logs of message formats 0 and 1 for tests: what Kafka has written (tests/broker/log/golden), and what is in it."""

import shutil
from pathlib import Path

from odradek.broker.log.batches import iterate_valid
from odradek.broker.log.log import Log
from odradek.protocol.conversion import records_of, to_batches
from odradek.protocol.record_batch import batches
from odradek.protocol.records import decode_records

GOLDEN = Path(__file__).parents[2] / "tests" / "broker" / "log" / "golden"
FIRST_TIME_MS = 1_400_000_000_000

OldRecord = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp, key, value."""


def key_of(number: int) -> bytes | None:
    return None if number % 10 == 3 else b"key-%d" % (number % 4)


def value_of(number: int) -> bytes | None:
    return None if number % 10 == 5 else b"value %d, " % number * 8


def time_of(number: int) -> int:
    return FIRST_TIME_MS + number * 1000


def timeless(name: str) -> range:
    """Return the offsets of a golden log whose records have no time."""
    return {"v0-0": range(65), "v1-0": range(50, 60), "mixed-0": range(15)}[name]


def expected(name: str) -> list[OldRecord]:
    """Return all records of a golden log; the time is -1 where it cannot be known."""
    count = {"v0-0": 65, "v1-0": 65, "mixed-0": 45}[name]
    no_time = timeless(name)
    return [(n, -1 if n in no_time else time_of(n), key_of(n), value_of(n)) for n in range(count)]


def golden_copy(name: str, directory: Path) -> Path:
    """Make a copy of a golden log that a test may change."""
    return Path(shutil.copytree(GOLDEN / name, directory / name))


def golden_bytes(name: str) -> bytes:
    """Return all segments of a golden log, one behind the other."""
    return b"".join(path.read_bytes() for path in sorted((GOLDEN / name).glob("*.log")))


def stored(log: Log) -> list[OldRecord]:
    """Read every record of a log, whatever its format, with checksums verified."""
    found: list[OldRecord] = []
    for segment in log.segments:
        if segment.size_bytes:
            for _, content in iterate_valid(segment.file, segment.size_bytes):
                one = records_of(content)
                found += zip(one.offsets, one.timestamps, one.keys, one.values, strict=True)
    return found


def read_from(log: Log, offset: int, max_bytes: int = 1 << 20) -> list[OldRecord]:
    """Return the records of the first slice that a reader gets, those before its offset too."""
    records = log.read(offset, max_bytes, log.log_end_offset, whole_first_batch=True).records
    data = records if isinstance(records, bytes) else records.read()
    data = b"".join(to_batches(data, compressed=False))
    found: list[OldRecord] = []
    for at, _ in batches(data):
        one = decode_records(data, at)
        found += zip(one.offsets, one.timestamps, one.keys, one.values, strict=True)
    return found
