"""Reading of records for the page: a few from a place, or new ones as they come in."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, NamedTuple

from odradek.client.admin.values import OffsetSpec
from odradek.client.aio.admin import Admin
from odradek.client.aio.consumer import Consumer
from odradek.client.records import ConsumerRecord, TopicPartition
from odradek.console.records_view import AUTO, WHOLE_BYTES_MAX, field_model, record_model
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.world.clock import Clock, sleep
from odradek.zk_schema.znodes.json_data import number_named

BYTES_MAX: Final = 16_000_000
"""Bytes of keys and values after which reading stops; the first record may have any size."""
WAIT_MS: Final = 5_000.0
BACK_ROUNDS_MAX: Final = 5
"""Most times that reading goes further back for the newest records, each over twice as many offsets as before."""
TAIL_PAUSE_MS: Final = 250.0
TAIL_RECORDS_MAX: Final = 50
"""Records that a tail shows per pause; it skips others, and says how many."""


class Place(NamedTuple):
    """Place in a topic where reading starts."""

    topic: str
    partition: int | None
    kind: str
    """earliest, latest, offset, time"""
    at: int


class Reader:
    """Reads with consumers of its own, without a group, so that no committed offsets change."""

    def __init__(self, admin: Admin, settings: Mapping[str, Any], clock: Clock) -> None:
        self._admin, self._settings, self._clock = admin, settings, clock

    def consumer(self) -> Consumer:
        """Return a new consumer, which the caller starts and closes."""
        return Consumer(
            dict(self._settings),
            enable_auto_commit=False,
            group_id=None,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            fetch_max_bytes=4_000_000,
            max_poll_records=500,
        )

    async def partitions(self, topic: str, partition: int | None) -> list[TopicPartition]:
        """Return the partitions to read. Raises KafkaError."""
        info = (await self._admin.describe_topics([topic]))[0]
        found = [one for one in info.partitions if partition in (None, one.partition)]
        if not found:
            said = f"{topic} has partitions 0 to {len(info.partitions) - 1}"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, said)
        return [TopicPartition(topic, one.partition) for one in found]

    async def records(self, place: Place, count: int, form: str = AUTO) -> dict[str, Any]:
        """Return at most `count` records in the order of times, the logs' start and end offsets, and whether reading
        was cut short."""
        partitions = await self.partitions(place.topic, place.partition)
        begins = await self._offsets(partitions, OffsetSpec.EARLIEST)
        ends = await self._offsets(partitions, OffsetSpec.LATEST)
        starts = await self._starts(place, count, partitions, begins, ends)
        left = {one for one in partitions if starts[one] < ends[one]}
        read, cut = await self._read(starts, ends, left, count)
        if place.kind == "latest" and not cut:
            cut = await self._read_back(read, begins, starts, count)
        read.sort(key=lambda one: (one.timestamp_ms, one.partition, one.offset))
        shown = read[-count:] if place.kind == "latest" else read[:count]
        return {
            "records": [record_model(one, form) for one in shown],
            "logs": {one.partition: [begins[one], ends[one]] for one in partitions},
            "cut": cut,
        }

    async def _offsets(self, partitions: list[TopicPartition], spec: int) -> dict[TopicPartition, int]:
        found = await self._admin.list_offsets(dict.fromkeys(partitions, spec))
        return {one: place.offset if place is not None else 0 for one, place in found.items()}

    async def _starts(
        self,
        place: Place,
        count: int,
        partitions: list[TopicPartition],
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        if place.kind == "earliest":
            return dict(begins)
        if place.kind == "latest":
            return {one: max(begins[one], ends[one] - count) for one in partitions}
        if place.kind == "offset":
            return {one: min(max(begins[one], place.at), ends[one]) for one in partitions}
        found = await self._admin.list_offsets(dict.fromkeys(partitions, place.at))
        return {one: there.offset if (there := found[one]) is not None else ends[one] for one in partitions}

    async def _read(
        self,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        left: set[TopicPartition],
        count: int,
    ) -> tuple[list[ConsumerRecord], bool]:
        """Read up to `count` records of each partition before its end. Return them, and whether a limit ended it."""
        read: list[ConsumerRecord] = []
        if not left or not count:
            return read, False
        size, of_each = 0, dict.fromkeys(left, 0)
        until_ms = self._clock.monotonic_ms() + WAIT_MS
        async with self.consumer() as consumer:
            consumer.assign(list(left))
            for one in left:
                consumer.seek(one, starts[one])
            while left and size < BYTES_MAX and self._clock.monotonic_ms() < until_ms:
                for where, found in (await consumer.getmany(500, 50)).items():
                    some = [one for one in found if one.offset < ends[where]]
                    read += some[: count - of_each[where]]
                    of_each[where] += len(some)
                    size += sum(len(one.key or b"") + len(one.value or b"") for one in some)
                for where in tuple(left):
                    if of_each[where] >= count or await consumer.position(where) >= ends[where]:
                        left.discard(where)
                        consumer.pause(where)
        return read, bool(left)

    async def _read_back(
        self,
        read: list[ConsumerRecord],
        begins: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        count: int,
    ) -> bool:
        """Add records from before `starts` to `read` until there are `count`: markers of transactions, and records that
        compaction has removed, have offsets too. Return whether a limit ended it early."""
        ends, span = dict(starts), count
        for _ in range(BACK_ROUNDS_MAX):
            left = {one for one, end in ends.items() if begins[one] < end}
            if len(read) >= count or not left:
                return False
            span *= 2
            starts = {one: max(begins[one], ends[one] - span) for one in left}
            older, cut = await self._read(starts, ends, set(left), span)
            if cut:  # the newest of them are what was not read: a gap would be shown
                return True
            read += older
            ends = dict(starts)
        return len(read) < count and any(begins[one] < end for one, end in ends.items())

    async def field(self, where: TopicPartition, offset: int, part: str, form: str) -> dict[str, Any]:
        """Return one field of the record at an offset, at most WHOLE_BYTES_MAX bytes. Raises KafkaError."""
        ends = await self._offsets([where], OffsetSpec.LATEST)
        read, _ = await self._read({where: offset}, ends, {where} if offset < ends[where] else set(), 1)
        if not read or read[0].offset != offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{where} has no record at offset {offset} any more")
        data: bytes | None = read[0].value
        if part == "key":
            data = read[0].key
        elif part.startswith("header:"):
            number = number_named(part.removeprefix("header:"))
            headers = list(read[0].headers or ())
            if number is None or number >= len(headers):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the record has no such header")
            data = headers[number][1]
        return field_model(data, form, WHOLE_BYTES_MAX)

    async def tail(self, topic: str, partition: int | None) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the records that come in from now on, at most TAIL_RECORDS_MAX per pause."""
        try:
            partitions = await self.partitions(topic, partition)
            async with self.consumer() as consumer:
                consumer.assign(partitions)
                consumer.seek_to_end()
                turn = 0
                yield {"tail": turn, "records": [], "left_out": 0}
                while True:
                    found = await consumer.getmany(60_000, 5 * TAIL_RECORDS_MAX)
                    records = sorted(
                        (one for some in found.values() for one in some), key=lambda one: (one.timestamp_ms, one.offset)
                    )
                    if not records:
                        continue
                    turn += 1
                    yield {
                        "tail": turn,
                        "records": [record_model(one) for one in records[-TAIL_RECORDS_MAX:]],
                        "left_out": max(0, len(records) - TAIL_RECORDS_MAX) + await self._leap(consumer, partitions),
                    }
                    await sleep(self._clock, TAIL_PAUSE_MS)
        except KafkaError as error:
            yield {"error": str(error)}

    async def _leap(self, consumer: Consumer, partitions: list[TopicPartition]) -> int:
        """Skip to the end of partitions in which too much has come in; return the number of skipped records."""
        behind = {one: (consumer.highwater(one) or 0) - await consumer.position(one) for one in partitions}
        far = [one for one, records in behind.items() if records > 5 * TAIL_RECORDS_MAX]
        if far:
            consumer.seek_to_end(*far)
        return sum(behind[one] for one in far)
