"""A log directory that the broker makes itself."""

import random

import pytest

from odradek.broker.log.directories.log_directory import LogDirectory
from odradek.broker.log.log_environment import LogEnvironment
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground


@pytest.mark.parametrize("seed", range(10))
def test_a_new_log_directory_is_there_after_a_power_failure_with_all_that_is_above_it(seed: int) -> None:
    """Found by simulation: the directory above it was not synced, and went away with every log of the broker, which
    came back as a leader that had never had a record."""
    files = SimulatedFiles(seed)
    LogDirectory(LogEnvironment(files, ManualClock(), InlineBackground(), random.Random(1)), "/srv/kafka/data").take()
    files.crash()
    assert files.is_directory("/srv/kafka/data")
