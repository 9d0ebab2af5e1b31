"""Instructions of a client for each record, counted by valgrind: the same on a busy machine as on a quiet one.

    python bench/client_instructions.py [--compiled TREE] [--whole]

From the bytes of a fetch's answer to the records that the application gets, ours and aiokafka's, each with checksums
and at most 500 at a time: batches of 16 kB, as Kafka's producer makes them by default. What the socket costs is not in
it. The difference between FEW and MANY readings of the same bytes is theirs alone. About two minutes of processor time.

With `--whole` it is the whole of a client instead, sockets and threads and all, at the work of bench/clients.py and
beside confluent-kafka too: a delivery report for each record that is sent, key, value and offset of each that is read.
Batches are filled by a longer linger, since valgrind makes clients fifty times slower; what the kernel does for them is
not counted. About eight minutes of processor time.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import this_tree  # noqa: F401
from client_work import OURS_AIO, Task, produce_odradek
from clients import create_topic
from instructions import counted

HERE = Path(__file__).resolve().parent
FEW, MANY = 2, 22
BATCH_BYTES, ANSWER_BYTES = 16_384, 250_000
LIMIT = 500
SIZES = (100, 1000)
OURS, AIOKAFKA = "odradek", "aiokafka"


def answer(size: int) -> tuple[bytes, int]:
    """Return the bytes of batches of records with values of a size, and how many records there are."""
    from odradek.protocol.records import encode_batch

    each, data, count = BATCH_BYTES // (size + 30), bytearray(), 0
    while len(data) < ANSWER_BYTES:
        keys = [b"%08d" % number for number in range(count, count + each)]
        data += encode_batch(
            count, [1_700_000_000_000 + number % 5 for number in range(each)], keys, [bytes(size)] * each
        )
        count += each
    return bytes(data), count


def read_ours(data: bytes) -> int:
    from odradek.client.consumer.chunks import Chunk, Reader
    from odradek.client.records import TopicPartition

    reader = Reader(Chunk(TopicPartition("t", 0), memoryview(data), 0, 0, None), None, None, check_crcs=True)
    position = 0
    while not reader.finished:
        if records := reader.take(position, LIMIT):
            position = records[-1].offset + 1
    return position


def read_aiokafka(data: bytes) -> int:
    from aiokafka.consumer.fetcher import READ_UNCOMMITTED, PartitionRecords
    from aiokafka.record.memory_records import MemoryRecords
    from aiokafka.structs import TopicPartition

    where = TopicPartition("t", 0)
    found = PartitionRecords(where, MemoryRecords(data), [], 0, None, None, True, READ_UNCOMMITTED)
    taken = []
    for record in found:
        taken.append(record)
        if len(taken) == LIMIT:
            taken = []
    return int(found.next_fetch_offset)


WHOLE = (OURS_AIO, AIOKAFKA, OURS, "confluent-kafka")
WHOLE_RECORDS = {"produce": (1_200, 4_800), "batches": (6_000, 24_000)}
"""Few and many records of a work."""
FILLING_LINGER_MS = 1_000
READERS: dict[str, Callable[[bytes], int]] = {OURS: read_ours, AIOKAFKA: read_aiokafka}


def read(client: str, size: int, times: int) -> None:
    """Read the same bytes so many times, in this process."""
    data, count = answer(size)
    for _ in range(times):
        assert READERS[client](data) == count


def whole(work: str, client: str, size: int, records: int, bootstrap: str, path: str) -> int:
    """Return the instructions of a process that does some work of bench/clients.py."""
    topic = f"instructions-{time.time_ns()}"
    create_topic(bootstrap, topic)
    if work != "produce":
        produce_odradek(Task(bootstrap, topic, records - 1, size))  # and a warm one
    task = Task(bootstrap, topic, records, size, FILLING_LINGER_MS)
    return counted([str(HERE / "client_work.py"), client, work, *map(str, task)], path)


def print_whole(compiled: Path | None) -> None:
    from odradek.testing.up import UpCluster

    rows = [(client, client, HERE.parent) for client in WHOLE]
    if compiled:
        rows += [(f"{client} compiled", client, compiled.resolve()) for client in (OURS_AIO, OURS)]
    with tempfile.TemporaryDirectory() as folder, UpCluster(Path(folder) / "cluster", brokers=1) as cluster:
        for work, (few, many) in WHOLE_RECORDS.items():
            for size in SIZES:
                for name, client, path in rows:
                    counts = [whole(work, client, size, each, cluster.bootstrap, str(path)) for each in (few, many)]
                    each = (counts[1] - counts[0]) / (many - few)
                    print(f"{work:8} {size:5} B  {name:22} {each:8,.0f} for a record", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiled", type=Path, metavar="TREE", help="measure a checkout with compiled modules, too")
    parser.add_argument(
        "--whole", action="store_true", help="measure whole clients, doing the work of bench/clients.py"
    )
    parser.add_argument("--here", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        client, size, times = options.here
        read(client, int(size), int(times))
        return 0
    if options.whole:
        print_whole(options.compiled)
        return 0
    rows = [(OURS, OURS, HERE.parent), (AIOKAFKA, AIOKAFKA, HERE.parent)]
    if options.compiled:
        rows.insert(1, (f"{OURS} compiled", OURS, options.compiled.resolve()))
    for size in SIZES:
        records = answer(size)[1]
        for name, client, path in rows:
            program = [__file__, "--here", client, str(size)]
            few, many = (counted([*program, str(times)], str(path)) for times in (FEW, MANY))
            print(f"{size:5} B  {name:18} {(many - few) / (MANY - FEW) / records:8,.0f} for a record", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
