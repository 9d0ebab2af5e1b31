"""Kafka's DumpLogSegments, which reads every file of a log and says what does not fit."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
"""Words of a finding: the tool ends with 0 whatever it finds, so that the text must be looked at."""
GAPS = "Non-consecutive offsets"
"""Heading of offsets that compaction has left out, which is no fault."""


def files_of(*directories: Path, suffixes: Sequence[str] = SUFFIXES) -> list[Path]:
    """Return what the tool reads, of logs that are closed."""
    return sorted(path for directory in directories for path in directory.iterdir() if path.suffix in suffixes)


class Run(NamedTuple):
    """Run of the tool. `gaps`: it may find offsets that compaction has left out."""

    files: Sequence[Path]
    options: Sequence[str]
    gaps: bool = False


def dump(jars: KafkaJars, files: Sequence[Path], *options: str) -> str:
    """Return what it says; AssertionError when that is a complaint."""
    [text] = dump_each(jars, [Run(files, options)])
    return text


def dump_each(jars: KafkaJars, runs: Sequence[Run]) -> list[str]:
    """Return what it says in each of these runs, all in one Java machine; AssertionError when that is a complaint."""
    arguments = [[*run.options, "--files", ",".join(map(str, run.files))] for run in runs]
    texts = jars.run_each("kafka.tools.DumpLogSegments", arguments)
    for run, text in zip(runs, texts, strict=True):
        lines = text.splitlines()
        found = [line for line in lines if any(complaint in line for complaint in COMPLAINTS)]
        assert not found, found[:10]
        gaps_found = [number for number, line in enumerate(lines) if GAPS in line]
        assert run.gaps or not gaps_found, lines[gaps_found[0] : gaps_found[0] + 10]
    return texts


def all_checks(directories: Sequence[Path]) -> list[Run]:
    """Return the runs that read every file with every record of it, then check the indexes in both ways."""
    indexes = files_of(*directories, suffixes=(".index", ".timeindex"))
    return [
        Run(files_of(*directories), ["--deep-iteration"], gaps=True),
        Run(indexes, ["--verify-index-only"]),
        Run(indexes, ["--index-sanity-check"]),
    ]


def dump_all(jars: KafkaJars, directories: Sequence[Path]) -> str:
    """Return every record of every file; AssertionError when the tool complains of more than gaps, or of an index."""
    return dump_each(jars, all_checks(directories))[0]
