"""A broker that dies with transactions under way: how long until nothing is open on any partition after its return.

    python bench/stuck_transactions.py [--rounds 10]

Each round: one broker, four transactional producers of librdkafka that write to every partition, SIGKILL for both, the
broker's return. What was open is aborted within transaction.timeout.ms and what was decided is completed, so that the
last stable offset of every partition reaches the high watermark; and a transaction is in all partitions or in none.
Exit code 1 when that is not so in some round.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import this_tree  # noqa: F401
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.messages.fetch import CONSUMER_REPLICA_ID
from odradek.protocol.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.load import QUIET, read_to_the_end
from odradek.testing.up import UpCluster

TOPIC, PARTITIONS, PRODUCERS = "stuck", 6, 4
TRANSACTION_TIMEOUT_SECONDS = 5
CLEANUP_SECONDS = 1
UNCOMMITTED, COMMITTED = 0, 1
OVERRIDES = (f"transaction.abort.timed.out.transaction.cleanup.interval.ms={CLEANUP_SECONDS * 1000}",)
WARM_UP_TRANSACTIONS = 200
GIVE_UP_SECONDS = 30.0


def produce(bootstrap: str, name: str) -> None:
    """Transactions, one after the other: a line of stdout for each that was committed."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0}
    settings["transaction.timeout.ms"] = TRANSACTION_TIMEOUT_SECONDS * 1000
    producer = Producer(QUIET | settings)
    producer.init_transactions(60)
    number = 0
    while True:
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, f"{name}:{number}", partition=partition)
        producer.commit_transaction(60)
        print(number, flush=True)
        number += 1


def kill_in_the_middle(cluster: UpCluster, round_number: int) -> None:
    """Returns when the broker and all who write to it are dead."""
    begun = threading.Semaphore(0)
    programs = [
        subprocess.Popen(
            [sys.executable, __file__, "--produce", cluster.bootstrap, f"round-{round_number}-{number}"],
            stdout=subprocess.PIPE,
        )
        for number in range(PRODUCERS)
    ]

    def follow(program: subprocess.Popen[bytes]) -> None:
        assert program.stdout is not None
        for _ in program.stdout:
            begun.release()

    readers = [threading.Thread(target=follow, args=(program,)) for program in programs]
    for reader in readers:
        reader.start()
    for _ in range(WARM_UP_TRANSACTIONS):
        begun.acquire()
    cluster.kill(0)
    for program in programs:
        program.kill()
        program.wait()
    for reader in readers:
        reader.join()


def ends(address: str, isolation: int) -> list[int]:
    """Return each partition's high watermark, or its last stable offset; -1 while it is not served."""
    partitions = [
        ListOffsetsPartition(partition_index=index, timestamp=LATEST_TIMESTAMP) for index in range(PARTITIONS)
    ]
    topics = [ListOffsetsTopic(name=TOPIC, partitions=partitions)]
    request = ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, isolation_level=isolation, topics=topics)
    with RawConnection(address) as connection:
        (topic,) = connection.ask(request, 5).topics
    answered = {one.partition_index: -1 if one.error_code else one.offset for one in topic.partitions}
    return [answered[index] for index in range(PARTITIONS)]


def open_partitions(address: str) -> dict[int, tuple[int, int]]:
    """Partition to (last stable offset, high watermark), of those where they differ or nobody serves."""
    try:
        stable, high = ends(address, COMMITTED), ends(address, UNCOMMITTED)
    except (OSError, EOFError):
        return dict.fromkeys(range(PARTITIONS), (-1, -1))
    found = dict(enumerate(zip(stable, high, strict=True)))
    return {index: both for index, both in found.items() if both[0] != both[1] or both[1] < 0}


def split(cluster: UpCluster) -> list[str]:
    """Transactions that are in some partitions only, or in one of them twice."""
    counts = Counter(read_to_the_end(cluster.bootstrap, TOPIC, PARTITIONS))
    return sorted(f"{value} {count} times" for value, count in counts.items() if count != PARTITIONS)


def one_round(number: int) -> bool:
    with (
        tempfile.TemporaryDirectory(prefix="odradek-stuck-") as folder,
        UpCluster(Path(folder), brokers=1, overrides=OVERRIDES) as cluster,
    ):
        admin = AdminClient({**QUIET, "bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        kill_in_the_middle(cluster, number)
        started = time.monotonic()
        cluster.start(0)
        served, stuck = started, open_partitions(cluster.bootstrap)
        while stuck and time.monotonic() - started < GIVE_UP_SECONDS:
            time.sleep(0.1)
            stuck = open_partitions(cluster.bootstrap)
            if any(high < 0 for _, high in stuck.values()):
                served = time.monotonic()
        took = time.monotonic() - served
        parts = [] if stuck else split(cluster)
    limit = TRANSACTION_TIMEOUT_SECONDS + CLEANUP_SECONDS
    if stuck:
        print(f"round {number}: STUCK after {GIVE_UP_SECONDS:.0f} s, (last stable offset, high watermark): {stuck}")
    else:
        said = f", IN PARTS ({PARTITIONS} times wanted): {parts[:3]}" if parts else ""
        print(f"round {number}: nothing open {took:.1f} s after it served again (at most {limit} s wanted){said}")
    sys.stdout.flush()
    return not stuck and took <= limit and not parts


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="number of rounds, of which the medians are shown")
    parser.add_argument("--produce", nargs=2, metavar=("BOOTSTRAP", "ID"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.produce:
        produce(*given.produce)
    good = sum(one_round(number) for number in range(1, given.rounds + 1))
    print(f"{good} of {given.rounds} rounds as they must be")
    return 0 if good == given.rounds else 1


if __name__ == "__main__":
    sys.exit(main())
