"""Page that says how many seeds each planted mistake takes, as `bench/planted_bugs.py --table` writes it."""

import re
from collections.abc import Mapping, Sequence

from odradek.testing.planted_bugs import FIRST_SEED, Bug, Outcome

ABOVE = f"""\
# How soon the simulator finds planted mistakes

For those who change Odradek, or wonder whether its simulator finds anything. `bench/planted_bugs.py --table
docs/planted-bugs.md` puts each mistake of `bench/planted_bugs.txt` into a copy of the program, runs the simulator with
seeds from {FIRST_SEED:_} on until a run breaks a promise, and writes the mistake's row; with `--only` it keeps the
other rows. See [testing](testing.md).

**seeds** is the number of seeds that were needed; 1 means that the first one found the mistake. A seed decides
everything in a run, so this number is the same on every machine, until a rule or a plan of the simulator changes: it is
the figure to look at. **seconds** is the processor time of all these runs, without the start of Python, on one machine,
which did other work as well: compare the rows with each other only. **faults** names the faults that are played, `all`
where any may occur; *small* segments are compacted during the run, *expiring* ones also deleted.

"""
HEADING = ("mistake", "faults", "seeds", "seconds"), ("---", "---", "---:", "---:")
NOT_FOUND = "none of "
ROW = re.compile(r"^\| (.*) \| (.*) \| (.*) \| (.*) \|$")
Told = Mapping[str, tuple[str, str]]
"""By the name of a mistake: its seeds and seconds, as they stand there."""


def read_table(text: str) -> dict[str, tuple[str, str]]:
    """Read the rows of a page."""
    rows = [found.groups() for found in map(ROW.match, text.splitlines()) if found is not None]
    return {name: (seeds, seconds) for name, _, seeds, seconds in rows[len(HEADING) :]}


def told_of(outcome: Outcome) -> tuple[str, str]:
    """Return the seeds and seconds of an outcome, as the table shows them."""
    return str(outcome.seeds) if outcome.seeds else f"{NOT_FOUND}{outcome.tried}", f"{outcome.processor_s:.1f}"


def table(bugs: Sequence[Bug], told: Told) -> str:
    """Make the page: the mistakes of the list, in its order, and no other."""
    rows = [(bug.name, faults_of(bug), *told.get(bug.name, ("", ""))) for bug in bugs]
    seeds = sorted(int(row[2]) for row in rows if row[2].isdigit())
    missed = sum(row[2].startswith(NOT_FOUND) for row in rows)
    summary = f"Planted: {len(rows)}. Found: {len(seeds)}. Not found: {missed}."
    summary += f" Not played: {len(rows) - len(seeds) - missed}."
    if seeds:
        summary += f"\n{seeds.count(1)} were found with the first seed; half of those found needed at most"
        summary += f" {seeds[(len(seeds) - 1) // 2]}, and none more than {seeds[-1]}."
    lines = [f"| {' | '.join(row)} |" for row in (*HEADING, *rows)]
    return ABOVE + summary + "\n\n" + "\n".join(lines) + "\n"


def faults_of(bug: Bug) -> str:
    """Name the faults that it is played under."""
    if not bug.kinds:
        return "all"
    segments = " *expiring*" if bug.expiring else " *small*" if bug.rolling else ""
    return ", ".join(kind.replace("_", " ") for kind in bug.kinds) + f", {bug.seconds} s{segments}"
