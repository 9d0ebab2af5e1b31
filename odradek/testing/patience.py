"""Limits of how long a test waits for what must happen. They measure nothing: they are for a program that hangs."""

import time
from collections.abc import Callable

PATIENCE_SECONDS = 150.0
"""A machine with two processors that runs the whole suite may need ten times as long as for one test alone."""

UNHURRIED = {
    "zookeeper.session.timeout.ms": 10_000,
    "replica.lag.time.max.ms": 10_000,
    "replica.fetch.wait.max.ms": 500,
    "log.retention.check.interval.ms": 60_000,
    "log.cleaner.backoff.ms": 15_000,
}
"""Settings of a `Cluster` whose brokers are to be dead for nobody, however busy the machine is, and that costs little
while nobody asks it."""

SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 0.5
SHARE = 0.1
"""What asking may add to the time that something takes."""


def wait_until(condition: Callable[[], bool], what: str, evidence: Callable[[], str] = str) -> None:
    """Ask until it is so, more and more seldom: asking costs the processor that the program under test waits for.

    Raises AssertionError with `what` and the `evidence` when it is not so within PATIENCE_SECONDS.
    """
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < PATIENCE_SECONDS, f"not within {PATIENCE_SECONDS:.0f} s: {what}\n{evidence()}"
        time.sleep(min(max(waited * SHARE, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS))
