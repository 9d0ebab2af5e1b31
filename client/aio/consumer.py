"""Consumer: reads records, on asyncio."""

import asyncio
import inspect
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Self

from odradek.client import arguments
from odradek.client.aio.consumer_base import ConsumerBase
from odradek.client.consumer.buffer import Records
from odradek.client.consumer.participation import CommitCallback
from odradek.client.consumer.positions import PartitionPosition
from odradek.client.consumer.subscription import NOTHING
from odradek.client.errors import ClientTimeout, ConfigError
from odradek.client.offsets import committed_offsets
from odradek.client.records import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    TopicPartition,
)
from odradek.client.waiting import call_soon
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

LONGEST_WAIT_MS = 1_000.0
"""Longest sleep of a poll before it looks again; anything that happens meanwhile wakes it."""


class Consumer(ConsumerBase):
    """Reads records of a cluster's topics.

    `subscribe` to topics (or name them in the constructor) to share their partitions with the other members of
    group.id, or without group.id to read all of them; or `assign` partitions. Use it as `async with Consumer(...) as
    consumer`, or call `await start()` and `await close()`. It is for one task at a time, on the event loop on which it
    was started.
    """

    # -- reading -------------------------------------------------------------------------------------------------------

    async def getmany(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> Records:
        """Return records by partition as soon as there are any; an empty dict after `timeout_ms` without one.

        At most `max_records` in all (None: max.poll.records). With `update_offsets=False` the positions stay, and the
        next call returns the same records. Rebalance callbacks are called in here. Raises KafkaError when a partition
        cannot be read, ConfigError without a subscription or an assignment.
        """
        records = await self._getmany(timeout_ms, max_records)
        if not update_offsets:
            self.seek_back_to(records)
        return records

    def seek_back_to(self, records: Records) -> None:
        """Seek back to the first of these records in each partition."""
        for partition, some in records.items():
            self.seek(partition, some[0].offset)

    async def _getmany(self, timeout_ms: float, max_records: int | None) -> Records:
        self._check_loop()
        limit = self.limit(max_records)
        end_ms = self._now_ms + arguments.duration(timeout_ms)
        await asyncio.sleep(0)  # an application that never waits would keep the loop from fetching more
        while True:
            records = self.take_now(limit)
            if records or not await self.until_ready(end_ms - self._now_ms):
                return records

    async def getone(self, timeout_ms: float = float("inf")) -> ConsumerRecord | None:
        """Return the next record, or None after `timeout_ms`. Raises as `getmany`.

        The position then is the offset after this record, so a commit covers only records that were returned.
        """
        self._check_loop()
        end_ms = self._now_ms + arguments.duration(timeout_ms)
        while True:
            record = self.take_one_now()
            if record is not None or not await self.until_ready(end_ms - self._now_ms):
                return record

    def __aiter__(self) -> Self:
        self._check_loop()
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record; the iteration ends after consumer_timeout_ms without one. Raises as `getmany`."""
        record = self.take_one_now()
        if record is None:
            record = await self.getone(self.config.consumer_timeout_ms)
            if record is None:
                raise StopAsyncIteration
        return record

    @property
    def reads(self) -> bool:
        """True when the consumer has subscribed to topics or was assigned partitions."""
        return self.engine.subscription is not NOTHING

    def limit(self, max_records: int | None) -> int:
        """Return how many records a poll returns at most: `max_records`, or max.poll.records when that is None. Raises
        TypeError, ConfigError."""
        if max_records is None:
            return self.config.max_poll_records
        return arguments.whole_number(max_records, "max_records", lowest=1)

    def take_now(self, limit: int) -> Records:
        """Return at most `limit` fetched records without waiting; not for applications, which call `getmany`.

        Empty when none is fetched, and when `until_ready` has to run first (a rebalance, an error). Records are decoded
        here, on the calling thread.
        """
        if not self.may_take():
            return {}
        buffer = self._buffer
        records = buffer.take(limit)
        try:
            if buffer.room or not records:
                buffer.room = False
                self._wake_engine()
            if not records:
                return records
            count = sum(map(len, records.values()))
            buffer.records_taken += count
            self._sensors.taken(count)
            return self._interceptors.on_consume(records) if self._intercepts else records
        except BaseException:
            self._give_back(records)
            raise

    def _give_back(self, records: Records) -> None:
        """Seek back to these records, which an interrupt keeps from the application."""
        with suppress(KafkaError):
            self.seek_back_to(records)

    def take_one_now(self) -> ConsumerRecord | None:
        """Return one fetched record without waiting, or None, under the conditions of `take_now`."""
        buffer = self._buffer
        while self._group is None or self._group.may_take():
            record = buffer.next_record()
            if record is not None and not buffer.room and not self._intercepts:
                return record
            try:
                if record is None or buffer.room:
                    buffer.room = False
                    self._wake_engine()
                if record is None or not self._intercepts:
                    return record
                where = TopicPartition(record.topic, record.partition)
                kept = self._interceptors.on_consume({where: [record]}).get(where)
                if kept:
                    return kept[0]
            except BaseException:
                if record is not None:
                    self._give_back({TopicPartition(record.topic, record.partition): [record]})
                raise
        return None

    def may_take(self) -> bool:
        """Note that the application has polled, and tell whether it may take records at once. It may not when a
        rebalance, an error or a wake-up has to be handled first."""
        return not self._shared.disturbed and (self._group is None or self._group.may_take())

    async def until_ready(self, timeout_ms: float) -> bool:
        """Take part in the group's rebalance, then wait for records; return False when there are none by `timeout_ms`.

        Raises KafkaError for an error since the last poll, and what callbacks raise.
        """
        self._check_loop()
        if not self.reads:
            raise ConfigError("nothing to read: subscribe to topics or assign partitions first")
        end_ms = self._now_ms + timeout_ms
        while True:
            self._shared.arrived.clear()
            await self._take_part(end_ms)
            if self._readable():
                return True
            left_ms = end_ms - self._now_ms
            if self._was_woken() or left_ms <= 0:
                return False
            await self._until_arrived(min(left_ms, LONGEST_WAIT_MS, self.config.max_poll_interval_ms / 2))

    async def _take_part(self, end_ms: float) -> None:
        """Note that the application is alive, do its part of a rebalance, and raise what went wrong meanwhile."""
        if self._group is not None:
            self._group.polled()
        self.engine.check_runs()
        failure = self._shared.take_failure()
        if failure is not None:
            raise failure.with_traceback(None)
        if self._group is not None:
            await self._group.take_turn(end_ms)

    def _readable(self) -> bool:
        if self._group is not None and (self._group.lost or self._group.membership.turn is not None):
            return False
        if self._shared.woken:
            return False
        with self._shared.lock:
            return self._shared.readable or self._buffer.has_decoded

    async def _until_arrived(self, longest_ms: float) -> None:
        arrived = self._shared.arrived
        timer = self.engine.cluster.clock.call_later(longest_ms, arrived.set)
        try:
            await arrived.wait()
        finally:
            timer.cancel()

    def wakeup(self) -> None:
        """Make the poll that is waiting, or else the next one, return at once without records. Thread-safe.

        Raises ClientError before `start`.
        """
        self._shared.wake_up()
        if self._loop is not None:
            call_soon(self._loop, self._shared.arrived.set)

    def _was_woken(self) -> bool:
        woken, self._shared.woken = self._shared.woken, False
        return woken

    # -- positions -----------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the position of an assigned partition: the next record returned is the one at `offset`.

        Raises ConfigError when the partition is not assigned, TypeError.
        """
        where, offset = arguments.topic_partition(partition), arguments.offset(offset)
        with self._shared.lock:
            self._assigned(where)
            self._shared.positions.jump(where, offset)
            self._shared.moved(where)
        self._wake_engine()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Seek to the first record of these partitions; without arguments, of all assigned ones."""
        self._seek_to(EARLIEST_TIMESTAMP, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Seek past the last record of these partitions; without arguments, of all assigned ones."""
        self._seek_to(LATEST_TIMESTAMP, partitions)

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Seek to the offsets that the group has committed, as after an aborted transaction.

        Without arguments, in all assigned partitions. auto.offset.reset decides where nothing is committed.
        """
        self._needed_group()
        self._seek_to(None, partitions)

    def _seek_to(self, timestamp: int | None, partitions: Collection[TopicPartition]) -> None:
        wanted = arguments.topic_partitions(partitions)
        with self._shared.lock:
            self._shared.check_open()
            for partition in wanted:
                self._assigned(partition)
            for partition in wanted or list(self._shared.positions.partitions):
                self._shared.positions.reset(partition, timestamp)
                self._shared.moved(partition)
        self._wake_engine()

    def _assigned(self, partition: TopicPartition) -> PartitionPosition:
        """Return the position of a partition; raises ConfigError when it is not assigned. The lock must be held."""
        self._shared.check_open()
        if partition not in self._shared.positions.partitions:
            raise ConfigError(f"{partition} is not assigned to this consumer")
        return self._shared.positions.partitions[partition]

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record to be returned from a partition, looking it up if need be.

        Raises ClientTimeout after `timeout_ms` (None: default.api.timeout.ms), ConfigError when the partition is not
        assigned, KafkaError.
        """
        where = arguments.topic_partition(partition)
        wait_ms = self.config.default_api_timeout_ms if timeout_ms is None else arguments.duration(timeout_ms)
        end_ms = self._now_ms + wait_ms
        self.engine.wake()
        while True:
            self._shared.arrived.clear()
            with self._shared.lock:
                position = self._assigned(where).position
            if position >= 0:
                return position
            failure = self._shared.take_failure()
            if failure is not None:
                raise failure.with_traceback(None)
            left_ms = end_ms - self._now_ms
            if left_ms <= 0:
                reason = self.engine.why_not_located(where)
                said = f"{where}: its position was not found within {wait_ms:g} ms"
                raise ClientTimeout(said if reason is None else f"{said}; last: {reason}", topic_partition=where)
            await self._until_arrived(min(left_ms, LONGEST_WAIT_MS))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of an assigned partition as of the last fetch; None before the first one."""
        with self._shared.lock:
            found = self._assigned(arguments.topic_partition(partition)).high_watermark
        return found if found >= 0 else None

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`; they stay assigned."""
        self._set_paused(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again, after `pause`."""
        self._set_paused(partitions, False)
        self._wake_engine()

    def _set_paused(self, partitions: Collection[TopicPartition], paused: bool) -> None:
        wanted = arguments.topic_partitions(partitions)
        with self._shared.lock:
            for state in [self._assigned(partition) for partition in wanted]:
                state.paused = paused

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        with self._shared.lock:
            return {tp for tp, state in self._shared.positions.partitions.items() if state.paused}

    # -- commits -------------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[Any, Any] | None = None, timeout_ms: float | None = None) -> None:
        """Commit these offsets (None: the current positions), and return when the coordinator has written them.

        `offsets`: partition → offset of the next record to read, as an int or an OffsetAndMetadata. Raises CommitFailed
        when other members own the partitions by now; RebalanceInProgress when the commit can be repeated after the next
        polls; KafkaError; ClientTimeout after `timeout_ms` (None: default.api.timeout.ms).
        """
        group = self._needed_group()
        wanted = None if offsets is None else arguments.offsets_to_commit(offsets)
        await group.commit(wanted, None if timeout_ms is None else arguments.duration(timeout_ms))

    def commit_later(self, offsets: Mapping[Any, Any] | None = None, callback: CommitCallback | None = None) -> None:
        """Commit without waiting, offsets as for `commit`; a later poll, commit or close calls
        `callback(offsets, error)`."""
        group = self._needed_group()
        if callback is not None and not callable(callback):
            raise TypeError(f"the callback of a commit must be a function, not {type(callback).__name__}")
        if self._from_other_threads and inspect.iscoroutinefunction(callback):
            raise TypeError("a KafkaConsumer's callback cannot be a coroutine: odradek.aio.Consumer awaits them")
        group.commit_later(None if offsets is None else arguments.offsets_to_commit(offsets), callback)

    async def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> Any:
        """Return the group's committed offset of a partition, None when there is none; with `metadata` as an
        OffsetAndMetadata.

        Raises KafkaError, ClientTimeout after `timeout_ms` (None: default.api.timeout.ms).
        """
        where = arguments.topic_partition(partition)
        found = (await self.committed_offsets(where, timeout_ms=timeout_ms)).get(where)
        return found if metadata or found is None else found.offset

    async def committed_offsets(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets of these partitions; those without one are left out.

        Raises KafkaError, ClientTimeout after `timeout_ms` (None: default.api.timeout.ms).
        """
        self._needed_group()
        group_id, wanted = self.config.group_id, arguments.topic_partitions(partitions)
        assert group_id is not None
        deadline = self.engine.deadline("reading committed offsets", timeout_ms)
        asked = committed_offsets(self.engine.cluster, group_id, wanted, deadline, member=self.engine.group)
        return await deadline.bound(asked)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's group, generation and member id, as of the records returned last, for
        `Producer.send_offsets_to_transaction`.

        Raises CommitFailed when other members own its partitions by now, ConfigError without group.id.
        """
        return self._needed_group().metadata()
