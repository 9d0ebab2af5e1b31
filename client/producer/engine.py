"""Engine of the producer: carries out the sender's plans on an event loop, in the real world or a simulated one.

Application threads only append to the accumulator, under `lock`; everything else happens on the loop.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from odradek.client.cluster import Cluster
from odradek.client.errors import (
    BrokerUnreachable,
    ClientBroken,
    ClientClosed,
    UnsupportedByBroker,
)
from odradek.client.forks import SAID, watch
from odradek.client.metrics import Figures, merged
from odradek.client.producer.accumulator import Accumulator, AccumulatorLimits
from odradek.client.producer.batch import ProducerBatch
from odradek.client.producer.config import ProducerConfig
from odradek.client.producer.partitioners import Partitioner
from odradek.client.producer.produce_requests import (
    Compression,
    encode_all,
    local_failure,
    produce_request,
    read_answers,
    same_answer,
)
from odradek.client.producer.send_waits import SendWaits
from odradek.client.producer.sender import Answer, ProduceCall, Sender, SenderSettings
from odradek.client.producer.sequences import ProducerSequences
from odradek.client.producer.transaction import Transaction, TransactionalSequences
from odradek.client.producer.transaction_driver import TransactionDriver
from odradek.client.records import TopicPartition
from odradek.client.sensors import ProducerSensors
from odradek.client.waiting import WakeUp, sleep_ms
from odradek.protocol.compression import codec_number
from odradek.protocol.errors import RETRIABLE, ErrorCode, KafkaError, error_code
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import ProduceResponse
from odradek.world.memory import reuse_freed_memory
from odradek.world.tasks import OnDeath, Tasks

logger = logging.getLogger(__name__)

NO_TRANSACTION_TIMEOUT_MS = 2_147_483_647


class ProducerEngine:
    """Engine of one producer. It works from `start` to `stop`."""

    def __init__(self, cluster: Cluster, config: ProducerConfig, partitioner: Partitioner) -> None:
        self.cluster = cluster
        self.config = config
        self.lock = threading.Lock()
        self.waits = SendWaits(self)
        limits = AccumulatorLimits(config.batch_bytes, config.linger_ms, config.buffer_memory, config.max_request_size)
        self.accumulator = Accumulator(limits)
        self.sequences = ProducerSequences() if config.idempotent else None
        self.transactions: TransactionDriver | None = None
        if config.transactional_id is not None:
            transaction = Transaction(config.transactional_id)
            self.accumulator = Accumulator(limits, transaction.add)
            self.sequences = sequences = TransactionalSequences(transaction)
            self.transactions = TransactionDriver(cluster, config, transaction, sequences, self)
        self._sender = Sender(_sender_settings(config), self.accumulator, self.sequences, cluster.random)
        self._sensors = ProducerSensors(cluster.metrics)
        self._partitioner = partitioner
        self._compression = Compression(codec_number(config.compression_type), config.compression_level)
        self._woken = WakeUp(cluster.clock)
        self.tasks = Tasks(cluster.clock, lambda said: None)
        self.ended: ClientClosed | ClientBroken | None = None
        """Why nothing is sent any more: the producer is closed or broken. Set under the lock, read by any thread."""
        self._connecting: set[int] = set()
        self._identifying = False
        self._stopped = False
        cluster.allow_auto_create = True
        cluster.needs.expire_after_ms = config.metadata_max_idle_ms
        cluster.refreshed = self._metadata_refreshed
        watch(self)
        reuse_freed_memory()

    # -- the loop ------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Plan again soon, since something has changed. On the loop's thread."""
        self._woken.set()

    def start(self) -> None:
        """Start `run`, which ends with `stop`."""
        running = self.tasks.spawn(f"producer {self.config.client_id}", self.run, OnDeath.END)
        running.add_done_callback(self._ended)

    async def run(self) -> None:
        """Plan, carry out, wait; until `stop`. A fault in here fails all records that wait, and is raised."""
        try:
            while not self._stopped:
                self._woken.clear()
                await self._woken.wait_until(self._round())
        except Exception as fault:
            self.broke(fault)
            raise

    def _ended(self, running: "asyncio.Task[None]") -> None:
        """Fail all records that wait if `run` was cancelled, perhaps before its first line, as asyncio.run does at its
        end to all tasks that are left."""
        if running.cancelled() and not self._stopped:
            self.stop(ClientClosed(f"producer {self.config.client_id}: its tasks were cancelled, it sends no more"))

    def broke(self, fault: Exception) -> None:
        """Fail every record that waits, and each later call, after a fault that should not happen."""
        error = ClientBroken(f"producer {self.config.client_id} is broken: {type(fault).__name__}: {fault}")
        error.__cause__ = fault
        with self.lock:
            if self.ended is None:
                self.ended = error
            waiting = sorted(self.accumulator.unfinished, key=lambda batch: batch.order)
            undecided = [batch for batch in waiting if not batch.outcome.decided]
            for batch in undecided:
                batch.outcome.fail(error)
            self.accumulator.queues.clear()
        if self.transactions is not None:
            self.transactions.broke(error)
        self._deliver(undecided)
        self._stop()

    def check_open(self) -> None:
        """Raise ClientClosed or ClientBroken if the producer has ended."""
        ended = self.ended
        if ended is not None:
            raise type(ended)(*ended.args) from ended.__cause__

    def metrics(self) -> Figures:
        """Return those of Kafka's producer metrics that the producer counts, by group. From any thread."""
        nodes: Figures
        limit = self.accumulator.limits.buffer_memory_bytes
        buffer = {"buffer-available-bytes": limit - self.accumulator.used_bytes, "buffer-total-bytes": limit}
        nodes = {
            f"producer-node-metrics.node-{node_id}": {"requests-in-flight": self._sender.requests_in_flight(node_id)}
            for node_id in list(self.cluster.view.nodes)
        }
        counted: Figures = {"producer-metrics": {**buffer, **self._sender.metrics()}, **nodes}
        return merged([self.cluster.figures("producer-metrics"), counted])

    def stop(self, error: ClientClosed) -> None:
        """Fail everything that is not acknowledged with `error`, and end `run`."""
        with self.lock:
            if self.ended is None:
                self.ended = error
            decided = self._sender.give_up_all(error)
        self._deliver(decided)
        if self.transactions is not None:
            self.transactions.stop()
        self._stop()

    def forked(self) -> None:
        """Refuse every call from now on: this is a copy in a forked process, and nothing will ever be sent from it."""
        self.lock._at_fork_reinit()  # type: ignore[attr-defined]  # a thread that held it is not in this process
        self.ended = ClientClosed(f"producer {self.config.client_id}: {SAID}")
        for batch in self.accumulator.unfinished:
            batch.outcome.forked(self.ended)

    def _stop(self) -> None:
        self._stopped = True
        self.waits.memory_freed()
        self.tasks.close()
        self.wake()

    def _round(self) -> float:
        """Make one plan and begin to carry it out; return when to make the next, in ms of the monotonic clock."""
        now_ms = self.cluster.clock.monotonic_ms()
        with self.lock:
            plan = self._sender.plan(self.cluster.view, self.cluster.connected, now_ms)
            topics = {tp.topic for tp in self.accumulator.queues}
        self._deliver(plan.given_up)
        for topic in topics:
            self.cluster.needs.want(topic, now_ms)
        for call in plan.calls:
            for batch in call.batches:
                self.batch_closed(batch.topic_partition)
            self.spawn("produce", partial(self._carry_out, call))
        if plan.identity_wanted and not self._identifying:
            self._identifying = True
            self.spawn("identify", self._identify)
        unreached = self.cluster.down & self.cluster.view.nodes.keys()  # which records without keys avoid
        for node_id in sorted((plan.unconnected | unreached) - self._connecting):
            self._connecting.add(node_id)
            self.spawn("connect", partial(self._connect, node_id))
        if plan.leaderless:
            self.cluster.needs.stale()
        if self.transactions is not None:
            self.transactions.look()
        return min(plan.next_at_ms, self.cluster.refresh_when_due())

    def _metadata_refreshed(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, BrokerUnreachable):
            logger.error("producer %s: no metadata: %s", self.config.client_id, error)
        self.wake()

    def spawn(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        """Run a task until it ends or the engine stops; then make a new plan. A task that fails breaks the producer."""
        task = self.tasks.spawn(f"producer {self.config.client_id}: {name}", work, OnDeath.END, self.broke)
        task.add_done_callback(lambda _: self.wake())
        return task

    def batch_closed(self, topic_partition: TopicPartition) -> None:
        """Tell the partitioner that a batch is closed. What it raises is logged: it may be the application's own."""
        try:
            self._partitioner.batch_closed(*topic_partition)
        except Exception:
            logger.exception("partitioner %s failed in batch_closed", type(self._partitioner).__name__)

    # -- what a plan asks for ------------------------------------------------------------------------------------------

    async def _carry_out(self, call: ProduceCall) -> None:
        began_ms = self.cluster.clock.monotonic_ms()
        self._sensors.sent(call.batches, began_ms)
        answers = await self._produce(call)
        now_ms = self.cluster.clock.monotonic_ms()
        self._sensors.latency.record(now_ms - began_ms)
        with self.lock:
            settled = self._sender.answered(call, answers, now_ms)
        self._sensors.settled(settled.decided)
        if settled.stale:
            self.cluster.needs.stale()
        self._deliver(settled.decided)

    async def _produce(self, call: ProduceCall) -> dict[TopicPartition, Answer]:
        """Return what became of each batch, whatever goes wrong: a call that is never answered stays in flight."""
        config = self.config
        transactional = config.transactional_id is not None
        encoded, answers = encode_all(call.batches, self._compression, transactional=transactional)
        if not encoded:
            return answers
        try:
            request = produce_request(encoded, config.acks_number, config.request_timeout_ms, config.transactional_id)
            connection = await self.cluster.connection(call.node_id)
            if config.acks_number == 0:
                await connection.send_unanswered(request, config.request_timeout_ms)
                return same_answer(call, ErrorCode.NONE) | answers
            answer = await connection.request(request, ProduceResponse, config.request_timeout_ms)
            self._sensors.throttle.record(answer.throttle_time_ms)
            return read_answers(answer) | answers
        except BrokerUnreachable as error:
            return same_answer(call, ErrorCode.NETWORK_EXCEPTION, str(error)) | answers
        except UnsupportedByBroker as error:
            return same_answer(call, ErrorCode.UNSUPPORTED_VERSION, str(error)) | answers
        except Exception as fault:
            logger.exception("producer %s: a Produce to node %d failed", config.client_id, call.node_id)
            failed = {batch.topic_partition: local_failure(batch, fault, unsent=False) for batch in call.batches}
            return failed | answers

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
        """Ask any broker for a producer id (InitProducerId); an error that is not retriable fails all records."""
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
                    KafkaError(error, "the cluster gives no producer id; with enable.idempotence=false none is needed")
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
        self._deliver(decided)

    # -- what a transaction asks for -----------------------------------------------------------------------------------

    @property
    def unsettled(self) -> bool:
        """Tell whether a batch is undecided, or on the wire although it was given up."""
        return bool(self.accumulator.unfinished) or self._sender.waits_for_answers

    async def flush(self) -> None:
        """Send everything now, and return when all of it is delivered or has failed, and its callbacks were called."""
        with self.lock:
            waiting = list(self.accumulator.unfinished)
        self.hurry(1)
        try:
            for batch in waiting:
                await until_settled(batch)
        finally:
            self.hurry(-1)

    def hurry(self, more: int) -> None:
        """Send batches without linger.ms while at least one caller wants that: 1 to begin, -1 to end."""
        with self.lock:
            self.accumulator.flushing += more
        self.wake()

    def fail_queued(self, error: Exception) -> None:
        """Fail the batches that are not on the wire."""
        with self.lock:
            decided = self._sender.give_up_queued(error)
        self._deliver(decided)

    def _deliver(self, decided: Sequence[ProducerBatch]) -> None:
        """Call the callbacks of decided batches in the order of the records, and wake those who wait for them."""
        if decided:
            self.waits.memory_freed()
        if self.transactions is not None:
            self.transactions.decided(decided)
        for batch in decided:
            batch.outcome.call_all_back(batch.callbacks)
            batch.outcome.wake()


async def until_settled(batch: ProducerBatch) -> None:
    """Wait until a batch, or all that it was split into, is decided and its callbacks were called."""
    await batch.outcome.until_awake()
    for half in batch.halves or ():
        await until_settled(half)


def _sender_settings(config: ProducerConfig) -> SenderSettings:
    return SenderSettings(
        config.max_in_flight_requests_per_connection,
        config.max_request_size,
        config.retries,
        config.retry_backoff_ms,
        config.retry_backoff_max_ms,
        config.delivery_timeout_ms,
    )
