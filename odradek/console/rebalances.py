"""The generations of a group, from the records that its coordinator keeps in __consumer_offsets.

Each rebalance that comes to its end writes one (GroupMetadataManager.storeGroup in Kafka), so they tell when, which
generation, and who was in it, on any Kafka cluster; as far back as compaction has left them.
"""

from collections import deque
from typing import Any, Final

from odradek.broker.coordination.partition_count import partition_for
from odradek.broker.groups.group_records import GroupKey, read_group, read_key
from odradek.client.admin.values import OffsetSpec
from odradek.client.aio.admin import Admin
from odradek.client.aio.consumer import Consumer
from odradek.client.records import ConsumerRecord, TopicPartition
from odradek.console.reading import Reader
from odradek.protocol.errors import KafkaError, MalformedMessage
from odradek.protocol.topic_names import CONSUMER_OFFSETS

RECORDS_BACK: Final = 20_000
"""Records of the partition that are looked through when somebody begins to look."""
GENERATIONS_MAX: Final = 200


class Rebalances:
    """Follows one group, while somebody looks at it."""

    def __init__(self, reader: Reader, admin: Admin, group: str) -> None:
        self._reader, self._admin, self._group = reader, admin, group
        self._consumer: Consumer | None = None
        self._where = TopicPartition(CONSUMER_OFFSETS, 0)
        self._found: deque[dict[str, Any]] = deque(maxlen=GENERATIONS_MAX)

    async def read(self) -> dict[str, Any]:
        """Return what is known by now, oldest first; with `error` where the topic cannot be read."""
        try:
            await self._read()
        except KafkaError as error:
            return {"generations": list(self._found), "error": str(error)}
        return {"generations": list(self._found)}

    async def _read(self) -> None:
        if self._consumer is None:
            await self._begin()
        assert self._consumer is not None
        end = (await self._admin.list_offsets({self._where: OffsetSpec.LATEST}))[self._where]
        while end is not None and await self._consumer.position(self._where) < end.offset:
            for some in (await self._consumer.getmany(500)).values():
                for record in some:
                    self._take(record)

    async def _begin(self) -> None:
        info = (await self._admin.describe_topics([CONSUMER_OFFSETS]))[0]
        self._where = TopicPartition(CONSUMER_OFFSETS, partition_for(self._group, len(info.partitions)))
        begin = (await self._admin.list_offsets({self._where: OffsetSpec.EARLIEST}))[self._where]
        end = (await self._admin.list_offsets({self._where: OffsetSpec.LATEST}))[self._where]
        if begin is None or end is None:
            return
        consumer = await self._reader.consumer().start()
        self._consumer = consumer
        consumer.assign([self._where])
        consumer.seek(self._where, max(begin.offset, end.offset - RECORDS_BACK))

    def _take(self, record: ConsumerRecord) -> None:
        generation = generation_of(self._group, record)
        if generation is not None:
            self._found.append(generation)

    async def close(self) -> None:
        """Follow no more."""
        if self._consumer is not None:
            await self._consumer.close()


def generation_of(group: str, record: ConsumerRecord) -> dict[str, Any] | None:
    """Return what a record of __consumer_offsets says of this group; None when it is about something else."""
    if record.key is None or group.encode("utf-8", "surrogatepass") not in record.key:
        return None
    try:
        key = read_key(record.key)
        if not isinstance(key, GroupKey) or key.group_id != group:
            return None
        if record.value is None:
            return {"at_ms": record.timestamp_ms, "generation": None, "members": [], "assignor": None}
        found = read_group(group, record.value)
    except MalformedMessage:
        return None
    return {
        "at_ms": record.timestamp_ms,
        "generation": found.generation,
        "members": sorted(member.client_id for member in found.members.values()),
        "assignor": found.protocol_name,
    }
