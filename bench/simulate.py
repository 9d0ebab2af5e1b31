"""Runs the simulation for many seeds and prints those that fail.

    python bench/simulate.py --seeds 0-1000 [--faults kill,isolate] [--seconds 15] [--first] [--show]

Without `--faults` and `--seconds` half of the plans are short with all kinds of faults, half long with a few kinds.
A failing run prints its seed, what went wrong and the end of its transcript (`--show`: all of it). So does one that
takes longer than LIMIT_S of processor time: something asks again and again without a pause.
"""

import argparse
import os
import signal
import sys
import time
import traceback

from odradek.testing.simulation.run import Plan, simulate, varied_plan

LINES = 60
LIMIT_S = 60


def too_long(*_: object) -> None:
    raise TimeoutError(f"the run takes longer than {LIMIT_S} s of processor time")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-20", help="first-last, the last not included, or one seed")
    parser.add_argument("--faults", default="", help="names, separated by commas; empty: all")
    parser.add_argument("--seconds", type=float, help="virtual time under faults; 15 with --faults")
    parser.add_argument("--first", action="store_true", help="stop at the first run that fails")
    parser.add_argument("--show", action="store_true", help="the whole transcript of runs that fail")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    kinds = [name for name in given.faults.split(",") if name]
    began, failed = time.monotonic(), []
    seeds = range(int(first), int(last) if last else int(first) + 1)
    signal.signal(signal.SIGVTALRM, too_long)
    for seed in seeds:
        if failed and given.first:
            break
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
        varied = not kinds and given.seconds is None
        try:
            report = simulate(varied_plan(seed) if varied else Plan(seed, kinds, faults_s=given.seconds or 15.0))
        except Exception:  # noqa: BLE001 - whatever ends a run is a finding
            failed.append(seed)
            print(f"seed {seed}:", flush=True)
            traceback.print_exc()
            continue
        if report.violation is not None:
            failed.append(seed)
            print(report.text(1_000_000 if given.show else LINES), flush=True)
    print(f"{len(seeds)} runs in {time.monotonic() - began:.0f} s, failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    if "PYTHONHASHSEED" not in os.environ:  # sets of strings must have one order in every process
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
