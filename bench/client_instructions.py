"""Instructions of a consumer for each record, counted by valgrind: the same on a busy machine as on a quiet one.

    python bench/client_instructions.py [--compiled TREE]

From the bytes of a fetch's answer to the records that the application gets, ours and aiokafka's, each with checksums
and at most 500 at a time: batches of 16 kB, as producers make them by default. What the socket costs is not in it. The
difference between FEW and MANY readings of the same bytes is theirs alone. About two minutes of processor time.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

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


READERS: dict[str, Callable[[bytes], int]] = {OURS: read_ours, AIOKAFKA: read_aiokafka}


def read(client: str, size: int, times: int) -> None:
    """Read the same bytes so many times, in this process."""
    data, count = answer(size)
    for _ in range(times):
        assert READERS[client](data) == count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiled", type=Path, metavar="TREE", help="a checkout with compiled modules")
    parser.add_argument("--here", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        client, size, times = options.here
        read(client, int(size), int(times))
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
