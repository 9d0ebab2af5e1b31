"""Mistakes that can be put into a copy of the program, to see whether the simulator finds them.

`bench/planted_bugs.txt` lists them, as lines that go and lines that come. A checker is to be believed when it has found
what was planted. `bench/planted_bugs.py --table` writes the page that says how many seeds each takes.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

TREE = Path(__file__).resolve().parents[2]
LIST = TREE / "bench" / "planted_bugs.txt"
PACKAGES = ("broker", "controller", "client", "protocol", "zk_schema", "odradek", "bench")
FIRST_SEED = 700_000
FLAGS = ("quick", "rolling", "expiring", "connectors")
QUICK_SEEDS = 6
"""Seeds that find each of the quick ones."""


class BugNotPlanted(ValueError):  # noqa: N818 - what became of it
    """The lines that a mistake replaces are not there, or twice: the program has changed."""


@dataclass
class Change:
    """A place: a file, and lines of it that others replace."""

    file: str
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def applied(self, text: str) -> str:
        """Return the file's text with the mistake. Raises BugNotPlanted."""
        old, new = ("".join(f"{line}\n" for line in lines) for lines in (self.old, self.new))
        if ("\n" + text).count("\n" + old) != 1:
            raise BugNotPlanted(f"{self.file} has not exactly once:\n{old}")
        return ("\n" + text).replace("\n" + old, "\n" + new)[1:]


@dataclass
class Bug:
    """A mistake. `kinds` and `seconds`: the faults that bring it to light soonest, all when there are none; `rolling`:
    with small segments that are compacted; `expiring`: of which old records go as well; `connectors`: with a group that
    is balanced in ZooKeeper."""

    name: str
    kinds: list[str] = field(default_factory=list)
    seconds: int = 0
    quick: bool = False
    rolling: bool = False
    expiring: bool = False
    connectors: bool = False
    changes: list[Change] = field(default_factory=list)


def read_bugs() -> list[Bug]:
    """Read LIST."""
    bugs: list[Bug] = []
    for line in LIST.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        bug = bugs[-1] if bugs else Bug("")
        if not line.startswith("  "):
            bugs.append(Bug(line))
        elif line[2] in "+-":
            (bug.changes[-1].old if line[2] == "-" else bug.changes[-1].new).append(line[3:])
        elif line.endswith(".py"):
            bug.changes.append(Change(line.strip()))
        else:
            words = line.split()
            bug.quick, bug.expiring = "quick" in words, "expiring" in words
            bug.rolling = bug.expiring or "rolling" in words
            bug.seconds = next((int(word) for word in words if word.isdigit()), 0)
            bug.connectors = "connectors" in words
            bug.kinds = [word for word in words if not word.isdigit() and word not in FLAGS]
    return bugs


def copy_program(directory: Path) -> Path:
    """Copy what the simulator runs; returns the tree to plant in."""
    tree = directory / "tree"
    for package in PACKAGES:
        shutil.copytree(TREE / package, tree / package, symlinks=True)
    return tree


def plant(bug: Bug, tree: Path) -> None:
    """Put it into a copy. Raises BugNotPlanted."""
    for change in bug.changes:
        path = tree / change.file
        path.write_text(change.applied(path.read_text()))


def remove(bug: Bug, tree: Path) -> None:
    """Take it out again."""
    for change in bug.changes:
        shutil.copy2(TREE / change.file, tree / change.file)


class Outcome(NamedTuple):
    """What became of a mistake: how many seeds it took to find it, 0 when none of `tried` did; what was seen; and the
    processor time of the runs."""

    seeds: int
    tried: int
    seen: str
    processor_s: float


def seeds_needed(bug: Bug, tree: Path, seeds: int) -> Outcome:
    """Simulate with it, with so many seeds at most."""
    command = [sys.executable, "bench/simulate.py", "--first", "--seeds", f"{FIRST_SEED}-{FIRST_SEED + seeds}"]
    if bug.kinds:
        command += ["--faults", ",".join(bug.kinds), "--seconds", str(bug.seconds), *["--rolling"] * bug.rolling]
        command += ["--expiring"] * bug.expiring + ["--connectors"] * bug.connectors
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    output = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False).stdout
    failed = [line for line in output.splitlines() if line.startswith("seed ")]
    told = re.findall(rf"^{seeds} runs, .* in ([\d.]+) s of processor", output, re.MULTILINE)
    assert told, output[-2000:]
    processor_s = float(told[-1])
    if not failed:
        return Outcome(0, seeds, "", processor_s)
    seed, _, seen = failed[0].removeprefix("seed ").partition(" ")
    needed = int(seed.rstrip(":")) - FIRST_SEED + 1
    return Outcome(needed, needed, seen.rpartition("]: ")[2] or "the run ended with an exception", processor_s)


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
where any may occur; *small* segments are compacted during the run, *expiring* ones also deleted; *connectors* are a
group that is balanced in ZooKeeper.

"""
HEADING = ("mistake", "faults", "seeds", "seconds"), ("---", "---", "---:", "---:")
NOT_FOUND = "none of "
ROW = re.compile(r"^\| (.*) \| (.*) \| (.*) \| (.*) \|$")
Told = Mapping[str, tuple[str, str]]
"""Seeds and seconds as they stand in the table, by the name of the mistake."""


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
    rest = " *expiring*" if bug.expiring else " *small*" if bug.rolling else ""
    rest += " *connectors*" if bug.connectors else ""
    return ", ".join(kind.replace("_", " ") for kind in bug.kinds) + f", {bug.seconds} s{rest}"
