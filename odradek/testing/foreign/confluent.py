"""confluent-kafka, which is librdkafka."""

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from odradek.testing.foreign.interface import LINGER_MS, Client, Member, MemberOnThread, Record
from odradek.testing.patience import PATIENCE_SECONDS


class ConfluentClient(Client):
    name = "confluent"

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        """`settings` (librdkafka's names) hold for producers and consumers."""
        self._settings = {"bootstrap.servers": bootstrap, **settings}

    def produce(self, topic: str, codec: str, records: Sequence[Record], *, idempotent: bool = False) -> None:
        producer = Producer(
            {**self._settings, "compression.type": codec, "enable.idempotence": idempotent, "linger.ms": LINGER_MS}
        )
        failures: list[str] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(str(error))

        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=0,
                on_delivery=delivered,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )
        left = producer.flush(PATIENCE_SECONDS)
        assert not left and not failures, (left, failures[:3])

    def consume(self, topic: str, count: int) -> list[Record]:
        consumer = Consumer({**self._settings, "group.id": "unused", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Record] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records"
            for message in consumer.consume(count, 0.2):
                assert message.error() is None, message.error()
                found.append(_record(message))
        consumer.close()
        return found

    def join(self, group: str, topic: str, strategy: str | None = None) -> Member:
        settings = {"group.id": group, "auto.offset.reset": "earliest", "heartbeat.interval.ms": 300}
        if strategy is not None:
            settings["partition.assignment.strategy"] = strategy
        return ConfluentMember(Consumer({**self._settings, **settings}), topic)


def _record(message: Message) -> Record:
    headers: Any = message.headers() or []
    key: Any = message.key()
    value: Any = message.value()
    return Record(key, value, tuple(headers), message.timestamp()[1])


class ConfluentMember(MemberOnThread):
    def __init__(self, consumer: Consumer, topic: str) -> None:
        super().__init__()
        self._consumer = consumer
        self._failures: list[str] = []
        consumer.subscribe([topic])
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(100, 0.1):
                if message.error() is not None:
                    self._failures.append(str(message.error()))
                    continue
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None
                self._received.append((partition, offset))
            self._held = {partition.partition for partition in self._consumer.assignment()}
        self._consumer.close()

    def assignment(self) -> set[int]:
        assert not self._failures, self._failures
        return super().assignment()
