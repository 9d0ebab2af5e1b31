"""Kafka's own tool reads what was written here: segments, indexes and snapshots, before compaction and after it."""

import random
from pathlib import Path

import pytest

from odradek.broker.log.compaction.cleanable_offsets import log_to_clean, make_request
from odradek.broker.log.compaction.job import swap_in
from odradek.broker.log.compaction.messages import Cleaned, Finished, decode_answer
from odradek.broker.log.compaction.rewrite import work
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.compacted_log import CompactedLog
from odradek.testing.foreign.dump_log_segments import dump, dump_all, files_of
from odradek.testing.foreign.kafka_jars import KafkaJars
from odradek.testing.log_environments import close_log
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground
from odradek.world.os_files import OsFiles

pytestmark = pytest.mark.cluster

CONFIG = LogConfig(
    segment_bytes=20_000,
    index_interval_bytes=500,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=10_000,
)


def written_log(path: Path) -> CompactedLog:
    """Codecs, tombstones, producers, transactions, rolls."""
    world = CompactedLog(CONFIG)
    clock = ManualClock()
    environment = LogEnvironment(OsFiles(), clock, InlineBackground(), random.Random(1))
    world.clock, world.environment = clock, environment
    world.log = open_log(environment, str(path / "topic-0"), "topic", 0, CONFIG, clean=True)
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
    dirty = log_to_clean(log, log.log_end_offset, world.clock.now_ms())
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


def test_kafka_reads_every_file_before_and_after_compaction(kafka: KafkaJars, tmp_path: Path) -> None:
    world = written_log(tmp_path)
    directory = Path(world.log.directory)
    plain = sum(path.stat().st_size for path in files_of(directory))
    world.log.flush()
    text = dump(kafka, files_of(directory), "--deep-iteration")
    assert "| offset: 0 " in text and "producerId: 7 " in text and "endTxnMarker: ABORT" in text
    assert "version: 0 producerId: 1067 firstOffset: " in text, "an aborted transaction in a .txnindex"
    assert all(f"compresscodec: {codec} " in text for codec in ("none", "gzip", "snappy", "lz4", "zstd"))
    compact(world)
    world.clock.advance(20_000)
    world.put((b"one", b"more"))
    world.roll()
    compact(world)
    close_log(world.log)
    assert sum(path.stat().st_size for path in files_of(directory)) < plain / 4
    text = dump_all(kafka, [directory])
    offsets = {offset for offset, _, _ in reopened(world).entries()}
    shown = {int(line.split("| offset: ")[1].split()[0]) for line in text.splitlines() if line.startswith("| offset: ")}
    assert offsets <= shown
    assert "deleteHorizonMs: OptionalLong[" in text


def reopened(world: CompactedLog) -> CompactedLog:
    world.log = open_log(world.environment, world.log.directory, "topic", 0, CONFIG, clean=True)
    return world
