"""Puts one mistake after another into the rules of replication and tells how many seeds the simulator needs to see it.

    python bench/planted_bugs.py [--seeds 300] [--only PART[,PART]] [--quick] [--table docs/planted-bugs.md]

The mistakes stand in `planted_bugs.txt`. `--quick`: only those that are known to be found within few seeds. `--table`:
a page of which each row is written as soon as it is known; rows of mistakes that are not played stay. Exit code 1 when
one survives.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import this_tree  # noqa: F401

from odradek.testing.planted_bugs import (
    QUICK_SEEDS,
    Bug,
    Told,
    copy_program,
    plant,
    read_bugs,
    read_table,
    remove,
    seeds_needed,
    table,
    told_of,
)


def note(page: Path | None, bugs: list[Bug], told: Told) -> None:
    """Bring a page up to date."""
    if page is not None:
        there = read_table(page.read_text()) if page.exists() else {}
        page.write_text(table(bugs, {**there, **told}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=300, help="most seeds to try for each mistake")
    parser.add_argument("--only", default="", help="parts of the names of mistakes, separated by commas")
    parser.add_argument(
        "--quick", action="store_true", help=f"try only the mistakes that are found within {QUICK_SEEDS} seeds"
    )
    parser.add_argument("--table", type=Path, help="page to write the results to")
    given = parser.parse_args()
    parts = [part for part in given.only.split(",") if part]
    bugs = read_bugs()
    chosen = [
        bug for bug in bugs if (not parts or any(part in bug.name for part in parts)) and (bug.quick or not given.quick)
    ]
    survived = 0
    note(given.table, bugs, {})
    with tempfile.TemporaryDirectory(prefix="odradek-planted-") as folder:
        tree = copy_program(Path(folder))
        for bug in chosen:
            plant(bug, tree)
            outcome = seeds_needed(bug, tree, QUICK_SEEDS if given.quick else given.seeds)
            remove(bug, tree)
            survived += not outcome.seeds
            said = f"seed {outcome.seeds}" if outcome.seeds else "SURVIVED"
            print(f"{said:9} {outcome.processor_s:6.1f} s  {bug.name}: {outcome.seen:.100}", flush=True)
            note(given.table, bugs, {bug.name: told_of(outcome)})
    print(f"{len(chosen) - survived} of {len(chosen)} found")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
