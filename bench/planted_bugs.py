"""Puts one mistake after another into the rules of replication and tells how many seeds the simulator needs to see it.

    python bench/planted_bugs.py [--seeds 300] [--only PART[,PART]] [--quick]

The mistakes stand in `planted_bugs.txt`. `--quick`: only those that are known to be found within few seeds. Exit code 1
when one survives.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from odradek.testing.planted_bugs import QUICK_SEEDS, copy_program, plant, read_bugs, remove, seeds_needed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=300, help="as many at most for each mistake")
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--quick", action="store_true", help=f"those that are found within {QUICK_SEEDS} seeds")
    given = parser.parse_args()
    parts = [part for part in given.only.split(",") if part]
    chosen = [
        bug
        for bug in read_bugs()
        if (not parts or any(part in bug.name for part in parts)) and (bug.quick or not given.quick)
    ]
    survived = 0
    with tempfile.TemporaryDirectory(prefix="odradek-planted-") as folder:
        tree = copy_program(Path(folder))
        for bug in chosen:
            plant(bug, tree)
            began = time.monotonic()
            count, seen = seeds_needed(bug, tree, QUICK_SEEDS if given.quick else given.seeds)
            remove(bug, tree)
            survived += not count
            said = f"seed {count}" if count else "SURVIVED"
            print(f"{said:9} {time.monotonic() - began:5.0f} s  {bug.name}: {seen:.100}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} found")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
