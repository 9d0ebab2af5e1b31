"""Kafka's own tool reads logs of formats 0 and 1 after we have worked on them: recovered, cut, copied, compacted.

The segments are those of tests/broker/log/golden, which Kafka wrote.
"""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.compacted_log import CompactedLog
from odradek.testing.foreign.dump_log_segments import dump_all
from odradek.testing.foreign.kafka_jars import KafkaJars
from odradek.testing.log_environments import close_log
from odradek.testing.old_segments import golden_bytes, golden_copy, stored
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground
from odradek.world.os_files import OsFiles

pytestmark = pytest.mark.cluster

NAMES = ("v0-0", "v1-0", "append-time-0", "mixed-0")
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, retention_ms=-1)


def opened(directory: Path) -> Log:
    environment = LogEnvironment(OsFiles(), ManualClock(), InlineBackground(), random.Random(1))
    return open_log(environment, str(directory), directory.name.rpartition("-")[0], 0, CONFIG)


def recovered(name: str, directory: Path) -> int:
    """Torn in its last message, its indexes gone."""
    path = golden_copy(name, directory)
    for one in path.iterdir():
        if one.suffix in (".index", ".timeindex"):
            one.unlink()
    last = max(path.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    log = opened(path)
    close_log(log)
    return len(stored(log))


def cut(name: str, directory: Path) -> int:
    """Within a compressed message."""
    log = opened(golden_copy(name, directory))
    assert log.truncate_to(25)
    close_log(log)
    return len(stored(log))


def copied(name: str, directory: Path) -> int:
    """By a follower, message by message."""
    leader, follower = opened(golden_copy(name, directory / "leader")), opened(directory / name)
    while follower.log_end_offset < leader.log_end_offset:
        records = leader.read(follower.log_end_offset, 1, leader.log_end_offset, whole_first_batch=True).records
        assert not isinstance(records, bytes)
        follower.append_as_follower(records.read())
    close_log(follower)
    return len(stored(follower))


def compacted(name: str, directory: Path) -> int:
    config = replace(CONFIG, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
    world = CompactedLog(config)
    world.log.append_as_follower(golden_bytes(name))
    world.roll()
    world.compact()
    close_log(world.log)
    (directory / name).mkdir(parents=True)
    for file_name in world.files.list_directory(world.log.directory):
        if not file_name.endswith(".deleted"):
            (directory / name / file_name).write_bytes(world.files.read(f"{world.log.directory}/{file_name}"))
    return len(stored(world.log))


def test_kafka_reads_them(kafka: KafkaJars, tmp_path: Path) -> None:
    records, directories = 0, []
    for work in (recovered, cut, copied, compacted):
        for name in NAMES:
            records += work(name, tmp_path / work.__name__)
            directories.append(tmp_path / work.__name__ / name)
    text = dump_all(kafka, directories)
    assert sum(line.startswith("| offset: ") for line in text.splitlines()) == records > 500
