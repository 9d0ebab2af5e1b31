"""The real child process on real files: it compacts, it is ended, it is gone when its parent is."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

from odradek.broker.log.compaction.cleanable_offsets import log_to_clean, make_request
from odradek.broker.log.compaction.scheduler import CHILD, Compaction
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.records import encode_batch
from odradek.testing.log_environments import read_batches
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.world.background import ThreadBackground
from odradek.world.child_process import GIVING_WAY
from odradek.world.children import ProcessChildren
from odradek.world.clock import LoopClock
from odradek.world.os_files import OsFiles
from odradek.world.tasks import Tasks

CONFIG = LogConfig(
    segment_bytes=20_000, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=0
)


def run(main: Callable[[Log], Coroutine[None, None, None]], path: Path) -> None:
    async def with_log() -> None:
        loop = asyncio.get_running_loop()
        background = ThreadBackground(loop)
        environment = LogEnvironment(OsFiles(), LoopClock(loop), background, random.Random(1))
        log = open_log(environment, str(path / "topic-0"), "topic", 0, CONFIG, clean=True)
        for number in range(1000):
            log.append_as_leader(encode_batch(0, [1], [b"key %d" % (number % 50)], [b"value %d" % number]), 0)
        log.roll()
        log.flush()
        try:
            await asyncio.wait_for(main(log), PATIENCE_SECONDS)
        finally:
            background.close()

    asyncio.run(with_log())


def compaction(log: Log, cleaned: Callable[[], object]) -> Compaction:
    loop = asyncio.get_running_loop()
    return Compaction(
        log.environment.clock,
        ProcessChildren(Tasks(LoopClock(loop), print)),
        LogManagerSettings(),
        lambda: [log],
        lambda log: log.log_end_offset,
        lambda log: cleaned(),
    )


def test_a_child_compacts_while_the_loop_goes_on(tmp_path: Path) -> None:
    async def main(log: Log) -> None:
        done = asyncio.Event()
        compaction(log, done.set).look()
        turns = 0
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 100
        assert [columns.offsets for columns in read_batches(log)] == [[number] for number in range(950, 1000)]
        assert log.cleaned_to == 1000
        left = {name.split(".", 1)[1] for name in os.listdir(log.directory) if name[0] == "0"}
        assert {"cleaned", "swap"}.isdisjoint(suffix.rpartition(".")[2] for suffix in left)

    run(main, tmp_path)


def test_a_child_that_is_ended_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    async def main(log: Log) -> None:
        before = [columns.offsets for columns in read_batches(log)]
        one = compaction(log, lambda: None)
        one.look()
        await asyncio.sleep(0)
        one.stop()
        while one._jobs:
            await asyncio.sleep(0.01)
        assert [columns.offsets for columns in read_batches(log)] == before
        assert log.cleaned_to == 0

    run(main, tmp_path)


def request_of(log: Log) -> bytes:
    dirty = log_to_clean(log, log.log_end_offset, 0)
    assert dirty is not None
    return make_request(log, dirty, 0, 1 << 20, 0.9).encode()


def test_a_child_is_nice_and_ends_with_its_parent(tmp_path: Path) -> None:
    """Its rate is so low that it would take for ever; then its parent is killed."""

    async def main(log: Log) -> None:
        parent = (
            "import os, subprocess, sys\n"
            f"command = [sys.executable, '-m', '{CHILD}', str(os.getpid()), '1']\n"
            "child = subprocess.Popen(command, stdin=0, stdout=1)\n"
            "print(child.pid, file=sys.stderr, flush=True)\n"
            "child.wait()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdin is not None and process.stderr is not None and process.stdout is not None
        child = int(process.stderr.readline())
        process.stdin.write(request_of(log))
        process.stdin.close()
        while os.getpriority(os.PRIO_PROCESS, child) < GIVING_WAY:
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        answers = await asyncio.get_running_loop().run_in_executor(None, process.stdout.read)
        assert b"finished" not in answers
        process.stdout.close()
        process.stderr.close()

    run(main, tmp_path)
