"""Run of a case: a workload on a machine that stops a few times, each time somewhere within a call."""

import errno
from typing import NamedTuple

from odradek.broker.log.log import Log
from odradek.protocol.topic_names import PartitionKey
from odradek.testing.crashes.history import History
from odradek.testing.crashes.machine import DIRECTORIES, Machine, Violation
from odradek.testing.crashes.verdict import check, entries_of
from odradek.testing.crashes.workload import Workload
from odradek.testing.simulated_files import Fault, MachineStopped

LIVES = 3
ACTIONS_MAX = 120
CHANGES_MAX = 250


class Report(NamedTuple):
    """`violation` is None when all was well."""

    seed: int
    violation: str | None
    transcript: list[str]

    def text(self, lines: int = 40) -> str:
        """Return the end of what happened, and what was wrong."""
        return "\n".join([f"seed {self.seed}:", *self.transcript[-lines:], f"VIOLATION {self.violation}"])


def run_case(seed: int) -> Report:
    """Run the case of a seed. Never raises; the same for the same seed."""
    machine = Machine(seed)
    try:
        _live(machine)
    except Exception as error:  # noqa: BLE001 - whatever comes out of a log is a finding
        text = str(error) if isinstance(error, Violation) else f"{error!r}"
        return Report(seed, text, machine.transcript)
    return Report(seed, None, machine.transcript)


def run_fault_case(seed: int) -> Report:
    """Run the same workload while one of the two log directories fails: from some call on, once or for good."""
    machine = Machine(seed)
    try:
        _live_with_fault(machine)
    except Exception as error:  # noqa: BLE001
        text = str(error) if isinstance(error, Violation) else f"{error!r}"
        return Report(seed, text, machine.transcript)
    return Report(seed, None, machine.transcript)


def _live_with_fault(machine: Machine) -> None:
    files, source = machine.files, machine.random
    machine.start()
    workload = Workload(machine, deletes=False)
    for _ in range(20):
        workload.act()
    code = source.choice((errno.EIO, errno.EROFS, errno.ENOSPC, errno.ENOSPC))
    first = files.calls + source.randint(1, CHANGES_MAX)
    what = {errno.EIO: "all", errno.EROFS: "changes", errno.ENOSPC: "room"}[code]
    files.fault = Fault(first, source.choice((1, 2, 20, 10_000)), code, DIRECTORIES[0] + "/", what)
    machine.note(f"{files.fault} at call {files.calls}")
    for _ in range(ACTIONS_MAX):
        workload.act()
    _require_only_one_failed(machine, code, workload.half_done)
    expected = {key: _expected(machine.last_logs.get(key), history) for key, history in machine.histories.items()}
    if machine.logs is not None and source.random() < 0.5:
        machine.note("close")
        machine.logs.close()
        machine.background.drain()
    files.fault = None
    _stop_and_start(machine, expected)
    for key, history in machine.histories.items():
        _check(machine, key, history, expected[key])


def _require_only_one_failed(machine: Machine, code: int, half_done: bool) -> None:
    """Require that only one directory failed and the other goes on, or that both do when one is only full."""
    if len(machine.failed) > 1 or any(not line.startswith(DIRECTORIES[0]) for line in machine.failed):
        raise Violation(f"offline: {machine.failed}")
    assert machine.logs is not None
    for log in machine.logs.all_logs():
        if log.log_directory != DIRECTORIES[0]:
            log.read(log.log_start_offset, 1000, log.log_end_offset, whole_first_batch=True)
    if code == errno.ENOSPC and machine.failed and not half_done:
        raise Violation(f"no room is no damage: {machine.failed}")


def _live(machine: Machine) -> None:
    machine.start()
    for life in range(LIVES):
        machine.note(f"life {life}")
        stopped = _work(machine)
        expected = {key: _expected(machine.last_logs.get(key), history) for key, history in machine.histories.items()}
        if stopped or machine.random.random() < 0.4:
            _stop_and_start(machine, expected)
        else:
            _close_and_start(machine, expected)
        for key, history in machine.histories.items():
            _check(machine, key, history, expected[key])


class Expected(NamedTuple):
    """Expectation of one log when the machine stopped: what was acknowledged, what was on the disk for certain."""

    acknowledged_end: int
    certain_end: int
    start: int
    may_be_missing: bool


def _expected(log: Log | None, history: History) -> Expected:
    if log is None:
        return Expected(0, 0, history.end, True)
    limit = history.certain_end if history.before else history.end
    acknowledged = min(history.acknowledged_end, limit)
    return Expected(
        acknowledged, min(log.recovery_point, limit), log.log_start_offset, log.recovery_point <= log.log_start_offset
    )


def _work(machine: Machine) -> bool:
    """Tell whether the machine was stopped."""
    files, workload = machine.files, Workload(machine)
    files.stop_at = files.changes + machine.random.randint(1, CHANGES_MAX)
    try:
        for _ in range(machine.random.randint(1, ACTIONS_MAX)):
            workload.act()
    except MachineStopped as stopped:
        machine.note(f"stopped at {stopped}")
        return True
    files.stop_at = None
    return False


def _stop_and_start(machine: Machine, expected: dict[PartitionKey, Expected]) -> None:
    """Stop the machine and start it again, until a start comes to its end."""
    while True:
        power_fails = machine.random.random() < 0.6
        machine.note("power failure" if power_fails else "kill")
        machine.stop(power_fails)
        if not power_fails:
            pass
        else:
            for key, one in expected.items():
                expected[key] = one._replace(acknowledged_end=one.certain_end)
        if machine.random.random() < 0.4:
            machine.files.stop_at = machine.files.changes + machine.random.randint(1, 15)
        try:
            machine.start()
        except MachineStopped as stopped:
            machine.note(f"stopped in the start at {stopped}")
            continue
        machine.files.stop_at = None
        return


def _close_and_start(machine: Machine, expected: dict[PartitionKey, Expected]) -> None:
    """A clean stop, after which even a power failure takes nothing away and nothing has to be repaired."""
    assert machine.logs is not None
    machine.note("clean close")
    ends = {key: log.log_end_offset for key in machine.histories if (log := machine.log(key)) is not None}
    contents = {key: entries_of(log) for key in ends if (log := machine.log(key)) is not None}
    machine.logs.close()
    machine.background.drain()
    machine.stop(machine.random.random() < 0.5)
    machine.start()
    for key, end in ends.items():
        log = machine.log(key)
        if log is None or log.clean_end_offset != end or log.recovery_point != end or entries_of(log) != contents[key]:
            raise Violation(f"{log} was closed cleanly at {end}")
        expected[key] = expected[key]._replace(acknowledged_end=end, certain_end=end)


def _check(machine: Machine, key: PartitionKey, history: History, expected: Expected) -> None:
    """Check one log after a stop; its history goes on with what is there."""
    if machine.failed:
        raise Violation(f"offline: {machine.failed}")
    log = machine.log(key)
    history.highest_start = max(history.highest_start, expected.start if history.entries else 0)
    machine.note(f"found {log} after {expected} of {history.start}..{history.end}")
    if log is None:
        if not expected.may_be_missing:
            raise Violation(f"{key} is gone")
        del_history(machine, key)
        return
    entries = check(log, history, expected.acknowledged_end, expected.start)
    history.found(log.log_start_offset, log.log_end_offset, entries)


def del_history(machine: Machine, key: PartitionKey) -> None:
    """The partition never was; if its directory was renamed only, that may come back."""
    gone, fresh = machine.histories[key], History(key[0], machine.histories[key].compacts)
    fresh.former = [gone.entries, *gone.former]
    fresh.former_end = max(gone.end, gone.former_end)
    machine.histories[key] = fresh
