"""The producer on a loop: carries out the sender's plans. Runs on the real world and in a simulated one alike.

Application threads only ever append to the accumulator, under `lock`; everything else happens on the loop.
"""

import asyncio
import logging
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerUnreachable, ClientError, ClientTimeout, UnsupportedByBroker
from odradek.client.producer.accumulator import Accumulator, AccumulatorLimits
from odradek.client.producer.batch import ProducerBatch
from odradek.client.producer.config import ProducerConfig
from odradek.client.producer.partitioners import Partitioner
from odradek.client.producer.produce_requests import produce_request, read_answers, same_answer
from odradek.client.producer.sender import Answer, ProduceCall, Sender, SenderSettings
from odradek.client.producer.sequences import ProducerSequences
from odradek.client.producer.transaction import Transaction
from odradek.client.producer.transaction_driver import TransactionDriver
from odradek.client.producer.transaction_queues import TransactionalAccumulator, TransactionalSequences
from odradek.client.records import TopicPartition
from odradek.client.wakeup import WakeUp, sleep_ms
from odradek.protocol import compression
from odradek.protocol.errors import RETRIABLE, ErrorCode, KafkaError, error_code
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import ProduceResponse

logger = logging.getLogger(__name__)

NO_TRANSACTION_TIMEOUT_MS = 2_147_483_647
FATAL_TOPIC_ERRORS = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


class ProducerEngine:
    """One producer's sender. `run` until `stop`."""

    def __init__(self, cluster: Cluster, config: ProducerConfig, partitioner: Partitioner) -> None:
        self.cluster = cluster
        self.config = config
        self.lock = threading.Lock()
        self.memory_freed = threading.Condition(self.lock)
        limits = AccumulatorLimits(config.batch_size, config.linger_ms, config.buffer_memory, config.max_request_size)
        self.accumulator = Accumulator(limits)
        self.sequences = ProducerSequences() if config.idempotent else None
        self.transactions: TransactionDriver | None = None
        if config.transactional_id is not None:
            transaction = Transaction(config.transactional_id)
            self.accumulator = TransactionalAccumulator(limits, transaction)
            self.sequences = sequences = TransactionalSequences(transaction)
            self.transactions = TransactionDriver(cluster, config, transaction, sequences, self)
        self._sender = Sender(_sender_settings(config), self.accumulator, self.sequences, cluster.random)
        self._partitioner = partitioner
        self._codec = compression.codec_number(config.compression_type)
        self._woken = WakeUp(cluster.clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._connecting: set[int] = set()
        self._identifying = False
        self._stopped = False
        cluster.allow_auto_create = True
        cluster.needs.expire_topics = True
        cluster.refreshed = self._metadata_refreshed

    # -- the loop ------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something has changed: plan again soon. On the loop's thread."""
        self._woken.set()

    def start(self) -> None:
        """Run until `stop`; a mistake that ends it before is logged."""
        self.spawn(self.run())

    async def run(self) -> None:
        """Plan, carry out, wait; until `stop`."""
        while not self._stopped:
            self._woken.clear()
            await self._woken.wait_until(self._round())

    def requests_in_flight(self, node_id: int) -> int:
        """Produce requests to a broker that are not answered yet. From any thread: one look at one number."""
        return self._sender.requests_in_flight(node_id)

    def stop(self, error: Exception) -> None:
        """Everything that is not acknowledged fails with `error`; `run` ends."""
        self._stopped = True
        with self.lock:
            decided = self._sender.give_up_all(error)
            self.memory_freed.notify_all()
        self._tell(decided)
        if self.transactions is not None:
            self.transactions.stop()
        for task in self._tasks:
            task.cancel()
        self.wake()

    def _round(self) -> float:
        """One plan; the time for the next."""
        now_ms = self.cluster.clock.monotonic_ms()
        with self.lock:
            plan = self._sender.plan(self.cluster.view, self.cluster.connected, now_ms)
            topics = {tp.topic for tp in self.accumulator.queues}
            if plan.given_up:
                self.memory_freed.notify_all()
        self._tell(plan.given_up)
        for topic in topics:
            self.cluster.needs.want(topic, now_ms)
        for call in plan.calls:
            self._tell_partitioner(call)
            self.spawn(self._carry_out(call))
        if plan.identity_wanted and not self._identifying:
            self._identifying = True
            self.spawn(self._identify())
        for node_id in plan.unconnected - self._connecting:
            self._connecting.add(node_id)
            self.spawn(self._connect(node_id))
        if plan.leaderless:
            self.cluster.needs.stale()
        if self.transactions is not None:
            self.transactions.look()
        return min(plan.next_at_ms, self.cluster.refresh_when_due())

    def _metadata_refreshed(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, BrokerUnreachable):
            logger.error("producer %s: no metadata: %s", self.config.client_id, error)
        self.wake()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Until it ends or the engine stops; what it raises is logged, and there is another round after it."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("producer %s: a task failed", self.config.client_id, exc_info=task.exception())
        self.wake()

    def _tell_partitioner(self, call: ProduceCall) -> None:
        """It may be the application's own: what that raises is no reason to send nothing more."""
        for batch in call.batches:
            try:
                self._partitioner.batch_closed(*batch.topic_partition)
            except Exception:
                logger.exception("partitioner %s failed in batch_closed", type(self._partitioner).__name__)

    # -- what a plan asks for ------------------------------------------------------------------------------------------

    async def _carry_out(self, call: ProduceCall) -> None:
        answers = await self._produce(call)
        now_ms = self.cluster.clock.monotonic_ms()
        with self.lock:
            settled = self._sender.answered(call, answers, now_ms)
            self.memory_freed.notify_all()
        if settled.stale:
            self.cluster.needs.stale()
        self._tell(settled.decided)

    async def _produce(self, call: ProduceCall) -> dict[TopicPartition, Answer]:
        config = self.config
        request = produce_request(
            call.batches, config.acks_number, config.request_timeout_ms, self._codec, config.transactional_id
        )
        try:
            connection = await self.cluster.connection(call.node_id)
            if self.config.acks_number == 0:
                connection.tell(request)
                return same_answer(call, ErrorCode.NONE)
            return read_answers(await connection.request(request, ProduceResponse, self.config.request_timeout_ms))
        except BrokerUnreachable as error:
            return same_answer(call, ErrorCode.NETWORK_EXCEPTION, str(error))
        except UnsupportedByBroker as error:
            return same_answer(call, ErrorCode.UNSUPPORTED_VERSION, str(error))

    async def _connect(self, node_id: int) -> None:
        try:
            await self.cluster.connection(node_id)
        except BrokerUnreachable as error:
            logger.debug("%s", error)
            self.cluster.needs.stale()
            await sleep_ms(self.cluster.clock, max(1.0, self.cluster.ready_in_ms(node_id)))
        finally:
            self._connecting.discard(node_id)

    async def _identify(self) -> None:
        """InitProducerId, from any broker; what cannot be mended fails everything that waits."""
        assert self.sequences is not None
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT_MS)
        try:
            answer = await self.cluster.request_any(request, InitProducerIdResponse)
            error = error_code(answer.error_code)
            if error == ErrorCode.NONE:
                with self.lock:
                    self.sequences.identify(answer.producer_id, answer.producer_epoch)
            elif error in RETRIABLE:
                await sleep_ms(self.cluster.clock, self.config.retry_backoff_ms)
            else:
                self._fail_all(
                    KafkaError(error, "the cluster gives no producer id; enable.idempotence=false does without")
                )
        except UnsupportedByBroker as error_:
            self._fail_all(error_)
        except BrokerUnreachable:
            await sleep_ms(self.cluster.clock, self.config.retry_backoff_ms)
        finally:
            self._identifying = False

    def _fail_all(self, error: Exception) -> None:
        with self.lock:
            decided = self._sender.give_up_all(error)
            self.memory_freed.notify_all()
        self._tell(decided)

    # -- what a transaction asks for -----------------------------------------------------------------------------------

    @property
    def unsettled(self) -> bool:
        """Whether a batch is undecided, or on the wire although it was given up."""
        return bool(self.accumulator.unfinished) or self._sender.waits_for_answers

    def hurry(self, more: int) -> None:
        """Batches do not linger: from now on (1), or no longer for this reason (-1)."""
        with self.lock:
            self.accumulator.flushing += more
        self.wake()

    def fail_queued(self, error: Exception) -> None:
        """What is not on the wire fails."""
        with self.lock:
            decided = self._sender.give_up_queued(error)
            self.memory_freed.notify_all()
        self._tell(decided)

    def _tell(self, decided: Sequence[ProducerBatch]) -> None:
        """Callbacks in the order of the records, then those who wait."""
        if self.transactions is not None:
            self.transactions.decided(decided)
        for batch in decided:
            for index, callback in batch.callbacks:
                try:
                    batch.outcome.tell(index, callback)
                except Exception:
                    logger.exception("%s: a delivery callback failed", batch.topic_partition)
            batch.outcome.wake()

    # -- metadata for send ---------------------------------------------------------------------------------------------

    async def await_topic(self, topic: str, partition: int | None, max_wait_ms: float) -> None:
        """Until a topic (and one partition of it) is known. Raises ClientTimeout, KafkaError."""
        deadline_ms = self.cluster.clock.monotonic_ms() + max_wait_ms
        while True:
            self.cluster.needs.want(topic, self.cluster.clock.monotonic_ms())
            failure = await self._refresh_for_send()
            info = self.cluster.view.topics.get(topic)
            if info is not None and info.error in FATAL_TOPIC_ERRORS:
                raise KafkaError(info.error, f"topic {topic}")
            count = self.cluster.view.partition_count(topic)
            if count and (partition is None or partition < count):
                return
            left_ms = deadline_ms - self.cluster.clock.monotonic_ms()
            if left_ms <= 0:
                raise ClientTimeout(_unknown(topic, partition, count, max_wait_ms, failure))
            await sleep_ms(self.cluster.clock, min(left_ms, self.config.retry_backoff_ms))

    async def _refresh_for_send(self) -> ClientError | None:
        try:
            await self.cluster.refresh()
        except BrokerUnreachable as error:
            return error
        return None


def _sender_settings(config: ProducerConfig) -> SenderSettings:
    return SenderSettings(
        config.max_in_flight_requests_per_connection,
        config.max_request_size,
        config.retries,
        config.retry_backoff_ms,
        config.retry_backoff_max_ms,
        config.delivery_timeout_ms,
    )


def _unknown(topic: str, partition: int | None, count: int, waited_ms: float, failure: Exception | None) -> str:
    waited = f"after waiting max.block.ms={waited_ms:g}"
    if failure is not None:
        return f"topic {topic}: no metadata {waited}: {failure}"
    if not count:
        return f"topic {topic}: the cluster does not have it, {waited}: create it, or check its name"
    return f"partition {partition} of topic {topic}: the topic has only {count} partitions (0-{count - 1}), {waited}"
