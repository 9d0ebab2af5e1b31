"""Measurements of the log that `bench/log.py` makes in a process: appending, reading, recovery, each beside a bare
loop.

`python bench/log_alone.py DIRECTORY LOGS BYTES BATCH_BYTES` writes logs and is killed: what a recovery then finds.
"""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import this_tree  # noqa: F401
from crc32c import crc32c

from odradek.broker.log.directories.directory_files import DirectoryOwner
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.log_manager import LogManager
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.records import encode_batch
from odradek.world.background import InlineBackground, ThreadBackground
from odradek.world.children import ProcessChildren
from odradek.world.clock import LoopClock
from odradek.world.files import FileRange
from odradek.world.os_files import OsFiles
from odradek.world.tasks import Tasks

MB = 1_000_000
PIECE_BYTES = 1 << 20
BARE_BATCH_BYTES = 70
"""A batch around one empty record."""
CONFIG = LogConfig(max_message_bytes=1 << 21)
US = DirectoryOwner(0, "bench")
TOPIC = "measured"


class Pair(NamedTuple):
    """Measurements of the log and of the bare loop, one after the other: bytes or calls a second."""

    log: float
    bare: float


def batch_of(size_bytes: int) -> bytes:
    """A batch of about that size, with one record."""
    value = random.Random(size_bytes).randbytes(max(size_bytes - BARE_BATCH_BYTES, 0))
    return bytes(encode_batch(0, [1], [None], [value], partition_leader_epoch=0))


@contextmanager
def one_log(directory: Path) -> Iterator[Log]:
    loop = asyncio.new_event_loop()
    environment = LogEnvironment(OsFiles(), LoopClock(loop), InlineBackground(), random.Random(1))
    log = open_log(environment, str(directory / f"{TOPIC}-0"), TOPIC, 0, CONFIG, clean=True)
    yield log
    log.abandon()
    environment.files.remove_directory(log.directory)
    loop.close()


# appending


def appends(directory: Path, value_bytes: int, total_bytes: int) -> Pair:
    """Appends a second, one batch each; bare: `os.write` of the same bytes."""
    batch = bytearray(encode_batch(0, [1], [None], [bytes(value_bytes)]))
    count = total_bytes // len(batch)
    descriptor = os.open(directory / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC)
    began = time.perf_counter()
    for _ in range(count):
        os.write(descriptor, batch)
    bare = count / (time.perf_counter() - began)
    os.close(descriptor)
    os.unlink(directory / "bare")
    with one_log(directory) as log:
        offset = memoryview(batch)[:8]
        began = time.perf_counter()
        for _ in range(count):
            offset[:] = bytes(8)
            log.append_as_leader(batch, 0)
        took = time.perf_counter() - began
        assert log.log_end_offset == count
    return Pair(count / took, bare)


# reading


@contextmanager
def drain() -> Iterator[socket.socket]:
    """A connection whose other end, a process of its own, throws everything away."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        buffer = bytearray(PIECE_BYTES)
        while theirs.recv_into(buffer):
            pass
        os._exit(0)
    theirs.close()
    with ours:
        yield ours
    os.waitpid(child, 0)


def send(target: int, source: int, position: int, length: int) -> None:
    while length:
        sent = os.sendfile(target, source, position, length)
        position, length = position + sent, length - sent


def _send_files(paths: list[str], target: int) -> None:
    for path in paths:
        source = os.open(path, os.O_RDONLY)
        for position in range(0, (size := os.fstat(source).st_size), PIECE_BYTES):
            send(target, source, position, min(PIECE_BYTES, size - position))
        os.close(source)


def _send_log(log: Log, batch_bytes: int, target: int) -> None:
    """Send the log as a consumer reads it: answers of at most a megabyte, each beginning where the last whole batch
    ended."""
    offset, end = 0, log.log_end_offset
    while offset < end:
        records = log.read(offset, PIECE_BYTES, end, whole_first_batch=True).records
        assert isinstance(records, FileRange)
        batches = records.length // batch_bytes
        send(target, records.file.fileno(), records.position, batches * batch_bytes)
        offset += batches


def _forget(paths: list[str]) -> None:
    """Drop files from the page cache."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def fill(log: Log, total_bytes: int, batch_bytes: int) -> int:
    """Several batches with each append; the size of one."""
    batch = batch_of(batch_bytes)
    several = batch * max(1, PIECE_BYTES // len(batch))
    while log.size_bytes < total_bytes:
        log.append_as_leader(bytearray(several), 0)
    return len(batch)


def reads(directory: Path, batch_bytes: int, total_bytes: int, rounds: int) -> dict[str, list[Pair]]:
    """Bytes a second through Log.read and sendfile, cold and warm; bare: sendfile of the same files."""
    found: dict[str, list[Pair]] = {"cold": [], "warm": []}
    with one_log(directory) as log, drain() as connection:
        size = fill(log, total_bytes, batch_bytes)
        paths = [segment.path(".log") for segment in log.segments]
        ways = (partial(_send_log, log, size, connection.fileno()), partial(_send_files, paths, connection.fileno()))
        for number in range(rounds):
            for kind, pairs in found.items():
                speeds = [0.0, 0.0]
                for which in (0, 1) if number % 2 else (1, 0):  # the machine below has a cache too: in turn the first
                    if kind == "cold":
                        _forget(paths)
                    began = time.perf_counter()
                    ways[which]()
                    speeds[which] = log.size_bytes / (time.perf_counter() - began)
                pairs.append(Pair(*speeds))
    return found


# recovery


def write_and_die(directory: str, logs: int, total_bytes: int, batch_bytes: int) -> None:
    """`logs` logs of together so many bytes; then SIGKILL."""

    async def write() -> None:
        loop = asyncio.get_running_loop()
        manager = LogManager(
            OsFiles(), LoopClock(loop), InlineBackground(), random.Random(1), [directory], lambda topic: CONFIG
        )
        manager.open(US, lambda: None)
        for partition in range(logs):
            fill(manager.get_or_create(TOPIC, partition, is_new=True), total_bytes // logs, batch_bytes)
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(write())


async def _open(directory: Path, processes: int) -> tuple[float, int]:
    """Seconds until all logs are open after an unclean stop, and their bytes."""
    loop = asyncio.get_running_loop()
    background, ready = ThreadBackground(loop), asyncio.Event()
    manager = LogManager(
        OsFiles(), LoopClock(loop), background, random.Random(1), [str(directory)], lambda topic: CONFIG,
        children=ProcessChildren(Tasks(LoopClock(loop), print)),
    )  # fmt: skip
    began = time.perf_counter()
    manager.open(US, ready.set, recovery_processes=processes)
    await ready.wait()
    took = time.perf_counter() - began
    size = sum(log.size_bytes for log in manager.all_logs())
    background.close()
    for one in manager.directories.values():
        one.release()
    return took, size


def _bare_check(directory: Path) -> float:
    """Bytes a second of reading everything and of the checksum over it, in one process."""
    size, began = 0, time.perf_counter()
    for path in sorted(directory.glob("*/*.log")):
        with path.open("rb", buffering=0) as file:
            while piece := file.read(PIECE_BYTES):
                crc32c(piece)
                size += len(piece)
    return size / (time.perf_counter() - began)


def recoveries(
    directory: Path, logs: int, total_bytes: int, batch_bytes: int, processes: int, rounds: int
) -> list[Pair]:
    """Bytes a second of opening `logs` logs that were killed, on warm files; bare: reading and crc32c alone."""
    command = [sys.executable, __file__, str(directory), str(logs), str(total_bytes), str(batch_bytes)]
    killed = subprocess.run(command, check=False)
    assert killed.returncode == -signal.SIGKILL, killed
    pairs = []
    for _ in range(rounds):
        bare = _bare_check(directory)
        took, size = asyncio.run(_open(directory, processes))
        assert size >= total_bytes - logs * 2 * PIECE_BYTES, (size, total_bytes)
        pairs.append(Pair(size / took, bare))
    return pairs


if __name__ == "__main__":
    write_and_die(sys.argv[1], *map(int, sys.argv[2:5]))
