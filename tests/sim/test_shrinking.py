"""A failing run is cut down to what it needs, and told."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.simulation.history import Violation
from odradek.testing.simulation.plans import OPTIONAL_CLIENTS, Occurrence, Plan, Report
from odradek.testing.simulation.run import simulate
from odradek.testing.simulation.shrinking import shrink, timeline
from odradek.testing.simulation.unusual_settings import Unusual

LINES = [
    "    1.000 kill broker-1",
    "    1.500   state.change: controller t-0 leader 1 → 2",
    "    1.600   state.change: controller other-1 leader 1 → 2",
    "    2.000 VIOLATION t-0: acknowledged and lost: {5: b'producer-0-4'}",
    "    2.000 VIOLATION t-1: acknowledged and lost: {7: b'producer-1-4'}",
]


def needs(numbers: set[int], client: str, plan: Plan) -> Report:
    """A run that fails when those of its eight faults happen and that client is there."""
    came = [Occurrence(n, 100.0 * n, "kill") for n in range(8)] if plan.occurrences is None else plan.occurrences
    fails = numbers <= {one.number for one in came} and client not in plan.without
    violation = Violation(f"t-0: acknowledged and lost: {{{len(came)}: b'producer-0-4'}}") if fails else None
    return Report(plan, violation, LINES, 0, 0, 0, 1.0, tuple(came))


def test_faults_and_clients_that_are_not_needed_go() -> None:
    smallest = shrink(Plan(1), lambda plan: needs({2, 5}, "group", plan), lambda text: None)
    assert smallest is not None
    assert [one.number for one in smallest.plan.occurrences or ()] == [2, 5]
    assert smallest.plan.without == set(OPTIONAL_CLIENTS) - {"group"}


def test_unusual_settings_that_are_not_needed_go() -> None:
    def attempt(plan: Plan) -> Report:
        return needs({2} if "linger_ms" in plan.unusual.producers else {99}, "group", plan)

    unusual = Unusual({"log.roll.ms": "1500"}, {"linger_ms": 60, "batch_size": 1}, {"max_poll_records": 1})
    smallest = shrink(Plan(1, unusual=unusual), attempt, lambda text: None)
    assert smallest is not None and smallest.plan.unusual == Unusual({}, {"linger_ms": 60}, {})
    assert "linger_ms" in timeline(smallest)


def test_a_run_that_passes_cannot_be_shrunk() -> None:
    assert shrink(Plan(1), lambda plan: needs({99}, "group", plan), lambda text: None) is None


def test_another_failure_does_not_count_as_this_one() -> None:
    def attempt(plan: Plan) -> Report:
        report = needs({2}, "", plan)
        return report if plan.occurrences is None else replace(report, violation=Violation("no rest within 150 s"))

    assert shrink(Plan(1), attempt, lambda text: None) is None


def test_the_timeline_tells_of_the_partition_in_which_it_broke_and_ends_there() -> None:
    told = timeline(needs({2}, "", Plan(1, occurrences=(Occurrence(2, 1_000.0, "kill"),))))
    assert "1.000 s: kill" in told and "kill broker-1" in told and "controller t-0" in told
    assert "other-1" not in told and "t-1" not in told


def test_faults_played_from_the_list_are_the_same_run() -> None:
    """What other threads of this process log is no part of it."""
    dear = frozenset({"transactions", "old", "loose", "connectors"})
    drawn = simulate(Plan(5, ["kill", "isolate_from_brokers"], faults_s=3.0, without=dear))
    with _a_thread_that_logs():
        again = simulate(replace(drawn.plan, occurrences=tuple(drawn.occurrences)))
    assert drawn.occurrences and again.digest == drawn.digest


@contextmanager
def _a_thread_that_logs() -> Iterator[None]:
    logged, end = threading.Event(), threading.Event()

    def run() -> None:
        while not end.wait(0.01):
            logging.getLogger("somebody.else").warning("No node available")
            logged.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert logged.wait(PATIENCE_SECONDS)
        yield
    finally:
        end.set()
        thread.join()
