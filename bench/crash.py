"""Stops a broker's logs at any byte, many times over, and prints every case in which they do not keep their promise.

python bench/crash.py --cases 5000 [--seed 1]      cases with the seeds from there on
python bench/crash.py --seed 17 --show             one case and all that happened in it
"""

import argparse
import logging
import sys
import time

import this_tree  # noqa: F401

from odradek.testing.crashes.run import run_case, run_fault_case


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1, help="number of cases")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first case")
    parser.add_argument("--show", action="store_true", help="print the whole transcript of cases that fail")
    parser.add_argument("--faults", action="store_true", help="have the disk fail instead of the process stop")
    parser.add_argument("--log", action="store_true", help="print the broker's own log, too")
    parser.add_argument("--stop-after", type=int, default=10, help="number of failures after which to stop")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO if given.log else logging.CRITICAL)
    run = run_fault_case if given.faults else run_case
    began, failed = time.monotonic(), []
    for seed in range(given.seed, given.seed + given.cases):
        report = run(seed)
        if report.violation is not None:
            failed.append(seed)
            print(report.text(1_000_000 if given.show else 12), flush=True)
            if len(failed) >= given.stop_after:
                break
    print(f"{seed - given.seed + 1} cases in {time.monotonic() - began:.0f} s, failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
