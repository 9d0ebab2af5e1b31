"""What a transactional KafkaProducer offers beside `send`."""

from collections.abc import Mapping

from odradek.client.errors import ClientClosed, ClientError
from odradek.client.producer.config import ProducerConfig
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.transaction_driver import TransactionDriver
from odradek.client.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.client.runtime import Runtime


class TransactionMethods:
    """Blocking; each waits at most `timeout` seconds (None: max.block.ms), then ClientTimeout is raised.

    What was not waited for long enough goes on: the same method, called again, waits for it. All need transactional.id;
    without it, and in the wrong order, they raise ClientError. When the producer has been fenced (PRODUCER_FENCED) or
    may not use its id, each of them and `send` raise that KafkaError from then on: close it.
    """

    config: ProducerConfig
    _engine: ProducerEngine
    _runtime: Runtime
    _closed: bool

    def init_transactions(self, timeout: float | None = None) -> None:
        """Once, before all else: fence every other producer of this id, and abort what it left open.

        Raises ClientTimeout; KafkaError (INVALID_TRANSACTION_TIMEOUT, TRANSACTIONAL_ID_AUTHORIZATION_FAILED …).
        """
        driver = self._transactions("init_transactions")
        self._runtime.run(lambda: driver.initialise(self._patience_ms(timeout)))

    def begin_transaction(self) -> None:
        """From here on every `send` belongs to the transaction. The brokers hear of it with the first record."""
        self._runtime.thread.call(self._transactions("begin_transaction").begin)

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Commit these offsets of a consumer's group with the transaction, or not at all (KIP-447).

        Each is the offset of the next record to read; `group_metadata` is `consumer.group_metadata()`, and the consumer
        has enable.auto.commit=false. Raises AbortRequired, also when the member's generation is over; ClientTimeout.
        """
        driver = self._transactions("send_offsets_to_transaction")
        wanted = {
            TopicPartition(*place): OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for place, offset in offsets.items()
        }
        self._runtime.run(lambda: driver.send_offsets(wanted, group_metadata, self._patience_ms(timeout)))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver everything that was sent, then commit: it is in the log of its coordinator when this returns.

        Raises AbortRequired when a record failed: then nothing is committed, and `abort_transaction()` is to be called.
        After ClientTimeout the transaction may be committed or not: call this again to know.
        """
        driver = self._transactions("commit_transaction")
        self._runtime.run(lambda: driver.commit(self._patience_ms(timeout)))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Give up everything that was sent in the transaction: records still queued fail with TransactionAborted."""
        driver = self._transactions("abort_transaction")
        self._runtime.run(lambda: driver.abort(self._patience_ms(timeout)))

    def _transactions(self, method: str) -> TransactionDriver:
        if self._closed:
            raise ClientClosed("the producer is closed")
        if self._engine.transactions is None:
            raise ClientError(f"{method}() needs transactional.id, which this producer was made without")
        return self._engine.transactions

    def _patience_ms(self, timeout: float | None) -> float:
        return self.config.max_block_ms if timeout is None else timeout * 1000

    def _end_open_transaction(self, timeout: float | None) -> None:
        """For `close`, once everything is delivered: what nobody has committed is aborted, as Kafka's client does."""
        driver = self._engine.transactions
        if driver is not None:
            self._runtime.run(lambda: driver.close(self._patience_ms(timeout)))
