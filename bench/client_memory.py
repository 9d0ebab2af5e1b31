"""Memory of our clients when nobody takes what they hold: a producer at buffer.memory, a consumer left alone.

    python bench/client_memory.py

The broker is frozen, and the producer sends until a send is refused for want of memory. The consumer hands out one
record, and is then left alone until no more comes. Each is a process of its own. Shown are the bytes that the client
counts, which its settings bound (the exit code says whether they do), and how much the process has grown: beside the
bytes that is Python's objects, of which a small record has as many as a large one.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import this_tree  # noqa: F401
from clients import PARTITIONS, Task, create_topic, produce_odradek

MIB = 1024 * 1024
BUFFER_MEMORY = 32 * MIB
PARTITION_BYTES = MIB
CHUNKS_KEPT = 2
"""Answers of a partition that a consumer keeps: the one being read, and one ahead."""
SIZES = {100: 300_000, 1000: 40_000}
"""Bytes of a value → records to read."""
QUIET_SECONDS = 1.0


def resident_bytes() -> int:
    """Return how much memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def report(what: str, size: int, counted: int, limit: int, grown: int) -> bool:
    within = counted <= limit
    print(
        f"{what}, {size:4} B: counts {counted / MIB:5.1f} MiB of {limit / MIB:.0f} MiB, "
        f"{'within' if within else 'BEYOND'} its settings; the process has grown by {grown / MIB:.0f} MiB",
        flush=True,
    )
    return within


def fill_producer(bootstrap: str, topic: str, size: int, broker: int) -> bool:
    from odradek import KafkaProducer
    from odradek.client.errors import BufferExhausted

    settings = {"buffer_memory": BUFFER_MEMORY, "max_block_ms": 1_000, "delivery_timeout_ms": 600_000}
    with KafkaProducer(bootstrap_servers=bootstrap, request_timeout_ms=300_000, **settings) as producer:
        producer.send(topic, b"warm").result()
        before, sent = resident_bytes(), 0
        os.kill(broker, signal.SIGSTOP)
        try:
            while True:
                producer.send(topic, os.urandom(size), partition=sent % PARTITIONS)
                sent += 1
        except BufferExhausted:
            grown = resident_bytes() - before
            free = producer.metrics()["producer-metrics"]["buffer-available-bytes"]
        finally:
            os.kill(broker, signal.SIGCONT)
        producer.flush()
        return report(f"producer, {sent:,} records", size, BUFFER_MEMORY - int(free), BUFFER_MEMORY, grown)


def leave_consumer_alone(bootstrap: str, topic: str, size: int) -> bool:
    from odradek import KafkaConsumer, TopicPartition

    with KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=PARTITION_BYTES
    ) as consumer:
        before = resident_bytes()
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        while not consumer.poll(1_000, max_records=1):
            pass
        counted, last = 0, -1
        while counted != last:
            time.sleep(QUIET_SECONDS)  # what is measured is a consumer to which nothing happens
            last, counted = counted, held_bytes(consumer)
        limit = PARTITIONS * CHUNKS_KEPT * PARTITION_BYTES
        return report("consumer", size, counted, limit, resident_bytes() - before)


def held_bytes(consumer: object) -> int:
    """Return the bytes of the answers that a consumer keeps."""
    shared = consumer._core._shared  # type: ignore[attr-defined]
    with shared.lock:
        return sum(len(chunk.records) for chunks in shared.chunks.values() for chunk in chunks)


def main() -> int:
    if len(sys.argv) > 1:
        client, bootstrap, topic, size, broker = sys.argv[1:]
        if client == "producer":
            return 0 if fill_producer(bootstrap, topic, int(size), int(broker)) else 1
        return 0 if leave_consumer_alone(bootstrap, topic, int(size)) else 1
    from odradek.testing.up import UpCluster

    codes = []
    with tempfile.TemporaryDirectory() as folder, UpCluster(Path(folder) / "cluster", brokers=1) as cluster:
        broker = (Path(folder) / "cluster" / "run" / "broker-0.pid").read_text().strip()
        for size, records in SIZES.items():
            for client in ("producer", "consumer"):
                topic = f"{client}-{size}"
                create_topic(cluster.bootstrap, topic)
                if client == "consumer":
                    produce_odradek(Task(cluster.bootstrap, topic, records, size))
                command = [sys.executable, __file__, client, cluster.bootstrap, topic, str(size), broker]
                codes.append(subprocess.run(command, timeout=300, check=False).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
