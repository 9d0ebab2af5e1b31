"""Load with librdkafka: produce N records, then fetch them all, several times when that is quick. Works against any
broker, so two can be compared.

    python load.py BOOTSTRAP TOPIC RECORDS BYTES PARTITIONS [librdkafka.setting=value ...]

Rows of the benchmark: big batches   2000000 100 1
                       small batches 500000 1000 6 batch.size=16384 linger.ms=1
                       one by one    200000 100 1 batch.num.messages=1 linger.ms=0
"""

import os
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

READ_SECONDS = 2.0
"""Time for which the records are read, again and again."""

bootstrap, topic, records, size, partitions = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
settings = dict(a.split("=", 1) for a in sys.argv[6:])
security = {name: text for name, text in settings.items() if name.startswith(("security.", "ssl.", "sasl."))}
value = os.urandom(size)
producer = Producer(
    {
        "bootstrap.servers": bootstrap,
        "linger.ms": 5,
        "acks": 1,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 500_000,
        "batch.num.messages": 10_000,
        **settings,
    }
)
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": "load",
        "queued.max.messages.kbytes": 200_000,
        "queued.min.messages": 1_000_000,
        "fetch.queue.backoff.ms": 2,
        "enable.auto.commit": False,
        **security,
    }
)
starts = [
    TopicPartition(topic, p, consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1])
    for p in range(partitions)
]

began = time.perf_counter()
for i in range(records):
    while True:
        try:
            producer.produce(topic, value, partition=i % partitions)
            break
        except BufferError:
            producer.poll(0.05)
left = producer.flush(120)
took = time.perf_counter() - began
print(f"produced {records / took:12,.0f} records/s {records * size / took / 1e6:8,.1f} MB/s  unacknowledged {left}")

seen = took = passes = 0.0
while took < READ_SECONDS and seen == passes * (records - left):  # a tenth of a second would say nothing
    consumer.assign(starts)
    began, passes = time.perf_counter(), passes + 1
    while seen < passes * (records - left) and time.perf_counter() - began < 120:
        seen += sum(message.error() is None for message in consumer.consume(10_000, 1.0))
    took += time.perf_counter() - began
    consumer.unassign()
missing = passes * (records - left) - seen
print(f"fetched  {seen / took:12,.0f} records/s {seen * size / took / 1e6:8,.1f} MB/s  missing {missing:.0f}")
