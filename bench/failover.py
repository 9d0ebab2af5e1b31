"""Pause of writes when a broker dies: one SIGKILL after another under acks=all load, each figure from its kill.

    python bench/failover.py [--kills 4]

Exit code 1 when a pause is longer than the goal, or a record that was acknowledged is lost, repeated or out of order.
"""

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

import this_tree  # noqa: F401

from odradek.testing.load import Load, Observer, check_nothing_lost
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster

GOAL_SECONDS = 5.0
PACE_SECONDS = 0.005


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--kills", type=int, default=4, help="number of times that a broker is killed")
    kills = arguments.parse_args().kills
    met = True
    with tempfile.TemporaryDirectory(prefix="odradek-failover-") as folder, UpCluster(Path(folder)) as cluster:
        observer = Observer(cluster)
        observer.create_topic()
        wait_until(observer.in_sync, "all replicas in sync")
        with Load(cluster.bootstrap, pace_seconds=PACE_SECONDS) as load:
            for number in range(kills):
                wait_until(observer.in_sync, "all replicas in sync")
                role, victim = ("controller", observer.controller()) if number % 2 else ("busiest", observer.busiest())
                killed = time.monotonic()
                cluster.kill(victim)
                wait_until(load.goes_on(), "writes to every partition")
                times = [at for at in list(load.times) if at > killed - 1]
                pause = max(after - before for before, after in itertools.pairwise(times))
                resumed = time.monotonic() - killed
                met = met and resumed <= GOAL_SECONDS
                print(f"kill {number + 1}: broker {victim} ({role}): ", end="")
                print(f"every partition written again after {resumed:.2f} s (goal {GOAL_SECONDS:.0f} s), ", end="")
                print(f"longest pause between two acknowledgements {pause:.2f} s", flush=True)
                cluster.start(victim)
            wait_until(observer.in_sync, "all replicas in sync")
        check_nothing_lost(load, cluster.bootstrap)
        print(f"{len(load.acknowledged):,} acknowledged, none lost, repeated or out of order")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
