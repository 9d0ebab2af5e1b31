"""Logs that are stopped within any call. `python bench/crash.py` runs as many cases as one likes, and replays one."""

from collections.abc import Callable

import pytest

from odradek.broker.log.log import Log
from odradek.broker.log.retention import delete_old_segments
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.crashes.run import run_case
from odradek.testing.log_environments import DIRECTORY, make_batch, make_environment, open_test_log, read_batches
from odradek.testing.seeds import corpus
from odradek.testing.simulated_files import MachineStopped, SimulatedFiles

ONCE_FAILED = [int(seed) for (seed,) in corpus("crashes")]
OTHER_CASES = range(50_000, 50_025)
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=0, retention_ms=-1, file_delete_delay_ms=0)


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_cases_that_failed_once(seed: int) -> None:
    report = run_case(seed)
    assert report.violation is None, report.text()


@pytest.mark.parametrize("seed", OTHER_CASES)
def test_other_cases(seed: int) -> None:
    """The same each time; `make night` looks for those that nobody has seen."""
    report = run_case(seed)
    assert report.violation is None, report.text()


def test_a_case_is_the_same_each_time() -> None:
    assert run_case(11).transcript == run_case(11).transcript


def written(files: SimulatedFiles) -> Log:
    """Twelve batches of the same size, three to a segment, all of them on the disk; the active segment has three."""
    log = open_test_log(make_environment(files), CONFIG, clean=True)
    for number in range(12):
        log.append_as_leader(make_batch([b"%060d" % number], timestamp_ms=1000 + number), number // 4)
    log.flush()
    return log


def offsets(log: Log) -> list[int]:
    return [columns.offsets[0] for columns in read_batches(log)]


def stop_everywhere(change: Callable[[Log], object], check: Callable[[Log], object], power_fails: bool) -> int:
    """Before and within each call that `change` makes; how many there were."""
    for step in range(1000):
        files = SimulatedFiles(seed=step)
        log = written(files)
        files.stop_at = files.changes + 1 + step
        try:
            change(log)
        except MachineStopped:
            pass
        else:
            return step
        (files.crash if power_fails else files.kill)()
        check(open_test_log(make_environment(files), CONFIG, recovery_point=log.recovery_point))
    raise AssertionError("a change that does not end")


@pytest.mark.parametrize("power_fails", [False, True])
def test_a_truncation_that_is_stopped_leaves_a_beginning_of_the_log(power_fails: bool) -> None:
    def check(log: Log) -> None:
        assert offsets(log) == list(range(log.log_end_offset))
        assert 4 <= log.log_end_offset <= 12
        assert log.epochs.entries() == [(epoch, 4 * epoch) for epoch in range((log.log_end_offset + 3) // 4)]

    assert stop_everywhere(lambda log: log.truncate_to(4), check, power_fails) > 8


@pytest.mark.parametrize("power_fails", [False, True])
def test_retention_that_is_stopped_leaves_an_end_of_the_log(power_fails: bool) -> None:
    def retain(log: Log) -> None:
        log.advance_log_start_offset(7)
        delete_old_segments(log, 12)

    def check(log: Log) -> None:
        assert offsets(log) == list(range(log.log_start_offset, 12))
        assert log.log_start_offset in (0, 3, 6)

    assert stop_everywhere(retain, check, power_fails) > 8


@pytest.mark.parametrize("power_fails", [False, True])
def test_a_log_that_is_stopped_while_it_starts_over_is_short_or_new(power_fails: bool) -> None:
    def check(log: Log) -> None:
        assert offsets(log) == list(range(log.log_end_offset)) or log.log_start_offset == log.log_end_offset
        assert log.log_end_offset in (*range(13), 100)

    assert stop_everywhere(lambda log: log.truncate_fully_and_start_at(100), check, power_fails) > 8


def test_a_stop_in_the_recovery_is_recovered_from() -> None:
    def begin(log: Log) -> None:
        files = log.environment.files
        assert isinstance(files, SimulatedFiles)
        files.set_content(log.active.path(".log"), files.read(log.active.path(".log"))[:-9])
        open_test_log(make_environment(files), CONFIG, recovery_point=0)

    def check(log: Log) -> None:
        assert offsets(log) == list(range(11))
        assert log.epochs.entries() == [(0, 0), (1, 4), (2, 8)]

    assert stop_everywhere(begin, check, power_fails=True) > 10


def test_a_directory_without_a_leader_epoch_file_learns_them_without_cutting() -> None:
    """Damage before the recovery point costs the epochs that it hides, and no data."""
    files = SimulatedFiles()
    log = written(files)
    files.kill()
    files.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    files.flip(log.segments[1].path(".log"), 16)
    log = open_test_log(make_environment(files), CONFIG, recovery_point=12)
    assert (log.log_start_offset, log.log_end_offset) == (0, 12)
    assert log.epochs.entries() == [(0, 0), (1, 6), (2, 8)]
