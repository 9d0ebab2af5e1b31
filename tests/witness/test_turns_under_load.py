"""A producer writes on while the broker is killed again and again, and comes back as the other make."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.testing.foreign.corpus import create_topics
from odradek.testing.foreign.dump_log_segments import dump, files_of
from odradek.testing.foreign.stage import Stage
from odradek.testing.load import PARTITIONS, TOPIC, Load, check_nothing_lost
from odradek.testing.patience import wait_until

pytestmark = pytest.mark.cluster

PACE_SECONDS = 0.005
"""Fast enough for some segments in each turn."""
SETTINGS = {"segment.bytes": "4000", "index.interval.bytes": "500"}


def test_nothing_is_lost_or_repeated_when_makes_take_turns_under_load(new_stage: Callable[..., Stage]) -> None:
    stage = new_stage(log_directories=2)
    broker = stage.odradek()
    create_topics(stage.address, {TOPIC: SETTINGS}, PARTITIONS)
    with Load(stage.address, pace_seconds=PACE_SECONDS) as load:
        for start in (stage.kafka, stage.odradek):
            wait_until(load.goes_on(), "writes")
            broker.kill()
            broker = start()
        wait_until(load.goes_on(), "writes")
        wait_until(lambda: len(segments(stage)) > 2 * PARTITIONS, "several segments each")
    check_nothing_lost(load, stage.address)
    assert not broker.complaints(but=[" WARNING "])  # it may have had to cut what was half written
    broker.stop()
    dump(stage.jars, files_of(*directories(stage)), "--deep-iteration")


def directories(stage: Stage) -> list[Path]:
    return [stage.directory(TOPIC, index) for index in range(PARTITIONS)]


def segments(stage: Stage) -> list[Path]:
    return files_of(*directories(stage), suffixes=(".log",))
