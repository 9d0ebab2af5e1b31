"""Fed with the batches that Kafka was fed with, our log leaves the same files as Kafka, byte for byte.

golden/v2-0, golden/transactions-0 and golden/checkpoints were written by Apache Kafka 3.9.1: golden/README.md says how.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.log.checkpoint_format import decode_offsets, encode_offsets
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.record_batch import batches, set_base_offset, set_leader_epoch
from odradek.testing.log_environments import close_log
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground
from odradek.world.os_files import OsFiles

GOLDEN = Path(__file__).parent / "golden"
LOGS = ("v2-0", "transactions-0")
CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=200)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def batches_of(name: str) -> Iterator[bytearray]:
    """Each as it is in Kafka's segments."""
    for path in sorted((GOLDEN / name).glob("*.log")):
        data = path.read_bytes()
        for position, header in batches(data):
            yield bytearray(data[position : position + header.size_bytes])


def open_at(directory: Path, name: str, **how: Any) -> Log:
    """On the day on which Kafka wrote it."""
    latest = max(header.max_timestamp for batch in batches_of(name) for _, header in batches(batch))
    environment = LogEnvironment(OsFiles(), ManualClock(latest + 1000), InlineBackground(), random.Random(1))
    topic, _, partition = name.rpartition("-")
    return open_log(environment, str(directory), topic, int(partition), CONFIG, **how)


@pytest.mark.parametrize("name", LOGS)
def test_a_follower_writes_what_kafka_wrote(name: str, tmp_path: Path) -> None:
    log = open_at(tmp_path / name, name, clean=True)
    for batch in batches_of(name):
        log.append_as_follower(batch)
    close_log(log)
    assert contents(tmp_path / name) == contents(GOLDEN / name)


def test_a_leader_writes_what_kafka_wrote(tmp_path: Path) -> None:
    """From what the producers sent: no offsets, no epochs."""
    log = open_at(tmp_path / "v2-0", "v2-0", clean=True)
    log.assign_epoch(0, 0)
    for batch in batches_of("v2-0"):
        set_base_offset(batch, 0, 0)
        set_leader_epoch(batch, 0, -1)
        log.append_as_leader(batch, 0)
    close_log(log)
    assert contents(tmp_path / "v2-0") == contents(GOLDEN / "v2-0")


@pytest.mark.parametrize("name", LOGS)
def test_opened_and_closed_kafkas_files_stay_as_they_are(name: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / name, tmp_path / name)
    close_log(open_at(tmp_path / name, name, clean=True))
    assert contents(tmp_path / name) == contents(GOLDEN / name)


@pytest.mark.parametrize("name", LOGS)
def test_what_is_made_anew_from_the_segments_is_what_kafka_made(name: str, tmp_path: Path) -> None:
    """Of the snapshots only the last ones are, as in Kafka."""
    shutil.copytree(
        GOLDEN / name, tmp_path / name, ignore=lambda _, names: [n for n in names if not n.endswith(".log")]
    )
    close_log(open_at(tmp_path / name, name))
    found, wanted = contents(tmp_path / name), contents(GOLDEN / name)
    missing = wanted.keys() - found.keys()
    snapshots = sorted(file for file in wanted if file.endswith(".snapshot"))
    assert missing <= set(snapshots[:-2]), missing
    assert found == {file: data for file, data in wanted.items() if file not in missing}


@pytest.mark.parametrize("name", ["recovery-point", "replication", "log-start"])
def test_checkpoints(name: str) -> None:
    data = (GOLDEN / "checkpoints" / f"{name}-offset-checkpoint").read_bytes()
    assert encode_offsets(decode_offsets(data)) == data
