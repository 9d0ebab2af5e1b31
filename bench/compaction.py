"""Compaction measured: how fast the child is, what memory it takes, and what is left for the log that is written to.

    python bench/compaction.py [--json] [MEGABYTES] [KEYS]

Appends go to another log of the same loop, one batch of a kilobyte at a time, in turn beside the child and while it is
stopped (SIGSTOP), so that both find the same machine.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import resource
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import this_tree  # noqa: F401

from odradek.broker.log.compaction.scheduler import Compaction
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.records import encode_batch
from odradek.world.background import ThreadBackground
from odradek.world.children import ProcessChildren
from odradek.world.clock import LoopClock
from odradek.world.os_files import OsFiles
from odradek.world.tasks import Tasks

MEGABYTES, KEYS = 64, 50_000
RECORDS_PER_BATCH = 100
VALUE_BYTES = 100
WINDOW_SECONDS = 0.3
APPENDS_PER_BURST = 500
PAUSE_SECONDS = 0.03
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=16 << 20)


class Compacted(NamedTuple):
    """Figures of one compaction, and of the appends beside it."""

    bytes_before: int
    bytes_after: int
    records: int
    seconds: float
    peak_bytes: int
    appends_alone: float
    """A second."""
    appends_beside: float


def fill(log: Log, size_bytes: int, keys: int) -> None:
    """Batches whose keys come again and again."""
    choose, value = random.Random(1), random.Random(2).randbytes(VALUE_BYTES)
    while log.size_bytes < size_bytes:
        chosen = [b"key-%d" % choose.randrange(keys) for _ in range(RECORDS_PER_BATCH)]
        log.append_as_follower(
            encode_batch(log.log_end_offset, [1] * len(chosen), chosen, [value] * len(chosen), partition_leader_epoch=0)
        )
    log.roll()
    log.flush()


def _signal_child(number: int) -> None:
    """Send a signal to the only child, if it has not ended."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), number)


async def _appends_per_second(log: Log, seconds: float) -> float:
    """Append in bursts, so that the disk's own pace does not come into it."""
    batch = encode_batch(0, [1], [None], [bytes(1000)])
    began, count, busy = time.perf_counter(), 0, 0.0
    while time.perf_counter() - began < seconds:
        burst = time.perf_counter()
        for _ in range(APPENDS_PER_BURST):
            log.append_as_leader(bytearray(batch), 0)
        count += APPENDS_PER_BURST
        busy += time.perf_counter() - burst
        await asyncio.sleep(PAUSE_SECONDS)
    return count / busy


async def _measure(directory: Path, megabytes: int, keys: int) -> Compacted:
    loop = asyncio.get_running_loop()
    background = ThreadBackground(loop)
    environment = LogEnvironment(OsFiles(), LoopClock(loop), background, random.Random(1))
    dirty = open_log(environment, f"{directory}/dirty-0", "dirty", 0, COMPACTED, clean=True)
    written = open_log(environment, f"{directory}/written-0", "written", 0, LogConfig(), clean=True)
    fill(dirty, megabytes << 20, keys)
    size, records = dirty.size_bytes, dirty.log_end_offset
    done = asyncio.Event()
    compaction = Compaction(
        environment.clock,
        ProcessChildren(Tasks(LoopClock(loop), print)),
        LogManagerSettings(),
        lambda: [dirty],
        lambda log: log.log_end_offset,
        lambda log: done.set(),
    )
    compaction.look()
    took, speeds = 0.0, []
    while not done.is_set():
        began = time.perf_counter()
        beside = await _appends_per_second(written, WINDOW_SECONDS)
        took += time.perf_counter() - began
        if not done.is_set():
            _signal_child(signal.SIGSTOP)
            speeds.append((beside, await _appends_per_second(written, WINDOW_SECONDS)))
            _signal_child(signal.SIGCONT)
    compaction.stop()
    background.close()
    beside, alone = (statistics.median(one) for one in zip(*speeds, strict=True))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return Compacted(size, dirty.size_bytes, records, took, peak, alone, beside)


def measure(megabytes: int, keys: int) -> Compacted:
    """Measure one; call it in a process that has had no larger child: the peak is that of all its children."""
    with tempfile.TemporaryDirectory(prefix="compaction-") as directory:
        return asyncio.run(_measure(Path(directory), megabytes, keys))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("megabytes", type=int, nargs="?", default=MEGABYTES, help="size of the log")
    arguments.add_argument("keys", type=int, nargs="?", default=KEYS, help="number of different keys")
    arguments.add_argument("--json", action="store_true", help="print JSON")
    given = arguments.parse_args()
    found, keys = measure(given.megabytes, given.keys), given.keys
    print(
        json.dumps(found._asdict())
        if given.json
        else f"compacted {found.bytes_before / 1e6:,.0f} MB of {found.records:,} records, {keys:,} keys, "
        f"to {found.bytes_after / 1e6:,.1f} MB\n"
        f"speed     {found.bytes_before / 1e6 / found.seconds:,.1f} MB/s, {found.records / found.seconds:,.0f} "
        f"records/s in {found.seconds:.1f} s (beside appends)\n"
        f"memory    {found.peak_bytes / 1e6:,.0f} MB at most in the child\n"
        f"appends   {found.appends_alone:,.0f}/s alone, {found.appends_beside:,.0f}/s beside it: "
        f"{found.appends_beside / found.appends_alone:.2f}"
    )


if __name__ == "__main__":
    main()
