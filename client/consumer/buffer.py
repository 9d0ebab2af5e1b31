"""What `poll` hands out: records of the chunks that are there, partition after partition.

Called with the engine's lock.
"""

from collections import deque

from odradek.client.consumer.chunks import Chunk, Reader
from odradek.client.consumer.config import ConsumerSettings, Deserializer
from odradek.client.consumer.positions import Positions
from odradek.client.errors import ClientError
from odradek.client.records import ConsumerRecord, TopicPartition

Records = dict[TopicPartition, list[ConsumerRecord]]


class RecordBuffer:
    """Reads the chunks in the order of arrival and moves the positions."""

    def __init__(
        self,
        positions: Positions,
        chunks: dict[TopicPartition, deque[Chunk]],
        settings: ConsumerSettings,
        key: Deserializer | None,
        value: Deserializer | None,
    ) -> None:
        self._positions = positions
        self._chunks = chunks
        self._settings = settings
        self._key = key
        self._value = value
        self._readers: dict[TopicPartition, Reader] = {}
        self._turn: deque[TopicPartition] = deque()
        """Partitions that have chunks, the one to read next first: none waits behind a full one for ever."""

    def drop_stale(self) -> None:
        """Forget what partitions that were given up, or have jumped, still have here."""
        for topic_partition in list(self._chunks):
            state = self._positions.partitions.get(topic_partition)
            kept = [one for one in self._chunks[topic_partition] if state is not None and one.version == state.version]
            if kept:
                self._chunks[topic_partition] = deque(kept)
            else:
                del self._chunks[topic_partition]
        for topic_partition, reader in list(self._readers.items()):
            if reader.chunk not in self._chunks.get(topic_partition, ()):
                del self._readers[topic_partition]

    def take(self, limit: int) -> Records:
        """At most `limit` records. Raises ClientError for damaged ones and DeserializationError."""
        self.drop_stale()
        taken: Records = {}
        waiting = [tp for tp in self._turn if tp in self._chunks]
        waiting += [tp for tp in self._chunks if tp not in self._turn]
        self._turn = deque(waiting)
        for topic_partition in waiting:
            if limit <= 0:
                break
            if self._positions.partitions[topic_partition].paused:
                continue
            try:
                records = self._take_from(topic_partition, limit)
            except ClientError:
                if taken:  # first what is good; the error is raised again by the next poll
                    break
                raise
            if records:
                taken[topic_partition] = records
                limit -= len(records)
            self._turn.rotate(-1)
        return taken

    def _take_from(self, topic_partition: TopicPartition, limit: int) -> list[ConsumerRecord]:
        state = self._positions.partitions[topic_partition]
        records: list[ConsumerRecord] = []
        while not records and self._chunks.get(topic_partition):
            reader = self._reader(topic_partition)
            records = reader.take(state.position, limit)
            if records:
                state.position = records[-1].offset + 1
                state.leader_epoch = records[-1].leader_epoch
            if reader.finished:
                state.position = max(state.position, reader.chunk.next_offset)
                self._chunks[topic_partition].popleft()
                del self._readers[topic_partition]
        if not self._chunks.get(topic_partition):
            self._chunks.pop(topic_partition, None)
        return records

    def _reader(self, topic_partition: TopicPartition) -> Reader:
        if topic_partition not in self._readers:
            self._readers[topic_partition] = Reader(
                self._chunks[topic_partition][0], self._key, self._value, check_crcs=self._settings.check_crcs
            )
        return self._readers[topic_partition]
