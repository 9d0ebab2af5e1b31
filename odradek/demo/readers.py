"""Group of the demo: ConsumerConnectors in processes of their own, which balance in ZooKeeper and print what they read.

    python -m odradek.demo.readers ZOOKEEPER TOPIC GROUP NUMBER

A reader prints one line for each run of records of one partition: `read PARTITION FIRST_OFFSET RECORDS CRC32`, where
the CRC is of all values one after another. At SIGTERM it commits and leaves the group. ZooKeeper has the owners of
partitions.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from odradek import ConsumerConnector, ConsumerRecord, ConsumerTimeout
from odradek.client.zookeeper.streams import MessageStream
from odradek.testing.balanced_group import BalancedGroup

READERS = 3
STOP_SECONDS = 60.0
COMMIT_MS = 1_000
PIECE_RECORDS, PIECE_SECONDS = 2_000, 0.1
"""Number of records, or time, after which a reader prints what it has read."""


class Read(NamedTuple):
    """Records that a reader got in one piece: offsets first_offset … first_offset + records - 1."""

    partition: int
    first_offset: int
    records: int
    crc: int
    reader: int = 0

    def __str__(self) -> str:
        return f"read {self.partition} {self.first_offset} {self.records} {self.crc}"

    @property
    def end_offset(self) -> int:
        """Return the offset after the last record."""
        return self.first_offset + self.records


def runs(partition: int, rows: Iterable[tuple[int, bytes]]) -> list[Read]:
    """Join (offset, value) rows into pieces without a gap."""
    found: list[Read] = []
    for offset, value in rows:
        last = found[-1] if found else None
        if last is not None and offset == last.end_offset:
            found[-1] = last._replace(records=last.records + 1, crc=zlib.crc32(value, last.crc))
        else:
            found.append(Read(partition, offset, 1, zlib.crc32(value)))
    return found


class Share(NamedTuple):
    """A reader's share of the topic."""

    partitions: tuple[int, ...]
    """Partitions that the reader owns."""
    records: int
    """Number of records read so far, repeated ones too."""


class Readers:
    """Processes of the group's readers, started together."""

    def __init__(self, zookeeper: str, balanced: BalancedGroup, topic: str, group: str, directory: Path) -> None:
        """Take where to read. The readers' errors are written to `directory/logs/reader-N.log`."""
        self.reads: list[Read] = []
        """Reads in the order in which they were reported."""
        self.owners: dict[int, int] = {}
        """Partition → reader, at the last look."""
        self.read_by_partition: Counter[int] = Counter()
        self._read_by_reader: Counter[int] = Counter()
        self._command = [sys.executable, "-m", "odradek.demo.readers", zookeeper, topic, group]
        self._balanced = balanced
        self._directory = directory
        self._processes: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._end_offsets: dict[int, int] = {}

    def start(self) -> None:
        """Start the readers' processes; return at once."""
        for number in range(READERS):
            with self.log_file(number).open("wb") as log:
                process = subprocess.Popen(
                    [*self._command, str(number)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                    text=True, start_new_session=True,
                )  # fmt: skip
            self._processes.append(process)
            thread = threading.Thread(target=self._follow, args=(number, process), daemon=True)
            self._threads.append(thread)
            thread.start()

    def log_file(self, number: int) -> Path:
        return self._directory / "logs" / f"reader-{number}.log"

    def look(self) -> dict[int, int]:
        """Ask ZooKeeper which reader owns each partition: partition → reader. Raises StoreError."""
        self.owners = {one: int(owner.rpartition("_")[2]) for one, owner in self._balanced.owners().items()}
        return self.owners

    def shares(self) -> list[Share]:
        """Return the share of every reader, by the last look."""
        partitions = sorted(self.owners)
        return [
            Share(tuple(one for one in partitions if self.owners[one] == reader), self._read_by_reader[reader])
            for reader in range(READERS)
        ]

    @property
    def count(self) -> int:
        """Number of records that all readers have read, repeated ones included."""
        return self.read_by_partition.total()

    @property
    def reached(self) -> int:
        """Number of records before the readers' positions, in all partitions together."""
        return sum(self._end_offsets.values())

    @property
    def ended(self) -> list[int]:
        """List the readers whose processes have ended, which none should."""
        return [number for number, process in enumerate(self._processes) if process.poll() is not None]

    def stop(self) -> None:
        """Let the readers commit and leave; kill those that do not end."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for thread in self._threads:
            thread.join()

    def _follow(self, number: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                what, *words = line.split()
                assert what == "read", line
                partition, first_offset, records, crc = map(int, words)
                with self._lock:
                    self._on_read(Read(partition, first_offset, records, crc, number))

    def _on_read(self, read: Read) -> None:
        self.reads.append(read)
        self.read_by_partition[read.partition] += read.records
        self._read_by_reader[read.reader] += read.records
        self._end_offsets[read.partition] = max(read.end_offset, self._end_offsets.get(read.partition, 0))


def take(stream: MessageStream) -> list[ConsumerRecord]:
    """Return the records that come within PIECE_SECONDS, at most PIECE_RECORDS."""
    found: list[ConsumerRecord] = []
    end = time.monotonic() + PIECE_SECONDS
    while len(found) < PIECE_RECORDS and time.monotonic() < end:
        try:
            found.append(next(stream))
        except ConsumerTimeout:
            break
    return found


def pieces(records: Iterable[ConsumerRecord]) -> list[Read]:
    """Split records into pieces, in the order in which they came."""
    return [
        read
        for partition, group in groupby(records, lambda record: record.partition)
        for read in runs(partition, ((record.offset, record.value) for record in group))
    ]


def main(zookeeper: str, topic: str, group: str, number: str) -> None:
    """Read as one member of the group until SIGTERM, or until the parent process has ended."""
    stop, parent = threading.Event(), os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = {
        "zookeeper_connect": zookeeper,
        "group_id": group,
        "consumer_id": number,
        "auto_offset_reset": "smallest",
        "auto_commit_interval_ms": COMMIT_MS,
        "consumer_timeout_ms": int(PIECE_SECONDS * 1000),
    }
    with ConsumerConnector.create(settings) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        while not stop.is_set() and os.getppid() == parent:
            for read in pieces(take(stream)):
                print(read, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:5])
