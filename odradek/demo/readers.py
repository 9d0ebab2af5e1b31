"""The group: consumers that are processes of their own, and say what they have read.

    python -m odradek.demo.readers BOOTSTRAP TOPIC GROUP

One line for each run of records of one partition: `read PARTITION FIRST_OFFSET RECORDS CRC32`, where the CRC is of all
the values one after another; `owns P,P,…` after each rebalance. SIGTERM ends it: it commits and leaves the group.
"""

import os
import signal
import subprocess
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from odradek import ConsumerRecord, KafkaConsumer, RebalanceListener, TopicPartition

READERS = 3
STOP_SECONDS = 20.0
POLL_MS, POLL_RECORDS, COMMIT_MS = 200, 2_000, 1_000


class Read(NamedTuple):
    """Records that a reader got in one piece: offsets first_offset … first_offset + records - 1."""

    partition: int
    first_offset: int
    records: int
    crc: int

    def __str__(self) -> str:
        return f"read {self.partition} {self.first_offset} {self.records} {self.crc}"


def runs(partition: int, rows: Iterable[tuple[int, bytes]]) -> list[Read]:
    """(offset, value) rows as pieces without a gap."""
    found: list[Read] = []
    for offset, value in rows:
        last = found[-1] if found else None
        if last is not None and offset == last.first_offset + last.records:
            found[-1] = last._replace(records=last.records + 1, crc=zlib.crc32(value, last.crc))
        else:
            found.append(Read(partition, offset, 1, zlib.crc32(value)))
    return found


class Readers:
    """All of them, started together."""

    def __init__(self, bootstrap: str, topic: str, group: str, directory: Path) -> None:
        """What they complain of goes to `directory/logs/reader-N.log`."""
        self.reads: list[Read] = []
        self.owners: dict[int, int] = {}
        self.read_by_partition: Counter[int] = Counter()
        self._command = [sys.executable, "-m", "odradek.demo.readers", bootstrap, topic, group]
        self._directory = directory
        self._processes: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._end_offsets: dict[int, int] = {}

    def start(self) -> None:
        """Returns at once."""
        for number in range(READERS):
            with self.log_file(number).open("wb") as log:
                process = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                    start_new_session=True,
                )  # fmt: skip
            self._processes.append(process)
            thread = threading.Thread(target=self._follow, args=(number, process), daemon=True)
            self._threads.append(thread)
            thread.start()

    def log_file(self, number: int) -> Path:
        return self._directory / "logs" / f"reader-{number}.log"

    @property
    def count(self) -> int:
        """How many records they have read, repeated ones too."""
        return self.read_by_partition.total()

    @property
    def reached(self) -> int:
        """How many records there are up to where they have come, in all partitions together."""
        return sum(self._end_offsets.values())

    @property
    def ended(self) -> list[int]:
        """Those that are gone, which none should be."""
        return [number for number, process in enumerate(self._processes) if process.poll() is not None]

    def stop(self) -> None:
        """Let them commit and leave; whoever does not is killed."""
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
                with self._lock:
                    if what == "read":
                        self._on_read(Read(*map(int, words)))
                    elif what == "owns":
                        self._on_owned(number, [int(word) for word in words[0].split(",")] if words else [])

    def _on_read(self, read: Read) -> None:
        self.reads.append(read)
        self.read_by_partition[read.partition] += read.records
        end = read.first_offset + read.records
        self._end_offsets[read.partition] = max(end, self._end_offsets.get(read.partition, 0))

    def _on_owned(self, number: int, partitions: Sequence[int]) -> None:
        kept = {partition: owner for partition, owner in self.owners.items() if owner != number}
        self.owners = kept | dict.fromkeys(partitions, number)


class _Owned(RebalanceListener):
    """Says which partitions a reader has."""

    def __init__(self) -> None:
        self._owned: set[int] = set()

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._owned |= {one.partition for one in assigned}
        self._say()

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._owned -= {one.partition for one in revoked}
        self._say()

    def _say(self) -> None:
        print("owns", ",".join(map(str, sorted(self._owned))), flush=True)


def rows(records: Iterable[ConsumerRecord]) -> Iterable[tuple[int, bytes]]:
    """(offset, value) of each."""
    return ((record.offset, record.value) for record in records)


def main(bootstrap: str, topic: str, group: str) -> None:
    """One reader's life; it also ends when the process that started it is gone."""
    stop, parent = threading.Event(), os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": COMMIT_MS,
        "max_poll_records": POLL_RECORDS,
    }
    with KafkaConsumer(settings) as consumer:
        consumer.subscribe([topic], listener=_Owned())
        while not stop.is_set() and os.getppid() == parent:
            for place, records in consumer.poll(POLL_MS).items():
                for read in runs(place.partition, rows(records)):
                    print(read, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4])
