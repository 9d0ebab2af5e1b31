"""Kafka's DumpLogSegments, which reads every file of a log and says what does not fit."""

from collections.abc import Sequence
from pathlib import Path

from odradek.testing.foreign.kafka_jars import KafkaJars

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
COMPLAINTS = (
    "isvalid: false",
    "Mismatches in",
    "Found timestamp mismatch",
    "Found out of order timestamp",
    "not found in the log",
    "invalid bytes at the end",
    "Ignoring unknown file",
    "Exception",
    "corrupt",
    "Corrupt",
)
"""It ends with 0 whatever it finds, so that the text must be looked at."""
GAPS = "Non-consecutive offsets"
"""Of offsets that compaction has left out, which is no fault."""


def files_of(*directories: Path, suffixes: Sequence[str] = SUFFIXES) -> list[Path]:
    """Return what the tool reads, of logs that are closed."""
    return sorted(path for directory in directories for path in directory.iterdir() if path.suffix in suffixes)


def dump(jars: KafkaJars, files: Sequence[Path], *options: str, gaps: bool = False) -> str:
    """Return what it says; AssertionError when that is a complaint."""
    text = jars.run("kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files)))
    lines = text.splitlines()
    found = [line for line in lines if any(complaint in line for complaint in COMPLAINTS)]
    assert not found, found[:10]
    gaps_found = [number for number, line in enumerate(lines) if GAPS in line]
    assert gaps or not gaps_found, lines[gaps_found[0] : gaps_found[0] + 10]
    return text


def dump_all(jars: KafkaJars, directories: Sequence[Path], *, gaps: bool = False) -> str:
    """Dump every file with every record of it, then check the indexes by the two checks of their own."""
    text = dump(jars, files_of(*directories), "--deep-iteration", gaps=gaps)
    indexes = files_of(*directories, suffixes=(".index", ".timeindex"))
    dump(jars, indexes, "--verify-index-only")
    dump(jars, indexes, "--index-sanity-check")
    return text
