"""aiokafka, each use on an event loop of its own."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from odradek.testing.foreign.interface import LINGER_MS, Client, Member, MemberOnThread, Record
from odradek.testing.patience import PATIENCE_SECONDS


class AiokafkaClient(Client):
    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(self, topic: str, codec: str, records: Sequence[Record], *, idempotent: bool = False) -> None:
        asyncio.run(asyncio.wait_for(self._produce(topic, codec, records, idempotent), PATIENCE_SECONDS))

    async def _produce(self, topic: str, codec: str, records: Sequence[Record], idempotent: bool) -> None:
        compression = None if codec == "none" else codec
        async with AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=compression,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=LINGER_MS,
        ) as producer:
            sent = [
                await producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=0,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            await asyncio.gather(*sent)

    def consume(self, topic: str, count: int) -> list[Record]:
        return asyncio.run(asyncio.wait_for(self._consume(topic, count), PATIENCE_SECONDS))

    async def _consume(self, topic: str, count: int) -> list[Record]:
        found: list[Record] = []
        async with AIOKafkaConsumer(bootstrap_servers=self._bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            while len(found) < count:
                message: Any = await consumer.getone()
                found.append(Record(message.key, message.value, tuple(message.headers), message.timestamp))
        return found

    def join(self, group: str, topic: str, strategy: str | None = None) -> Member:
        assert strategy is None, f"{self.name} is not asked for {strategy}"
        return AiokafkaMember(self._bootstrap, group, topic)


class AiokafkaMember(MemberOnThread):
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        super().__init__()
        self._settings = {"bootstrap_servers": bootstrap, "group_id": group, "auto_offset_reset": "earliest"}
        self._topic = topic
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._poll())

    async def _poll(self) -> None:
        async with AIOKafkaConsumer(self._topic, **self._settings, heartbeat_interval_ms=300) as consumer:
            while not self._stop.is_set():
                for messages in (await consumer.getmany(timeout_ms=100)).values():
                    self._received += [(message.partition, message.offset) for message in messages]
                self._held = {partition.partition for partition in consumer.assignment()}
