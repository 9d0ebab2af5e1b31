"""KafkaConsumer: the blocking form of the consumer."""

import re
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Self

from odradek.client import arguments
from odradek.client.aio.consumer import Consumer
from odradek.client.blocking import Blocking
from odradek.client.config import defaults
from odradek.client.consumer.buffer import Records
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.participation import CLOSE_TIMEOUT_MS, CommitCallback
from odradek.client.consumer.subscription import RebalanceListener
from odradek.client.errors import ClientClosed
from odradek.client.loop_thread import on_callers_thread
from odradek.client.metadata import PartitionInfo
from odradek.client.records import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)


class KafkaConsumer(Blocking[Consumer]):
    """Reads records. For one thread; only `wakeup` may be called from others.

    `subscribe` to topics to share their partitions with the other members of group.id, or without group.id to read
    all of them; or `assign` partitions. Callbacks are called on the thread that polls, commits or closes. Methods and
    settings are those of kafka-python's class of this name; `odradek.aio.Consumer` says what each does and raises.
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = defaults(ConsumerSettings)
    """Settings and their defaults."""

    def __init__(self, *topics: str | Mapping[str, Any], **settings: Any) -> None:
        """Take topics to subscribe to, and settings: Kafka's consumer configs, as one mapping with Kafka's names or as
        snake_case keywords. Raises ConfigError."""
        core = Consumer(*topics, **settings)
        if core.config.default_offset_commit_callback is not None:
            arguments.callback(core.config.default_offset_commit_callback, "default_offset_commit_callback")
        core.call_back = on_callers_thread
        self.config = core.config
        self._closer: threading.Thread | None = None
        self._begin(core, self.config.client_id)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; after an exception without a commit, so that the record whose processing failed is read again."""
        self.close(autocommit=kind is None)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commit the positions (with enable.auto.commit), leave the group, close all connections.

        Takes `timeout_ms` at most (None: 30 s). Calling it again waits for the end of the first call, at most
        `timeout_ms`; in a callback it returns at once, as the first call may wait for that.
        """
        wait_ms = CLOSE_TIMEOUT_MS if timeout_ms is None else arguments.duration(timeout_ms)
        if not self._closed:
            self._closer = threading.current_thread()
        elif self._thread.running and self._closer is not threading.current_thread():  # the closer may be in a callback
            with suppress(ClientClosed):
                self._run(self._core.close(timeout_ms=wait_ms))
        self._finish(lambda: self._core.close(autocommit=autocommit, timeout_ms=wait_ms))

    def _opened(self) -> Consumer:
        """Return the core, which works until `close` has ended: a listener may commit what `close` revokes. Raises
        ClientClosed after that."""
        if self._closed and not self._thread.running:
            raise ClientClosed("the consumer is closed")
        return self._core

    # -- what to read --------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to all whose whole name matches `pattern`. See `aio.Consumer.subscribe`."""
        self._thread.call(partial(self._opened().subscribe, topics, pattern, listener))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without the group's assignment; with none, unsubscribe."""
        wanted = arguments.topic_partitions(partitions)
        if wanted:
            self._thread.call(partial(self._opened().assign, wanted))
        else:
            self.unsubscribe()

    def unsubscribe(self) -> None:
        """Drop the subscription or the assigned partitions, and leave the group."""
        self._run(self._opened().unsubscribe())

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are assigned now."""
        return self._core.assignment()

    def subscription(self) -> set[str]:
        """Return the topics that it has subscribed to; with a pattern, those that match it now."""
        return self._opened().subscription()

    # -- reading -------------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True) -> Records:
        """Return records by partition as soon as there are any; an empty dict after `timeout_ms` without one.

        At most `max_records` in all (None: max.poll.records). With `update_offsets=False` the positions stay, and the
        next poll returns the same records. Rebalance callbacks are called in here. Raises KafkaError when a partition
        cannot be read, ConfigError without a subscription or an assignment.
        """
        records = self._poll(timeout_ms, max_records)
        if not update_offsets:
            self._core.seek_back_to(records)
        return records

    def _poll(self, timeout_ms: float, max_records: int | None) -> Records:
        core = self._opened()
        limit = core.limit(max_records)
        end = time.monotonic() + arguments.duration(timeout_ms) / 1000
        while True:
            records = core.take_now(limit)
            if not records and timeout_ms <= 0 and core.reads and core.may_take():
                return records
            if records or not self._run(core.until_ready((end - time.monotonic()) * 1000)):
                return records

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record; the iteration ends after consumer_timeout_ms without one. Raises as `poll`.

        The position then is the offset after this record, so a commit covers only records that were returned.
        """
        core = self._core if not self._closed else self._opened()
        record = core.take_one_now()
        if record is not None:
            return record
        end = time.monotonic() + self.config.consumer_timeout_ms / 1000
        while self._run(core.until_ready((end - time.monotonic()) * 1000)):
            record = core.take_one_now()
            if record is not None:
                return record
        raise StopIteration

    def wakeup(self) -> None:
        """Make the poll that is waiting, or else the next one, return at once without records. Thread-safe."""
        self._core.wakeup()

    # -- positions -----------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the position of an assigned partition: the next record returned is the one at `offset`."""
        self._opened().seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Seek to the first record of these partitions; without arguments, of all assigned ones."""
        self._opened().seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Seek past the last record of these partitions; without arguments, of all assigned ones."""
        self._opened().seek_to_end(*partitions)

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Seek to the offsets that the group has committed; without arguments, in all assigned partitions."""
        self._opened().seek_to_committed(*partitions)

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record to be returned from a partition. Raises ClientTimeout."""
        return self._run(self._opened().position(partition, timeout_ms))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of an assigned partition as of the last fetch; None before the first one."""
        return self._opened().highwater(partition)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`; they stay assigned."""
        self._opened().pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again, after `pause`."""
        self._opened().resume(*partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return self._opened().paused()

    # -- commits -------------------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[Any, Any] | None = None, timeout_ms: float | None = None) -> None:
        """Commit these offsets (None: the current positions) and wait for the answer. See `aio.Consumer.commit`."""
        self._run(self._opened().commit(offsets, timeout_ms))

    def commit_async(self, offsets: Mapping[Any, Any] | None = None, callback: CommitCallback | None = None) -> None:
        """Commit without waiting; a later poll, commit or close calls `callback(offsets, error)`."""
        self._thread.call(partial(self._opened().commit_later, offsets, callback))

    def committed(self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None) -> Any:
        """Return the group's committed offset, None when there is none; with `metadata` as an OffsetAndMetadata."""
        return self._run(self._opened().committed(partition, metadata, timeout_ms))

    def committed_offsets(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets of these partitions; those without one are left out."""
        return self._run(self._opened().committed_offsets(*partitions, timeout_ms=timeout_ms))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's group, generation and member id, for `KafkaProducer.send_offsets_to_transaction`.

        Raises CommitFailed when other members own its partitions by now, ConfigError without group.id.
        """
        return self._opened().group_metadata()

    # -- questions -----------------------------------------------------------------------------------------------------

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition. Raises ClientTimeout."""
        return self._run(self._opened().beginning_offsets(partitions, timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: the high watermark, with read_committed the last stable offset."""
        return self._run(self._opened().end_offsets(partitions, timeout_ms))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return, by partition, the first offset at or after a time in ms since 1970; None where there is none."""
        return self._run(self._opened().offsets_for_times(timestamps, timeout_ms))

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the numbers of a topic's partitions; None when there is no topic of that name."""
        return self._run(self._opened().partitions_for_topic(topic))

    def describe_partitions(self, topic: str) -> list[PartitionInfo]:
        """Return a topic's partitions with leaders and replicas; empty when there is no topic of that name."""
        return self._run(self._opened().describe_partitions(topic))

    def topics(self) -> set[str]:
        """Return the names of all topics but Kafka's internal ones."""
        return self._run(self._opened().topics())

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until the cluster's brokers are known. Raises ClientTimeout. See `aio.Consumer.bootstrap`."""
        self._run(self._opened().bootstrap(timeout_ms, refresh))

    def bootstrap_connected(self) -> bool:
        """Tell whether a connection to some broker is open."""
        return self._opened().bootstrap_connected()

    def metrics(self, raw: bool = False) -> Any:
        """Return the metrics under Kafka's names: group → name → value. See `aio.Consumer.metrics`."""
        return self._opened().metrics(raw)
