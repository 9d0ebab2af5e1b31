"""KafkaConsumer: the blocking face of the consumer."""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from odradek.client.config import load
from odradek.client.consumer.buffer import RecordBuffer, Records
from odradek.client.consumer.config import ConsumerSettings, assignors, check, cooperative, deserializer
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.consumer.group import GroupDriver
from odradek.client.consumer.listener import RebalanceListener
from odradek.client.consumer.membership import Adopt, MemberSettings, Membership, Prepare, Turn
from odradek.client.errors import ClientClosed, ClientError, ConfigError
from odradek.client.metadata import PartitionInfo
from odradek.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, committed_offsets, offsets_at
from odradek.client.records import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from odradek.client.runtime import Runtime, named
from odradek.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], object]
LONGEST_WAIT_SECONDS = 1.0
"""How long `poll` sleeps at most before it looks around again; what happens in between wakes it."""


class KafkaConsumer:
    """Reads records. For one thread; only `wakeup` may be called from others.

    `subscribe` to topics to share them with the other members of group.id, or `assign` partitions to have them alone.
    """

    def __init__(self, *topics: str | Mapping[str, Any], **settings: Any) -> None:
        given = [one for one in topics if isinstance(one, Mapping)]
        names = [one for one in topics if isinstance(one, str)]
        if len(given) > 1:
            raise ConfigError("give one mapping of settings, not several")
        self.config = named(check(load(ConsumerSettings, given[0] if given else None, settings)), "consumer")
        self._runtime = Runtime(self.config)
        self._engine = self._runtime.thread.call(lambda: ConsumerEngine(self._runtime.cluster, self.config))
        self._buffer = RecordBuffer(
            self._engine.positions,
            self._engine.chunks,
            self.config,
            deserializer(self.config.key_deserializer, "key"),
            deserializer(self.config.value_deserializer, "value"),
        )
        self._listener = RebalanceListener()
        self._subscribed: frozenset[str] = frozenset()
        self._woken = False
        self._closed = False
        self._next_commit_ms = 0.0
        self._iterating: Iterator[ConsumerRecord] | None = None
        self._driving = False
        if self.config.group_id is not None:
            self._engine.group = self._runtime.thread.call(self._new_driver)
        self._running = asyncio.run_coroutine_threadsafe(self._engine.run(), self._runtime.thread.loop)
        if names:
            self.subscribe(names)

    def _new_driver(self) -> GroupDriver:
        config = self.config
        assert config.group_id is not None
        strategies = assignors(config)
        settings = MemberSettings(
            config.group_id,
            config.group_instance_id,
            config.session_timeout_ms,
            config.max_poll_interval_ms,
            config.heartbeat_interval_ms,
            config.retry_backoff_ms,
            strategies,
            cooperative(strategies),
        )
        return GroupDriver(self._runtime.cluster, Membership(settings), self._notify)

    def _notify(self) -> None:
        with self._engine.lock:
            self._engine.arrived.notify_all()

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
        """Share these topics, or all whose whole name matches a pattern, with the group. Replaces what was before."""
        group = self._group()
        names = frozenset([topics] if isinstance(topics, str) else topics)
        if bool(names) == (pattern is not None):
            raise ConfigError("subscribe to topics or to a pattern: one of the two")
        self._listener = listener or RebalanceListener()
        self._subscribed = names

        def change() -> None:
            self._engine.pattern = re.compile(pattern) if pattern is not None else None
            self._engine.cluster.needs.all_topics = pattern is not None
            if pattern is None:
                self._engine.cluster.needs.want_exactly(names, self._now_ms)
                group.membership.subscribe(names)
            else:
                self._engine.cluster.needs.stale()
            if not self._driving:
                self._driving = True
                self._engine.spawn(group.run())
            self._wake_all()

        self._runtime.thread.call(change)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group's say. Replaces what was before."""
        if self._subscribed or self._engine.pattern is not None:
            raise ConfigError("the consumer is subscribed: unsubscribe before assigning partitions")
        wanted = [TopicPartition(*one) for one in partitions]
        with self._engine.lock:
            self._engine.positions.assign(wanted)

        def change() -> None:
            self._engine.cluster.needs.want_exactly({tp.topic for tp in wanted}, self._now_ms)
            self._engine.wake()

        self._runtime.thread.call(change)

    def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        group = self._engine.group
        if group is not None and (self._subscribed or self._engine.pattern is not None):
            self._give_up_all()
            self._runtime.run(lambda: self._leave(group, "the consumer unsubscribed"))
        self._subscribed, self._engine.pattern = frozenset(), None
        with self._engine.lock:
            self._engine.positions.assign(())

    async def _leave(self, group: GroupDriver, reason: str) -> None:
        request = group.membership.leave_request(reason)
        group.membership.unsubscribe()
        group.wake()
        await group.leave(request)

    def assignment(self) -> set[TopicPartition]:
        """What it reads now."""
        with self._engine.lock:
            return set(self._engine.positions.partitions)

    def subscription(self) -> set[str]:
        """The topics it shares now."""
        group = self._engine.group
        return set(group.membership.topics) if group is not None else set()

    def _group(self) -> GroupDriver:
        self._check_open()
        if self._engine.group is None:
            raise ConfigError("subscribing and committing need group.id")
        return self._engine.group

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the consumer is closed")

    @property
    def _now_ms(self) -> float:
        return self._runtime.clock.monotonic_ms()

    def _wake_all(self) -> None:
        self._engine.wake()
        if self._engine.group is not None:
            self._engine.group.wake()

    # -- reading -------------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Records by partition, as soon as there are some, or none after `timeout_ms`.

        Raises KafkaError and ClientError for what cannot be read; a rebalance's callbacks are run in here.
        """
        self._check_open()
        if not self._subscribed and self._engine.pattern is None and not self.assignment():
            raise ConfigError("nothing to read: subscribe to topics or assign partitions first")
        end_ms = self._now_ms + timeout_ms
        limit = self.config.max_poll_records if max_records is None else max_records
        self._report_poll()
        while True:
            self._take_turn()
            records = self._take(limit)
            if records:
                return records
            left_ms = end_ms - self._now_ms
            if left_ms <= 0 or self._was_woken():
                return {}
            self._wait(left_ms)

    def _report_poll(self) -> None:
        if self._engine.group is not None:
            group, now_ms = self._engine.group, self._now_ms
            known = group.membership.is_polled
            group.membership.polled(now_ms)
            if not known:
                self._runtime.thread.soon(group.wake)
            self._commit_when_due(now_ms)

    def _take_turn(self) -> None:
        """Do the application's part of a rebalance; raise what went wrong meanwhile."""
        with self._engine.lock:
            failure, self._engine.failure = self._engine.failure, None
        group = self._engine.group
        if failure is None and group is not None:
            failure, turn = group.membership.failure, group.membership.turn
            if turn is not None and failure is None:
                self._carry_out(group, turn)
        if failure is not None:
            raise failure

    def _take(self, limit: int) -> Records:
        with self._engine.lock:
            records = self._buffer.take(limit)
        self._runtime.thread.soon(self._engine.wake)
        return records

    def _wait(self, left_ms: float) -> None:
        group = self._engine.group
        with self._engine.lock:
            waiting = group is not None and (group.membership.turn is not None or group.membership.failure is not None)
            ready = any(
                not state.paused and tp in self._engine.chunks
                for tp, state in self._engine.positions.partitions.items()
            )
            if not waiting and not ready and self._engine.failure is None and not self._woken:
                self._engine.arrived.wait(min(left_ms / 1000, LONGEST_WAIT_SECONDS))

    def wakeup(self) -> None:
        """From any thread: let the poll that waits, or the next one, return at once."""
        with self._engine.lock:
            self._woken = True
            self._engine.arrived.notify_all()

    def _was_woken(self) -> bool:
        woken, self._woken = self._woken, False
        return woken

    def __iter__(self) -> "KafkaConsumer":
        return self

    def __next__(self) -> ConsumerRecord:
        """The next record; StopIteration after consumer_timeout_ms without one."""
        if self._iterating is None:
            self._iterating = self._records()
        try:
            return next(self._iterating)
        except StopIteration:
            self._iterating = None
            raise

    def _records(self) -> Iterator[ConsumerRecord]:
        """One record at a time: the position is behind the one handed out last, so that a commit says what is done."""
        while True:
            polled = self.poll(self.config.consumer_timeout_ms, max_records=1)
            if not polled:
                return
            for records in polled.values():
                yield from records

    # -- rebalance, on the application's thread ------------------------------------------------------------------------

    def _carry_out(self, group: GroupDriver, turn: Turn) -> None:
        if isinstance(turn, Prepare):
            self._give_up(turn.revoked, turn.lost)
        elif isinstance(turn, Adopt):
            self._give_up(turn.revoked, ())
            with self._engine.lock:
                self._engine.positions.assign(turn.all)
            self._runtime.thread.call(self._want_assigned_topics)
            self._listener.on_partitions_assigned(turn.added)

        def done() -> None:
            group.membership.turn_done(turn)
            self._wake_all()

        self._runtime.thread.call(done)

    def _want_assigned_topics(self) -> None:
        if self._engine.pattern is None:
            topics = self._subscribed | {tp.topic for tp in self._engine.positions.partitions}
            self._engine.cluster.needs.want_exactly(topics, self._now_ms)

    def _give_up(self, revoked: Collection[TopicPartition], lost: Collection[TopicPartition]) -> None:
        if revoked:
            self._commit_before_giving_up()
            self._listener.on_partitions_revoked(revoked)
        if lost:
            self._listener.on_partitions_lost(lost)
        gone = {*revoked, *lost}
        if gone:
            with self._engine.lock:
                self._engine.positions.assign([tp for tp in self._engine.positions.partitions if tp not in gone])

    def _commit_before_giving_up(self) -> None:
        if not self.config.enable_auto_commit:
            return
        try:
            self.commit()
        except (KafkaError, ClientError) as error:
            logger.warning("consumer %s: automatic commit before a rebalance failed: %s", self.config.client_id, error)

    def _give_up_all(self) -> None:
        partitions = self.assignment()
        if partitions:
            self._give_up(sorted(partitions), ())

    # -- positions -----------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next record of an assigned partition is the one at `offset`."""
        if offset < 0:
            raise ConfigError(f"{partition}: an offset is at least 0, not {offset}")
        with self._engine.lock:
            self._assigned(partition)
            self._engine.positions.jump(partition, offset)
        self._runtime.thread.soon(self._engine.wake)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """To the first record there is; without arguments all assigned partitions."""
        self._seek_to(EARLIEST_TIMESTAMP, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Behind the last record there is; without arguments all assigned partitions."""
        self._seek_to(LATEST_TIMESTAMP, partitions)

    def _seek_to(self, timestamp: int, partitions: Collection[TopicPartition]) -> None:
        with self._engine.lock:
            for partition in partitions or list(self._engine.positions.partitions):
                self._assigned(partition)
                self._engine.positions.reset(partition, timestamp)
        self._runtime.thread.soon(self._engine.wake)

    def _assigned(self, partition: TopicPartition) -> None:
        if partition not in self._engine.positions.partitions:
            raise ConfigError(f"{partition} is not assigned to this consumer")

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """The offset of the next record; waits until it is found. Raises ClientTimeout after default.api.timeout.ms."""
        wait_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        end_ms = self._now_ms + wait_ms
        while True:
            with self._engine.lock:
                self._assigned(partition)
                position = self._engine.positions.partitions[partition].position
                failure, self._engine.failure = self._engine.failure, None
                if position < 0 and failure is None and self._now_ms < end_ms:
                    self._engine.arrived.wait(min((end_ms - self._now_ms) / 1000, 0.05))
            if failure is not None:
                raise failure
            if position >= 0:
                return position
            if self._now_ms >= end_ms:
                raise ClientError(f"{partition}: its position was not found within {wait_ms:g} ms")

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until `resume`; they stay assigned."""
        self._set_paused(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        self._set_paused(partitions, False)
        self._runtime.thread.soon(self._engine.wake)

    def _set_paused(self, partitions: Collection[TopicPartition], paused: bool) -> None:
        with self._engine.lock:
            for partition in partitions:
                self._assigned(partition)
                self._engine.positions.partitions[partition].paused = paused

    def paused(self) -> set[TopicPartition]:
        """The paused ones."""
        with self._engine.lock:
            return {tp for tp, state in self._engine.positions.partitions.items() if state.paused}

    # -- commits -------------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, or the positions of everything handed out; returns when the group has them.

        Raises CommitFailed when the partitions belong to others now, KafkaError, ClientTimeout.
        """
        group = self._group()
        wanted = self._to_commit(offsets)
        if wanted:
            self._runtime.run(lambda: group.commit(wanted, self._engine.deadline("committing offsets")))

    def commit_async(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> None:
        """The same without waiting; `callback(offsets, error)` is called on the consumer's own thread."""
        group = self._group()
        wanted = self._to_commit(offsets)

        async def work() -> None:
            failure: Exception | None = None
            try:
                await group.commit(wanted, self._engine.deadline("committing offsets"))
            except (KafkaError, ClientError) as error:
                failure = error
                if callback is None:
                    logger.warning("consumer %s: %s", self.config.client_id, error)
            if callback is not None:
                callback(wanted, failure)

        self._runtime.thread.soon(lambda: self._engine.spawn(work()))

    def _to_commit(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            with self._engine.lock:
                return self._engine.positions.consumed()
        return {
            TopicPartition(*tp): OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for tp, offset in offsets.items()
        }

    def _commit_when_due(self, now_ms: float) -> None:
        """enable.auto.commit: what earlier polls have handed out, every auto.commit.interval.ms."""
        if not self.config.enable_auto_commit:
            return
        if not self._next_commit_ms:
            self._next_commit_ms = now_ms + self.config.auto_commit_interval_ms
        elif now_ms >= self._next_commit_ms and self._group().membership.may_commit:
            self._next_commit_ms = now_ms + self.config.auto_commit_interval_ms
            self.commit_async()

    def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's offsets of these partitions; those without one are left out."""
        self._group()
        group_id = self.config.group_id
        assert group_id is not None
        return self._runtime.run(
            lambda: committed_offsets(
                self._engine.cluster, group_id, partitions, self._engine.deadline("reading committed offsets")
            )
        )

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
        return self._runtime.run(
            lambda: offsets_at(
                self._engine.cluster, times, self.config.isolation, self._engine.deadline("finding offsets by time")
            )
        )

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
        group = self._engine.group
        try:
            if group is not None and self._driving:
                self._close_membership(group, autocommit)
            elif group is not None and autocommit:
                self._commit_before_giving_up()
        finally:
            self._closed = True
            with suppress(ClientError):
                self._runtime.thread.call(self._engine.stop)
            self._runtime.stop()

    def _close_membership(self, group: GroupDriver, autocommit: bool) -> None:
        lost = group.membership.generation_id < 0
        partitions = sorted(self.assignment())
        if partitions and not lost and autocommit:
            self._commit_before_giving_up()
        if partitions:
            (self._listener.on_partitions_lost if lost else self._listener.on_partitions_revoked)(partitions)
        self._runtime.thread.call(group.stop)
        self._runtime.run(lambda: self._leave(group, "the consumer is closing"))
