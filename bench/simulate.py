"""Runs the simulation for many seeds and prints those that fail.

    python bench/simulate.py --seeds 0-1000 [--faults kill,isolate] [--seconds 15] [--brokers 3]
        [--rolling [--expiring]] [--connectors] [--first] [--shrink] [--show]

Without `--faults` and `--seconds` half of the plans are short with all kinds of faults, half long with a few kinds.
A failing run prints its seed, what went wrong and the end of its transcript (`--show`: all of it). So does one that
takes longer than LIMIT_S of processor time: something asks again and again without a pause. `--shrink` plays it again
without each of its faults, then without some clients, as long as it fails in the same way, and prints what is left as a
timeline.
"""

import argparse
import gc
import os
import signal
import sys
import time
import traceback

import this_tree  # noqa: F401

from odradek.testing.simulation.plans import EXPIRES, ROLLING, Plan, varied_plan
from odradek.testing.simulation.run import simulate
from odradek.testing.simulation.shrinking import shrink, timeline

LINES = 60
LIMIT_S = 60
CLOSING_S = 5
"""After LIMIT_S the loop cancels its tasks, which may be what has no end."""
ALLOCATIONS_BETWEEN_COLLECTIONS = 50_000
"""Python's 700 cost a few percent of each run."""


class TooLong(KeyboardInterrupt):
    """A loop lets an interrupt through; what else is raised in a callback it only notes."""


def too_long(*_: object) -> None:
    raise TooLong(f"the run takes longer than {LIMIT_S} s of processor time")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-20", help="FIRST-LAST, without the last, or one seed")
    parser.add_argument("--faults", default="", help="names of faults, separated by commas; default: all")
    parser.add_argument("--seconds", type=float, help="virtual seconds under faults; default with --faults: 15")
    parser.add_argument("--brokers", type=int, default=3, help="number of brokers, with --faults or --seconds")
    parser.add_argument("--rolling", action="store_true", help="with --faults: use small segments, which are compacted")
    parser.add_argument("--expiring", action="store_true", help="with --rolling: have old records of the topic deleted")
    parser.add_argument("--connectors", action="store_true", help="with --faults: add a group balanced in ZooKeeper")
    parser.add_argument("--first", action="store_true", help="stop at the first run that fails")
    parser.add_argument("--shrink", action="store_true", help="cut each run that fails down to what it needs")
    parser.add_argument("--show", action="store_true", help="print the whole transcript of runs that fail")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    kinds = [name for name in given.faults.split(",") if name]
    began, failed, virtual_s = time.process_time(), [], 0.0
    seeds = range(int(first), int(last) if last else int(first) + 1)
    signal.signal(signal.SIGVTALRM, too_long)
    gc.freeze()
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
    for seed in seeds:
        if failed and given.first:
            break
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S, CLOSING_S)
        varied = not kinds and given.seconds is None
        try:
            settings = ROLLING if given.rolling else {}
            expires = EXPIRES if given.expiring else None
            without = frozenset(() if given.connectors else ("connectors",))
            drawn = Plan(
                seed, kinds, given.seconds or 15.0, 2, settings, expires, without=without, brokers=given.brokers
            )
            plan = varied_plan(seed) if varied else drawn
            report = simulate(plan)
            gc.collect()  # a tenth of a second; left to itself the garbage of fifty runs is three gigabytes
        except (Exception, TooLong):  # noqa: BLE001 - whatever ends a run is a finding
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            failed.append(seed)
            print(f"seed {seed}:", flush=True)
            traceback.print_exc()
            continue
        virtual_s += report.virtual_s
        if report.violation is not None:
            failed.append(seed)
            print(report.text(1_000_000 if given.show else LINES), flush=True)
            if given.shrink:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                smallest = shrink(plan, simulate, lambda text: print(f"  {text}", flush=True))
                print(timeline(smallest) if smallest is not None else "it cannot be shrunk: played again it passes")
    took_s = time.process_time() - began
    speed = f"{virtual_s:.0f} virtual seconds in {took_s:.1f} s of processor"
    print(f"{len(seeds)} runs, {speed}, failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    if "PYTHONHASHSEED" not in os.environ:  # sets of strings must have one order in every process
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
