"""Compaction measured: how fast the child is, what memory it takes, and what is left for the log that is written to.

    python bench/compaction.py [MEGABYTES] [KEYS]

Appends go to another log of the same loop, one batch of a kilobyte at a time, first alone and then beside the child.
"""

import asyncio
import random
import resource
import shutil
import sys
import tempfile
import time

from odradek.broker.log.compaction.scheduler import Compaction, CompactionSettings
from odradek.broker.log.config import LogConfig
from odradek.broker.log.log import Log
from odradek.broker.log.recovery import open_log
from odradek.broker.log.storage import Storage
from odradek.protocol.records import encode_batch
from odradek.world.background import ThreadBackground
from odradek.world.children import ProcessChildren
from odradek.world.clock import LoopClock
from odradek.world.os_files import OsFiles

MEGABYTES = int(sys.argv[1]) if len(sys.argv) > 1 else 64
KEYS = int(sys.argv[2]) if len(sys.argv) > 2 else 50_000
RECORDS_PER_BATCH = 100
VALUE_BYTES = 100
MEASURE_SECONDS = 2.0
APPENDS_PER_BURST = 500
PAUSE_SECONDS = 0.03
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=16 << 20)


def fill(log: Log) -> None:
    """Batches whose keys come again and again."""
    choose, value = random.Random(1), random.Random(2).randbytes(VALUE_BYTES)
    while log.size_bytes < MEGABYTES << 20:
        keys = [b"key-%d" % choose.randrange(KEYS) for _ in range(RECORDS_PER_BATCH)]
        log.append_as_follower(
            encode_batch(log.log_end_offset, [1] * len(keys), keys, [value] * len(keys), partition_leader_epoch=0)
        )
    log.roll()
    log.flush()


async def appends_per_second(log: Log, stop: asyncio.Event | None) -> float:
    """Until `stop`, or for a while: in bursts, so that the disk's own pace does not come into it."""
    batch = encode_batch(0, [1], [None], [bytes(1000)])
    began, count, busy = time.perf_counter(), 0, 0.0
    while not stop.is_set() if stop is not None else time.perf_counter() - began < MEASURE_SECONDS:
        burst = time.perf_counter()
        for _ in range(APPENDS_PER_BURST):
            log.append_as_leader(bytearray(batch), 0)
        count += APPENDS_PER_BURST
        busy += time.perf_counter() - burst
        await asyncio.sleep(PAUSE_SECONDS)
    return count / busy


async def main(directory: str) -> None:
    loop = asyncio.get_running_loop()
    background = ThreadBackground(loop)
    storage = Storage(OsFiles(), LoopClock(loop), background, random.Random(1))
    dirty = open_log(storage, f"{directory}/dirty-0", "dirty", 0, COMPACTED, clean=True)
    written = open_log(storage, f"{directory}/written-0", "written", 0, LogConfig(), clean=True)
    fill(dirty)
    size, records = dirty.size_bytes, dirty.log_end_offset
    alone = await appends_per_second(written, None)
    done = asyncio.Event()
    compaction = Compaction(
        storage.clock,
        ProcessChildren(loop),
        CompactionSettings(),
        lambda: [dirty],
        lambda log: log.log_end_offset,
        lambda log: done.set(),
    )
    began = time.perf_counter()
    compaction.look()
    beside = await appends_per_second(written, done)
    took = time.perf_counter() - began
    compaction.stop()
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"compacted {size / 1e6:,.0f} MB of {records:,} records, {KEYS:,} keys, to {dirty.size_bytes / 1e6:,.1f} MB")
    print(f"speed     {size / 1e6 / took:,.1f} MB/s, {records / took:,.0f} records/s in {took:.1f} s (beside appends)")
    print(f"memory    {memory:,.0f} MB at most in the child")
    print(f"appends   {alone:,.0f}/s alone, {beside:,.0f}/s beside it: {beside / alone:.2f}")
    background.close()


if __name__ == "__main__":
    path = tempfile.mkdtemp(prefix="compaction-")
    try:
        asyncio.run(main(path))
    finally:
        shutil.rmtree(path)
