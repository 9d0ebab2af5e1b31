"""KafkaProducer: the blocking form of the producer."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Self

from odradek.client.aio.producer import Producer
from odradek.client.blocking import Blocking
from odradek.client.config import defaults
from odradek.client.errors import BufferExhausted, ClientClosed, ClientError
from odradek.client.metadata import PartitionInfo
from odradek.client.producer.batch import Callback, RecordFuture
from odradek.client.producer.config import ProducerConfig
from odradek.client.producer.intake import Encoded
from odradek.client.producer.interceptors import ProducerRecord
from odradek.client.records import ConsumerGroupMetadata
from odradek.protocol.errors import KafkaError

__all__ = ["KafkaProducer", "ProducerRecord"]


class KafkaProducer(Blocking[Producer]):
    """Sends records. Thread-safe.

    `send` returns at once with a future; records of one partition are delivered in the order of their sends. Callbacks
    and interceptors are called on the producer's own thread, and must not block. Methods and settings are those of
    kafka-python's class of this name; `odradek.aio.Producer` says what each does and raises.
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = defaults(ProducerConfig)
    """Settings and their defaults."""
    DEPRECATED_CONFIGS: ClassVar[tuple[str, ...]] = ()
    """Settings that will go: none."""

    @classmethod
    def max_usable_produce_magic(cls, api_version: tuple[int, ...]) -> int:
        """Return the newest message format that brokers of a version of Kafka take: 0, 1 or 2."""
        return 2 if api_version >= (0, 11) else int(api_version >= (0, 10))

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        """Take settings: Kafka's producer configs, as a mapping with Kafka's names or as snake_case keywords.

        Raises ConfigError.
        """
        core = Producer(config, **settings)
        self.config = core.config
        self._begin(core, self.config.client_id)
        self._offer = core.intake.offer

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        callback: Callback | None = None,
    ) -> RecordFuture:
        """Queue a record and return a future, whose `result(timeout)` returns the RecordMetadata or raises the
        delivery's error.

        `timestamp_ms` counts from 1970 (None: now). `callback(metadata, error)` is called on the producer's thread.
        Blocks at most max.block.ms, for metadata and for memory. Raises as `aio.Producer.send`.
        """
        core = self._core
        if core.intercepts:
            record = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
            topic, value, key, headers, partition, timestamp_ms, callback = core.interceptors.on_send(record, callback)
        try:
            queued = self._offer(topic, value, key, headers, partition, timestamp_ms, callback)
            if isinstance(queued, RecordFuture):
                return queued
            left_ms: float = self.config.max_block_ms
            while queued is None:
                left_ms = self._run(core.until_known(topic, partition, left_ms))
                queued = self._offer(topic, value, key, headers, partition, timestamp_ms, callback)
            return queued if isinstance(queued, RecordFuture) else self._queued_later(queued, left_ms)
        except Exception as error:
            core.interceptors.on_acknowledgement(None, error)
            raise

    def _queued_later(self, record: Encoded, left_ms: float) -> RecordFuture:
        if self._thread.is_current:
            raise BufferExhausted(
                f"{record.place}: buffer.memory={self.config.buffer_memory} is full, a callback may not wait"
            )
        return self._core.wait_until_queued(record, left_ms)

    def flush(self, timeout: float | None = None) -> None:
        """Send all queued records now, without linger.ms, and wait until each is delivered or has failed.

        Raises ClientTimeout after `timeout` seconds (None: no limit); what is queued is sent all the same. Raises
        ClientError in a callback, which runs on the thread that would have to deliver the records.
        """
        if self._thread.is_current:
            raise ClientError("a callback may not flush: it would wait for itself")
        self._run(self._core.flush(timeout))

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        """Deliver what is queued, then close; records left after `timeout` seconds (None: no limit) fail.

        An open transaction is aborted. With `null_logger` no warning is logged about undelivered records. In a
        callback it closes at once. Calling it again waits for the end of the first call, at most `timeout` seconds.
        """
        if self._thread.is_current:  # in a callback, which may not wait
            self._core.stop()
            self._end()
        elif self._closed and self._thread.running:  # another thread is closing it: wait for that one
            with suppress(ClientClosed):
                self._run(self._core.close(timeout, null_logger))
        self._finish(lambda: self._core.close(timeout, null_logger))

    def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions; blocks at most max.block.ms."""
        return self._run(self._core.partitions_for(topic))

    def describe_partitions(self, topic: str) -> list[PartitionInfo]:
        """Return a topic's partitions with leaders and replicas; blocks at most max.block.ms."""
        return self._run(self._core.describe_partitions(topic))

    def bootstrap_connected(self) -> bool:
        """Tell whether a connection to some broker is open."""
        return self._core.bootstrap_connected()

    def metrics(self, raw: bool = False) -> Any:
        """Return the metrics under Kafka's names: group → name → value. See `aio.Producer.metrics`."""
        return self._core.metrics(raw)

    # -- transactions --------------------------------------------------------------------------------------------------

    def init_transactions(self, timeout: float | None = None) -> None:
        """Fence every other producer with this transactional.id. Call this first, once. See
        `aio.Producer.init_transactions`."""
        self._run(self._core.init_transactions(timeout))

    def begin_transaction(self) -> None:
        """Begin a transaction: each `send` before its end belongs to it. Brokers learn of it with the first record."""
        self._run(self._core.begin_transaction())

    def send_offsets_to_transaction(
        self, offsets: Mapping[Any, Any], group_metadata: ConsumerGroupMetadata, timeout: float | None = None
    ) -> None:
        """Commit a group's offsets with the transaction. See `aio.Producer.send_offsets_to_transaction`."""
        self._run(self._core.send_offsets_to_transaction(offsets, group_metadata, timeout))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver all records of the transaction, then commit it. See `aio.Producer.commit_transaction`."""
        self._run(self._core.commit_transaction(timeout))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: none of its records reaches read_committed consumers. Queued ones fail with
        TransactionAborted."""
        self._run(self._core.abort_transaction(timeout))

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin a transaction for a `with` block; commit it at the end, or abort it when the block raises.

        If the previous block ended with ClientTimeout, this first waits for its commit or abort. See
        `aio.Producer.transaction`.
        """
        self._run(self._core.begin_block())
        try:
            yield self
        except Exception:
            self.abort_transaction()
            raise
        except BaseException:  # Ctrl-C, say: it is raised even if the abort fails
            with suppress(KafkaError):
                self.abort_transaction()
            raise
        try:
            self.commit_transaction()
        except ClientError as error:
            if error.requires_abort:
                self.abort_transaction()
            raise
