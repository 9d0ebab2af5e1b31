"""A failing run, cut down to the fewest faults and clients that still fail, and told so that one can read it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from odradek.testing.simulation.plans import OPTIONAL_CLIENTS, Plan, Report

Attempt = Callable[[Plan], Report]
NUMBERS = re.compile(r"\d+|b'[^']*'|\[.*?\]|\{.*?\}")
KIND_LETTERS = 40


def kind_of(report: Report) -> str:
    """Return what went wrong, without the names and numbers in it; empty when nothing did."""
    return "" if report.violation is None else NUMBERS.sub("", str(report.violation))[:KIND_LETTERS]


def shrink(plan: Plan, attempt: Attempt, told: Callable[[str], object]) -> Report | None:
    """Return the report of the smallest plan that fails as this one does.

    None when it does not fail, or not again when its faults are played from the list of them.
    """
    failed = attempt(plan)
    if failed.violation is None:
        return None
    told(f"{len(failed.occurrences)} faults: {failed.violation}")
    kind, failed = kind_of(failed), attempt(replace(plan, occurrences=tuple(failed.occurrences)))
    if kind_of(failed) != kind:
        return None
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(failed.plan):
            report = attempt(candidate)
            if kind_of(report) == kind:
                failed, smaller = report, True
                told(f"{len(candidate.occurrences or ())} faults, without {sorted(candidate.without) or 'nobody'}")
                break
    return failed


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with less in them: half of the faults, then one fault less, a client less, an unusual setting less."""
    faults = plan.occurrences or ()
    size = len(faults) // 2
    while size:
        for begin in range(0, len(faults), size):
            yield replace(plan, occurrences=faults[:begin] + faults[begin + size :])
        size //= 2
    for client in OPTIONAL_CLIENTS:
        if client not in plan.without:
            yield replace(plan, without=plan.without | {client})
    for whose, settings in vars(plan.unusual).items():
        for name in settings:
            left = {other: value for other, value in settings.items() if other != name}
            yield replace(plan, unusual=replace(plan.unusual, **{whose: left}))


def timeline(report: Report) -> str:
    """Faults, elections, changes of ISRs and what was seen, in the order of time, up to where it broke; of log lines
    only those that name a controller, or the partition in which it broke."""
    where = re.search(r"\b(?!broker-|producer-|transactor-|member-)[a-z_]+-\d+\b", str(report.violation))
    named = where.group() if where else "state.change"
    end = next((n for n, line in enumerate(report.lines, 1) if "VIOLATION" in line), len(report.lines))
    lines = [line for line in report.lines[:end] if _tells(line, named)]
    faults = [f"  {occurrence}" for occurrence in report.plan.occurrences or ()]
    who = ", ".join(sorted(report.plan.without)) or "nobody"
    unusual = [f"with {report.plan.unusual}"] if report.plan.unusual else []
    head = [f"seed {report.plan.seed}: {report.violation}", *unusual, f"faults ({who} left out):"]
    return "\n".join([*head, *faults, "what happened:", *lines])


def _tells(line: str, named: str) -> bool:
    said = line[10:]
    return not said.startswith("  ") or f"{named} " in said or "is the controller" in said
