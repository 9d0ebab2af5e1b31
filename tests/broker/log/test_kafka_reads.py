"""Kafka's own tool reads what was written here: segments, indexes and snapshots, before compaction and after it."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from odradek.broker.log.compaction.child import work
from odradek.broker.log.compaction.messages import Cleaned, Finished, decode_answer
from odradek.broker.log.compaction.survey import make_request, survey
from odradek.broker.log.compaction.swap import swap_in
from odradek.broker.log.config import LogConfig
from odradek.broker.log.log import Log
from odradek.broker.log.recovery import open_log
from odradek.broker.log.storage import Storage
from odradek.testing.compacted_log import CompactedLog
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground
from odradek.world.os_files import OsFiles

pytestmark = pytest.mark.cluster

JARS = Path(__file__).parents[3] / ".cache" / "kafka-3.9"
VERSION = "3.9.1"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>odradek</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{VERSION}</version></dependency></dependencies></project>"""
CONFIG = LogConfig(
    segment_bytes=20_000,
    index_interval_bytes=500,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=10_000,
)


@pytest.fixture(scope="module")
def kafka() -> str:
    """A class path with Kafka in it."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or maven is None:
        pytest.skip("no java and mvn here to run Kafka's DumpLogSegments")
    if not (JARS / "jars" / f"kafka_2.13-{VERSION}.jar").exists():
        JARS.mkdir(parents=True, exist_ok=True)
        (JARS / "pom.xml").write_text(POM)
        command = [maven, "-q", "-B", "-f", str(JARS / "pom.xml"), "dependency:copy-dependencies"]
        fetched = subprocess.run(
            [*command, f"-DoutputDirectory={JARS / 'jars'}"], capture_output=True, text=True, timeout=170
        )
        if fetched.returncode:
            pytest.skip(f"Kafka's jars cannot be had: {fetched.stdout[-300:]}")
    return f"{JARS / 'jars'}/*"


def dump(kafka: str, files: list[Path], *, gaps: bool = False) -> str:
    """What DumpLogSegments says of them. It exits with 0 whatever it finds, so the text is looked at.

    `gaps`: it counts the offsets that compaction leaves out, which is no complaint.
    """
    done = subprocess.run(
        ["java", "-cp", kafka, "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, files))],
        capture_output=True,
        text=True,
        timeout=120,
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-2000:]
    for complaint in ("isvalid: false", "Found timestamp mismatch", "Mismatches in", "out of order"):
        assert complaint not in text, text[-2000:]
    assert gaps or "Non-consecutive" not in text, text[-2000:]
    assert "Exception" not in text and "corrupt" not in text.lower(), text[-2000:]
    return text


def files_of(log: Log) -> list[Path]:
    """What the tool reads, all closed."""
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    return sorted(path for path in Path(log.directory).iterdir() if path.suffix in suffixes)


def written_log(path: Path) -> CompactedLog:
    """Codecs, tombstones, producers, transactions, rolls."""
    world = CompactedLog(CONFIG)
    clock = ManualClock()
    storage = Storage(OsFiles(), clock, InlineBackground(), random.Random(1))
    world.clock, world.storage = clock, storage
    world.log = open_log(storage, str(path / "topic-0"), "topic", 0, CONFIG, clean=True)
    choose, sequence = random.Random(5), 0
    for number in range(700):
        entries = [
            (b"key %d" % choose.randrange(60), None if choose.random() < 0.1 else b"value %d" % number * 3)
            for _ in range(choose.randrange(1, 6))
        ]
        if number % 3 == 0:
            world.put(*entries, producer_id=7, sequence=sequence, codec=number % 5)
            sequence += len(entries)
        else:
            world.put(*entries, codec=number % 5)
        if number % 50 == 17:
            world.put(*entries, producer_id=1000 + number, sequence=0, transactional=True)
            world.end_transaction(1000 + number, committed=number % 100 == 17)
        clock.advance(7)
    world.roll()
    return world


def compact(world: CompactedLog) -> None:
    """What the child and the loop do, one after the other."""
    log = world.log
    dirty = survey(log, log.log_end_offset, world.clock.now_ms())
    assert dirty is not None
    segments = {segment.base_offset: segment for segment in log.segments}
    request = make_request(log, dirty, world.clock.now_ms(), 1 << 20, 0.9)
    for line in work(OsFiles(), request.encode(), lambda size_bytes: None):
        answer = decode_answer(line)
        if isinstance(answer, Cleaned):
            swap_in(log, [segments[base_offset] for base_offset in answer.base_offsets], lambda: None)
        else:
            assert isinstance(answer, Finished), answer
            log.cleaned_to = answer.end_offset


def test_kafka_reads_every_file_before_and_after_compaction(kafka: str, tmp_path: Path) -> None:
    world = written_log(tmp_path)
    plain = sum(path.stat().st_size for path in files_of(world.log))
    world.log.flush()
    text = dump(kafka, files_of(world.log))
    assert "| offset: 0 " in text and "producerId: 7 " in text and "endTxnMarker: ABORT" in text
    compact(world)
    world.clock.advance(20_000)
    world.put((b"one", b"more"))
    world.roll()
    compact(world)
    world.log.close()
    assert sum(path.stat().st_size for path in files_of(world.log)) < plain / 4
    text = dump(kafka, files_of(world.log), gaps=True)
    offsets = {offset for offset, _, _ in reopened(world).entries()}
    shown = {int(line.split("| offset: ")[1].split()[0]) for line in text.splitlines() if line.startswith("| offset: ")}
    assert offsets <= shown
    assert "deleteHorizonMs: OptionalLong[" in text


def reopened(world: CompactedLog) -> CompactedLog:
    world.log = open_log(world.storage, world.log.directory, "topic", 0, CONFIG, clean=True)
    return world
