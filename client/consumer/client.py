"""KafkaConsumer: the blocking face of the consumer."""

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from odradek.client.config import load
from odradek.client.consumer.buffer import RecordBuffer, Records
from odradek.client.consumer.config import ConsumerSettings, check, deserializer
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.consumer.listener import RebalanceListener
from odradek.client.consumer.participation import CommitCallback, Offsets, Participation
from odradek.client.consumer.positions import PartitionPosition
from odradek.client.consumer.subscription import NOTHING, to_partitions, to_pattern, to_topics
from odradek.client.errors import ClientClosed, ClientError, ClientTimeout, ConfigError
from odradek.client.metadata import PartitionInfo
from odradek.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, committed_offsets, offsets_at
from odradek.client.records import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from odradek.client.runtime import Runtime, named

LONGEST_WAIT_MS = 1_000.0
"""How long `poll` and `position` sleep at most before they look around again; what happens in between wakes them."""

NEEDS_GROUP = "subscribing and committing need group.id"


class KafkaConsumer:
    """Reads records. For one thread; only `wakeup` may be called from others.

    `subscribe` to topics to share them with the other members of group.id, or `assign` partitions to have them alone.
    """

    def __init__(self, *topics: str | Mapping[str, Any], **settings: Any) -> None:
        given = [one for one in topics if isinstance(one, Mapping)]
        names = [one for one in topics if isinstance(one, str)]
        if len(given) > 1:
            raise ConfigError("give one mapping of settings, not several")
        config = self.config = named(check(load(ConsumerSettings, given[0] if given else None, settings)), "consumer")
        if names and config.group_id is None:
            raise ConfigError(NEEDS_GROUP)
        key, value = deserializer(config.key_deserializer, "key"), deserializer(config.value_deserializer, "value")
        self._runtime = Runtime(config)
        self._engine = self._runtime.thread.call(lambda: ConsumerEngine(self._runtime.cluster, config))
        self._shared = self._engine.shared
        self._buffer = RecordBuffer(self._shared, config, key, value)
        self._group = Participation(self._runtime, self._engine) if config.group_id is not None else None
        self._woken = False
        self._closed = False
        self._runtime.thread.call(lambda: self._engine.spawn(self._engine.run()))
        if names:
            self.subscribe(names)

    def __enter__(self) -> "KafkaConsumer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- what to read --------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share these topics, or all whose whole name matches a pattern, with the group. Replaces what was before.

        Raises ConfigError, also when partitions are assigned.
        """
        group = self._needed_group()
        names = frozenset([topics] if isinstance(topics, str) else topics)
        if bool(names) == (pattern is not None):
            raise ConfigError("subscribe to topics or to a pattern: one of the two")
        wanted = to_topics(names) if pattern is None else to_pattern(pattern)
        group.subscribe(self._engine.subscription.followed_by(wanted), listener)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, whatever the group says. Replaces what was before. Raises ConfigError."""
        self._check_open()
        wanted = [TopicPartition(*one) for one in partitions]
        subscription = self._engine.subscription.followed_by(to_partitions({tp.topic for tp in wanted}))
        with self._shared.lock:
            self._shared.positions.assign(wanted)
        self._runtime.thread.call(lambda: self._engine.subscribe(subscription))

    def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        self._check_open()
        if self._group is not None and self._engine.subscription.shared:
            self._group.unsubscribe()
        else:
            self.assign(())

    def assignment(self) -> set[TopicPartition]:
        """What it reads now."""
        with self._shared.lock:
            return set(self._shared.positions.partitions)

    def subscription(self) -> set[str]:
        """The topics it shares now."""
        return self._group.topics if self._group is not None else set()

    def _needed_group(self) -> Participation:
        self._check_open()
        if self._group is None:
            raise ConfigError(NEEDS_GROUP)
        return self._group

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the consumer is closed")

    @property
    def _now_ms(self) -> float:
        return self._runtime.clock.monotonic_ms()

    def _wake_engine(self) -> None:
        self._runtime.thread.soon(self._engine.wake)

    # -- reading -------------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Records by partition, as soon as there are some, or none after `timeout_ms`.

        Raises KafkaError and ClientError for what cannot be read; a rebalance's callbacks are run in here.
        """
        self._check_open()
        if self._engine.subscription is NOTHING:
            raise ConfigError("nothing to read: subscribe to topics or assign partitions first")
        end_ms = self._now_ms + timeout_ms
        limit = self.config.max_poll_records if max_records is None else max_records
        while True:
            self._take_part()
            records = self._take(limit)
            if records:
                return records
            left_ms = end_ms - self._now_ms
            if self._was_woken() or left_ms <= 0:
                return {}
            self._wait(left_ms)

    def _take_part(self) -> None:
        """Show that the application lives, do its part of a rebalance, raise what went wrong meanwhile."""
        if self._group is not None:
            self._group.polled(self._now_ms)
        failure = self._shared.take_failure()
        if failure is not None:
            raise failure
        if self._group is not None:
            self._group.take_turn()

    def _take(self, limit: int) -> Records:
        if self._group is not None and self._group.lost:
            return {}
        records = self._buffer.take(limit)
        if self._buffer.made_room() or not records:
            self._wake_engine()
        return records

    def _wait(self, left_ms: float) -> None:
        group = self._group
        longest_ms = min(left_ms, LONGEST_WAIT_MS, self.config.max_poll_interval_ms / 2)
        with self._shared.lock:
            busy = self._woken or self._shared.failure is not None or (group is not None and group.waiting)
            readable = self._shared.readable and not (group is not None and group.lost)
            if not busy and not readable:
                self._shared.arrived.wait(longest_ms / 1000)

    def wakeup(self) -> None:
        """From any thread: let the poll that waits, or the next one, return at once."""
        with self._shared.lock:
            self._woken = True
            self._shared.arrived.notify_all()

    def _was_woken(self) -> bool:
        with self._shared.lock:
            woken, self._woken = self._woken, False
            return woken

    def __iter__(self) -> "KafkaConsumer":
        return self

    def __next__(self) -> ConsumerRecord:
        """The next record; StopIteration after consumer_timeout_ms without one. Raises like `poll`.

        One record at a time: the position is behind the one handed out last, so that a commit says what is done.
        """
        for records in self.poll(self.config.consumer_timeout_ms, max_records=1).values():
            return records[0]
        raise StopIteration

    # -- positions -----------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next record of an assigned partition is the one at `offset`."""
        if offset < 0:
            raise ConfigError(f"{partition}: an offset is at least 0, not {offset}")
        with self._shared.lock:
            self._assigned(partition)
            self._shared.positions.jump(partition, offset)
        self._wake_engine()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """To the first record there is; without arguments all assigned partitions."""
        self._seek_to(EARLIEST_TIMESTAMP, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Behind the last record there is; without arguments all assigned partitions."""
        self._seek_to(LATEST_TIMESTAMP, partitions)

    def _seek_to(self, timestamp: int, partitions: Collection[TopicPartition]) -> None:
        with self._shared.lock:
            for partition in partitions or list(self._shared.positions.partitions):
                self._assigned(partition)
                self._shared.positions.reset(partition, timestamp)
        self._wake_engine()

    def _assigned(self, partition: TopicPartition) -> PartitionPosition:
        """With the lock."""
        if partition not in self._shared.positions.partitions:
            raise ConfigError(f"{partition} is not assigned to this consumer")
        return self._shared.positions.partitions[partition]

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """The offset of the next record; waits until it is found. Raises ClientTimeout after default.api.timeout.ms."""
        wait_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        end_ms = self._now_ms + wait_ms
        self._wake_engine()
        while True:
            with self._shared.lock:
                position = self._assigned(partition).position
                left_ms = end_ms - self._now_ms
                if position < 0 and self._shared.failure is None and left_ms > 0:
                    self._shared.arrived.wait(min(left_ms, LONGEST_WAIT_MS) / 1000)
            if position >= 0:
                return position
            failure = self._shared.take_failure()
            if failure is not None:
                raise failure
            if left_ms <= 0:
                raise ClientTimeout(f"{partition}: its position was not found within {wait_ms:g} ms")

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until `resume`; they stay assigned."""
        self._set_paused(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        self._set_paused(partitions, False)
        self._wake_engine()

    def _set_paused(self, partitions: Collection[TopicPartition], paused: bool) -> None:
        with self._shared.lock:
            for partition in partitions:
                self._assigned(partition).paused = paused

    def paused(self) -> set[TopicPartition]:
        """The paused ones."""
        with self._shared.lock:
            return {tp for tp, state in self._shared.positions.partitions.items() if state.paused}

    # -- commits -------------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, or the positions of everything handed out; returns when the group has them.

        Raises CommitFailed when the partitions belong to others now, KafkaError, ClientTimeout.
        """
        self._needed_group().commit(offsets)

    def commit_async(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> None:
        """The same without waiting; `callback(offsets, error)` is called on the consumer's own thread."""
        self._needed_group().commit_async(offsets, callback)

    def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's offsets of these partitions; those without one are left out."""
        self._needed_group()
        group_id = self.config.group_id
        assert group_id is not None
        deadline = self._engine.deadline("reading committed offsets")
        return self._runtime.run(lambda: committed_offsets(self._engine.cluster, group_id, partitions, deadline))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who it is in its group, for `KafkaProducer.send_offsets_to_transaction`, of what was handed out last.

        Raises CommitFailed when its partitions belong to others by now, ConfigError without group.id.
        """
        return self._needed_group().metadata()

    # -- questions -----------------------------------------------------------------------------------------------------

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offsets there are."""
        return self._limits(partitions, EARLIEST_TIMESTAMP)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets of the next records to come, as far as the isolation level lets read."""
        return self._limits(partitions, LATEST_TIMESTAMP)

    def _limits(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = self.offsets_for_times(dict.fromkeys(partitions, timestamp))
        return {tp: offset.offset for tp, offset in found.items() if offset is not None}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offsets at or after these times (milliseconds since 1970); None where there is none."""
        self._check_open()
        deadline = self._engine.deadline("finding offsets by time")
        return self._runtime.run(lambda: offsets_at(self._engine.cluster, times, self.config.isolation, deadline))

    def partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic; empty when there is none of that name."""
        self._check_open()
        view, _ = self._runtime.run(lambda: self._engine.cluster.describe([topic]))
        info = view.topics.get(topic)
        return list(info.partitions) if info is not None else []

    def topics(self) -> set[str]:
        """All topics of the cluster but Kafka's own."""
        self._check_open()
        view, _ = self._runtime.run(lambda: self._engine.cluster.describe(None))
        return {name for name, info in view.topics.items() if not info.internal}

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self, *, autocommit: bool = True) -> None:
        """Commit (with enable.auto.commit), leave the group, close connections. Harmless twice."""
        if self._closed:
            return
        try:
            if self._group is not None:
                self._group.close(autocommit=autocommit)
        finally:
            self._closed = True
            with suppress(ClientError):
                self._runtime.thread.call(self._engine.stop)
            self._runtime.stop()
