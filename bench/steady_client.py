"""A producer or a consumer that goes on as fast as it may, and prints its MB/s but for the first seconds (librdkafka).

python steady_client.py produce|consume BOOTSTRAP TOPIC BYTES CLIENT_ID SECONDS FIRST_SECONDS
"""

import os
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

what, bootstrap, topic = sys.argv[1:4]
size, client_id, seconds, first_seconds = int(sys.argv[4]), sys.argv[5], float(sys.argv[6]), float(sys.argv[7])
settings = {"bootstrap.servers": bootstrap, "client.id": client_id}
began = time.perf_counter()
counted_from = began + first_seconds
end = began + seconds
done = 0


def acknowledged(error: object, message: object) -> None:
    global done
    now = time.perf_counter()
    if error is None and counted_from <= now < end:
        done += size


if what == "produce":
    limits = {"linger.ms": 5, "acks": 1, "queue.buffering.max.kbytes": 16_000, "message.timeout.ms": 120_000}
    producer = Producer({**settings, **limits, "batch.size": 100_000, "on_delivery": acknowledged})
    value = os.urandom(size)
    while time.perf_counter() < end:
        try:
            producer.produce(topic, value)
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
    producer.purge()
else:
    reads = {"group.id": client_id, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **reads, "enable.partition.eof": True, "fetch.max.bytes": 1_000_000})
    partitions = list(consumer.list_topics(topic, 10).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    while time.perf_counter() < end:
        for message in consumer.consume(1000, 0.1):
            if message.error() is not None:  # its end: once more from the beginning
                consumer.seek(TopicPartition(topic, message.partition(), 0))
            elif time.perf_counter() >= counted_from:
                done += len(message.value())
    consumer.close()
print(f"{done / (seconds - first_seconds) / 1e6:.3f}")
