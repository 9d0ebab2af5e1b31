"""kafka-python."""

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from odradek.testing.foreign.interface import LINGER_MS, Client, Member, MemberOnThread, Record
from odradek.testing.patience import PATIENCE_SECONDS

POLL_MS = 1000
STRATEGIES = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
}


class KafkaPythonClient(Client):
    name = "kafka-python"

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        """`settings` (its own keywords, such as api_version) hold for producers and consumers."""
        self._settings = {"bootstrap_servers": bootstrap.split(","), **settings}

    def produce(self, topic: str, codec: str, records: Sequence[Record], *, idempotent: bool = False) -> None:
        with closing(
            KafkaProducer(
                **self._settings,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                acks="all",
                linger_ms=LINGER_MS,
            )
        ) as producer:
            sent = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=0,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(PATIENCE_SECONDS)
            for future in sent:
                future.get(PATIENCE_SECONDS)

    def consume(self, topic: str, count: int) -> list[Record]:
        found: list[Record] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        with closing(KafkaConsumer(**self._settings, group_id=None, auto_offset_reset="earliest")) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            while len(found) < count:
                assert time.monotonic() < deadline, f"{len(found)} of {count} records"
                for messages in consumer.poll(200).values():
                    found += [Record(m.key, m.value, tuple(m.headers), m.timestamp) for m in messages]
        return found[:count]

    def join(self, group: str, topic: str, strategy: str | None = None) -> Member:
        chosen = {} if strategy is None else {"partition_assignment_strategy": [STRATEGIES[strategy]]}
        consumer = KafkaConsumer(
            topic, **self._settings, **chosen, group_id=group, auto_offset_reset="earliest", heartbeat_interval_ms=300
        )
        return KafkaPythonMember(consumer)


class KafkaPythonMember(MemberOnThread):
    """Member of a group that polls for long.

    kafka-python 3.0.12 forgets an assignment that arrives after the poll that asked for it has ended.
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        super().__init__()
        self._consumer = consumer
        self._thread.start()

    def _run(self) -> None:
        with closing(self._consumer) as consumer:
            while not self._stop.is_set():
                for messages in consumer.poll(POLL_MS).values():
                    self._received += [(message.partition, message.offset) for message in messages]
                self._held = {partition.partition for partition in consumer.assignment()}
