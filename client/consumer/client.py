"""KafkaConsumer: the blocking form of the consumer."""

import re
import time
from collections.abc import Iterable, Mapping
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

    `subscribe` to topics to share them with the other members of group.id, and without one to read all of them; or
    `assign` partitions. Callbacks are called on the thread that polls, commits or closes. Methods and settings are
    those of kafka-python's class of this name; what each does, and raises, is said in `odradek.aio.Consumer`.
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = defaults(ConsumerSettings)
    """Settings and their defaults."""

    def __init__(self, *topics: str | Mapping[str, Any], **settings: Any) -> None:
        """Take topics and settings (Kafka's consumer configs). Raises ConfigError."""
        core = Consumer(*topics, **settings)
        core.call_back = on_callers_thread
        self.config = core.config
        self._begin(core, self.config.client_id)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; after an exception without a commit, for the record whose processing has failed is to come again."""
        self.close(autocommit=kind is None)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commit (with enable.auto.commit), leave the group, close connections. Harmless twice."""
        wait_ms = CLOSE_TIMEOUT_MS if timeout_ms is None else arguments.duration(timeout_ms)
        self._finish(lambda: self._core.close(autocommit=autocommit, timeout_ms=wait_ms))

    def _opened(self) -> Consumer:
        """Return the core, which answers until `close` has ended: a listener may commit what `close` revokes."""
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
        """Read these topics, or all whose whole name matches a pattern. See `aio.Consumer.subscribe`."""
        self._thread.call(partial(self._opened().subscribe, topics, pattern, listener))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, whatever the group says. Replaces what was before."""
        self._thread.call(partial(self._opened().assign, partitions))

    def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        self._run(self._opened().unsubscribe())

    def assignment(self) -> set[TopicPartition]:
        """Return what it reads now."""
        return self._core.assignment()

    def subscription(self) -> set[str]:
        """Return the topics it has subscribed to; of a pattern those that match."""
        return self._opened().subscription()

    # -- reading -------------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True) -> Records:
        """Return records by partition, as soon as there are some, or none after `timeout_ms`.

        Without `update_offsets` the positions stay, and the next poll brings the same records again. Raises KafkaError
        for what cannot be read; a rebalance's callbacks are called in here.
        """
        records = self._poll(timeout_ms, max_records)
        if not update_offsets:
            self._core.stay(records)
        return records

    def _poll(self, timeout_ms: float, max_records: int | None) -> Records:
        core = self._opened()
        limit = core.limit(max_records)
        end = time.monotonic() + arguments.duration(timeout_ms) / 1000
        while True:
            records = core.take_now(limit)
            if not records and timeout_ms <= 0 and core.reads and core.calm():
                return records
            if records or not self._run(core.until_ready((end - time.monotonic()) * 1000)):
                return records

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record; StopIteration after consumer_timeout_ms without one. Raises like `poll`.

        The position is behind the record handed out last, so that a commit says what is done.
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
        """Let the poll that waits, or the next one, return at once, with nothing. May be called from any thread."""
        self._core.wakeup()

    # -- positions -----------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on with the record at `offset` of an assigned partition."""
        self._opened().seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first record there is; without arguments in all assigned partitions."""
        self._opened().seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last record there is; without arguments in all assigned partitions."""
        self._opened().seek_to_end(*partitions)

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Go back to what the group has committed; without arguments in all assigned partitions."""
        self._opened().seek_to_committed(*partitions)

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record; waits until it is found. Raises ClientTimeout."""
        return self._run(self._opened().position(partition, timeout_ms))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return where the log of an assigned partition ended, as the last fetch said; None before there was one."""
        return self._opened().highwater(partition)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until `resume`; they stay assigned."""
        self._opened().pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        self._opened().resume(*partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused ones."""
        return self._opened().paused()

    # -- commits -------------------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[Any, Any] | None = None, timeout_ms: float | None = None) -> None:
        """Commit these offsets, or the positions of everything handed out. Raises as `aio.Consumer.commit`."""
        self._run(self._opened().commit(offsets, timeout_ms))

    def commit_async(self, offsets: Mapping[Any, Any] | None = None, callback: CommitCallback | None = None) -> None:
        """Commit without waiting; `callback(offsets, error)` is called inside a later poll, commit or close."""
        self._thread.call(partial(self._opened().commit_later, offsets, callback))

    def committed(self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None) -> Any:
        """Return the group's offset of a partition, with `metadata` as OffsetAndMetadata, None when it has none."""
        return self._run(self._opened().committed(partition, metadata, timeout_ms))

    def committed_offsets(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's offsets of these partitions; those without one are left out."""
        return self._run(self._opened().committed_offsets(*partitions, timeout_ms=timeout_ms))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who it is in its group, for `KafkaProducer.send_offsets_to_transaction`. Raises CommitFailed."""
        return self._opened().group_metadata()

    # -- questions -----------------------------------------------------------------------------------------------------

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offsets there are. Raises ClientTimeout."""
        return self._run(self._opened().beginning_offsets(partitions, timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offsets of the next records to come, as far as the isolation level lets read."""
        return self._run(self._opened().end_offsets(partitions, timeout_ms))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offsets at or after these times (milliseconds since 1970); None where there is none."""
        return self._run(self._opened().offsets_for_times(timestamps, timeout_ms))

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the numbers of a topic's partitions; None when there is no topic of that name."""
        return self._run(self._opened().partitions_for_topic(topic))

    def describe_partitions(self, topic: str) -> list[PartitionInfo]:
        """Return a topic's partitions with leaders and replicas; empty when there is no topic of that name."""
        return self._run(self._opened().describe_partitions(topic))

    def topics(self) -> set[str]:
        """Return all topics of the cluster but Kafka's own."""
        return self._run(self._opened().topics())

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until the cluster's brokers are known. Raises ClientTimeout. See `aio.Consumer.bootstrap`."""
        self._run(self._opened().bootstrap(timeout_ms, refresh))

    def bootstrap_connected(self) -> bool:
        """Tell whether a connection to some broker is open."""
        return self._opened().bootstrap_connected()

    def metrics(self, raw: bool = False) -> Any:
        """Return what is measured, by Kafka's names of groups and sensors. See `aio.Consumer.metrics`."""
        return self._opened().metrics(raw)
