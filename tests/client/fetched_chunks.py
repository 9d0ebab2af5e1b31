"""Chunks of fetched bytes, and a buffer that hands out the records in them."""

from collections import deque

from odradek.client.config import load
from odradek.client.consumer.buffer import RecordBuffer, Shared
from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.config import ConsumerSettings, Deserializer
from odradek.client.records import TopicPartition
from odradek.protocol.records import encode_batch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

SETTINGS = load(ConsumerSettings, None, {"bootstrap_servers": "a:1"})


def batch(base: int, *values: bytes, producer: int = -1, transactional: bool = False) -> bytes:
    count = len(values)
    return bytes(
        encode_batch(
            base, [1_000] * count, [None] * count, list(values), producer_id=producer, transactional=transactional
        )
    )


class Bench:
    """Positions, chunks and buffer of one consumer."""

    def __init__(self, value: Deserializer | None = None) -> None:
        self.shared = Shared()
        self.positions, self.chunks = self.shared.positions, self.shared.chunks
        self.buffer = RecordBuffer(self.shared, SETTINGS, None, value)

    def start(self, *partitions: TopicPartition, offset: int = 0) -> None:
        self.positions.assign(partitions)
        for one in partitions:
            self.positions.jump(one, offset)

    def arrive(
        self, tp: TopicPartition, data: bytes, at: int = 0, aborted: list[tuple[int, int]] | None = None
    ) -> None:
        chunk = Chunk(tp, memoryview(data), at, self.positions.partitions[tp].version, aborted)
        self.chunks.setdefault(tp, deque()).append(chunk)

    def values(self, limit: int = 100) -> list[bytes]:
        return [record.value for records in self.buffer.take(limit).values() for record in records]
