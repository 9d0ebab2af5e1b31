"""Checkpoints over a crash: nothing is written that one of them would hide or bring back."""

import errno

from odradek.broker.log.checkpoint_format import (
    CLEANER_OFFSETS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    decode_offsets,
)
from odradek.broker.log.log import Log
from odradek.testing.crashes.history import History
from odradek.testing.crashes.machine import TOPIC_IDS, Machine
from odradek.testing.simulated_files import Fault
from tests.broker.log.crashing_log import SEEDS, batch, write


def machine_with_log() -> tuple[Machine, Log]:
    machine = Machine(1)
    log = machine.start().get_or_create("events", 0, TOPIC_IDS["events"], is_new=True)
    machine.histories["events", 0] = History("events", False)
    return machine, log


def checkpointed(machine: Machine, name: str) -> int:
    return decode_offsets(machine.files.read(f"/a/{name}")).get(("events", 0), 0)


def test_nothing_is_written_while_a_checkpoint_promises_what_was_cut_off() -> None:
    machine, log = machine_with_log()
    write(log, 5)
    log.flush()
    assert machine.logs is not None
    machine.logs.checkpoints.write_recovery_points()
    machine.background.drain()
    assert checkpointed(machine, RECOVERY_POINTS) == 5
    log.truncate_to(2)
    log.append_as_leader(batch(9), 1)
    assert checkpointed(machine, RECOVERY_POINTS) == 2
    machine.background.drain()
    assert checkpointed(machine, RECOVERY_POINTS) == 2, "the background had older ones to write"


def test_nothing_is_written_while_a_checkpoint_says_that_it_was_compacted_already() -> None:
    machine, log = machine_with_log()
    write(log, 5)
    log.cleaned_to = 4
    assert machine.logs is not None
    machine.logs.checkpoints.write_cleaned("/a")
    machine.background.drain()
    assert checkpointed(machine, CLEANER_OFFSETS) == 4
    log.truncate_to(2)
    log.append_as_leader(batch(9), 1)
    assert checkpointed(machine, CLEANER_OFFSETS) == 2


def test_who_waits_for_a_recovery_point_is_told_when_it_is_written_and_not_when_that_fails() -> None:
    machine, log = machine_with_log()
    write(log, 5)
    log.flush()
    assert machine.logs is not None
    checkpoints, told = machine.logs.checkpoints, []
    machine.files.fault = Fault(machine.files.calls + 1, 1000, errno.ENOSPC, "/a/", "room")
    assert not checkpoints.covers(log, 5, lambda: told.append("failed"))
    machine.background.drain()
    machine.files.fault = None
    assert not checkpoints.covers(log, 5, lambda: told.append("written"))
    assert not told
    machine.background.drain()
    assert told == ["written"] and checkpointed(machine, RECOVERY_POINTS) == 5
    assert checkpoints.covers(log, 5, lambda: told.append("not needed"))
    machine.background.drain()
    assert told == ["written"]


def test_a_checkpoint_that_waits_for_another_one_promises_too() -> None:
    machine, log = machine_with_log()
    write(log, 5)
    assert machine.logs is not None
    machine.logs.checkpoints.write_recovery_points()
    log.flush()
    machine.logs.checkpoints.write_recovery_points()
    log.truncate_to(2)
    log.append_as_leader(batch(9), 1)
    machine.background.drain()
    assert checkpointed(machine, RECOVERY_POINTS) == 2


def test_a_log_that_starts_over_further_back_is_not_hidden_by_its_old_start() -> None:
    machine, log = machine_with_log()
    write(log, 5)
    log.advance_log_start_offset(4)
    assert machine.logs is not None
    machine.logs.checkpoints.write_log_starts()
    machine.background.drain()
    assert checkpointed(machine, LOG_START_OFFSETS) == 4
    log.truncate_fully_and_start_at(1)
    assert checkpointed(machine, LOG_START_OFFSETS) == 1


def test_a_topic_that_is_made_anew_has_nothing_of_the_one_before() -> None:
    machine, log = machine_with_log()
    write(log, 5)
    log.flush()
    log.advance_log_start_offset(4)
    assert machine.logs is not None
    machine.logs.checkpoints.write_log_starts()
    machine.logs.checkpoints.write_recovery_points()
    machine.background.drain()
    machine.logs.delete("events", 0)
    machine.logs.get_or_create("events", 0, TOPIC_IDS["events"], is_new=True)
    machine.stop(power_fails=False)
    fresh = machine.start().get("events", 0)
    assert fresh is not None and (fresh.log_start_offset, fresh.log_end_offset, fresh.recovery_point) == (0, 0, 0)


def test_a_deleted_log_does_not_come_back_beside_one_in_another_directory() -> None:
    for seed in range(20):
        machine = Machine(seed)
        logs = machine.start()
        logs.get_or_create("events", 0, TOPIC_IDS["events"], is_new=True).append_as_leader(batch(1), 0)
        machine.background.drain()
        machine.clock.advance(0)
        machine.background.drain()
        logs.delete("events", 0)
        logs.get_or_create("table", 0, TOPIC_IDS["table"], is_new=True)
        fresh = logs.get_or_create("events", 0, TOPIC_IDS["events"], is_new=True)
        assert fresh.directory == "/b/events-0"
        fresh.append_as_leader(batch(2), 0)
        fresh.flush()
        machine.stop(power_fails=True)
        machine.start()
        assert machine.failed == []


def test_a_checkpoint_that_a_start_has_read_does_not_become_an_older_one() -> None:
    """It was renamed, and the process was killed before that was on the disk."""
    for seed in SEEDS:
        machine = Machine(seed)
        machine.start()
        machine.files.write_atomically(f"/a/{LOG_START_OFFSETS}", b"0\n1\nevents 0 16\n")
        machine.files.write_atomically(f"/a/{LOG_START_OFFSETS}", b"0\n0\n", sync=False)
        machine.stop(power_fails=False)
        machine.start()
        machine.stop(power_fails=True)
        assert b"16" not in machine.files.read(f"/a/{LOG_START_OFFSETS}")
