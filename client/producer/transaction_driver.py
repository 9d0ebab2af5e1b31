"""Driver of a producer's transactions: asks coordinators, waits for batches. On the producer's loop only.

A request is repeated until it is answered or the transaction is over, even when its caller no longer waits. That is
safe: a coordinator knows a producer by its epoch, and remembers what it has answered. A caller that got ClientTimeout
does not know how its call ends. As with Kafka's own client, it must therefore call the same method again before any
other.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientClosed, ClientError, ClientTimeout, TransactionAborted
from odradek.client.producer.batch import ProducerBatch
from odradek.client.producer.config import ProducerConfig
from odradek.client.producer.transaction import ALLOWED, Call, State, Transaction, TransactionalSequences
from odradek.client.producer.transaction_contents import Batches, Contents, Coordinators, Failures
from odradek.client.producer.transaction_requests import (
    CURRENT_PRODUCER_SINCE,
    FATAL_FOR_BATCHES,
    FORGOTTEN,
    Producer,
    end_request,
)
from odradek.client.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.client.waiting import NEVER, WakeUp
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages.end_txn import EndTxnResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.world.tasks import Tasks

logger = logging.getLogger(__name__)

NO_PRODUCER: Producer = (-1, -1)


class PendingCall:
    """The one call of a producer whose outcome has not been told to any caller yet."""

    def __init__(self, transactional_id: str, tasks: Tasks, trouble: Callable[[], Exception | None]) -> None:
        """`trouble` returns the error of the last attempt, which is why a call takes long; None if there is none."""
        self._transactional_id, self._tasks, self._trouble = transactional_id, tasks, trouble
        self._pending: tuple[Call, asyncio.Task[None]] | None = None
        self._failure: Exception | None = None

    async def run(self, call: Call, begin: Callable[[], Coroutine[Any, Any, None]], timeout_ms: float) -> None:
        """Wait for the pending call if it is this one, else for the call that `begin` begins.

        Raises what `begin` and its coroutine raise; ClientTimeout, after which the call stays pending; ClientError when
        another call is pending.
        """
        task = self._same(call)
        if task is None:
            work = begin()
            task = self._tasks.result_of(self.named(call), lambda: work)
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # nobody may ask again
            self._pending = (call, task)
        await self.wait(call, task, timeout_ms)
        if self._pending == (call, task):  # else another task waited too, and has begun the next call since
            self._pending = None
        task.result()

    @property
    def call(self) -> Call | None:
        """Return the pending call, if there is one."""
        return None if self._pending is None else self._pending[0]

    def check(self, call: Call) -> None:
        """Raise ClientError when another call must be waited for first; one that has failed need not be."""
        self._same(call)

    def _same(self, call: Call) -> "asyncio.Task[None] | None":
        if self._pending is None:
            return None
        pending, task = self._pending
        if pending is call:
            return task
        if task.done() and (task.cancelled() or task.exception() is not None):
            return None
        raise ClientError(
            f"{self.named(call)}: {pending.value}() is still under way: call it again first, to wait for it"
        )

    async def wait(self, call: Call, task: "asyncio.Task[None]", timeout_ms: float) -> None:
        """Wait until a task has ended, whatever its outcome. Raises ClientTimeout, ClientClosed, or what `fail` got."""
        done, _ = await asyncio.wait({task}, timeout=timeout_ms / 1000)
        if not done:
            again, trouble = "it is still under way: call it again to wait for it", self._trouble()
            said = f"{self.named(call)}: not done within {timeout_ms / 1000:g} s; {again}"
            raise ClientTimeout(said if trouble is None else f"{said}; last: {trouble}")
        if task.cancelled():
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            raise ClientClosed(f"{self.named(call)}: the producer was closed meanwhile")

    def named(self, call: Call) -> str:
        """Return a call's name, for messages."""
        return f"transactional.id {self._transactional_id}: {call.value}()"

    async def settle(self, timeout_ms: float) -> None:
        """Wait for the call that is under way, if any, for at most `timeout_ms`."""
        if self._pending is not None and not self._pending[1].done():
            await asyncio.wait({self._pending[1]}, timeout=timeout_ms / 1000)

    def cancel(self) -> None:
        """Cancel the call under way: the producer is closed."""
        if self._pending is not None:
            self._pending[1].cancel()

    def fail(self, error: Exception) -> None:
        """End the call under way, because the producer is broken: whoever waits gets `error`."""
        self._failure = error
        self.cancel()


class TransactionDriver:
    """Driver of a producer's transactions. The engine calls `look` after every round and `decided` for every batch."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        transaction: Transaction,
        sequences: TransactionalSequences,
        batches: Batches,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._transaction = transaction
        self._sequences = sequences
        self._batches = batches
        self._coordinators = Coordinators(cluster, transaction.transactional_id)
        self._pending = PendingCall(transaction.transactional_id, cluster.tasks, lambda: self._coordinators.trouble)
        self._failures = Failures(transaction, batches)
        self._contents = Contents(transaction, sequences, self._coordinators, self._failures, batches)
        self._changed = WakeUp(cluster.clock)

    # -- calls of the application --------------------------------------------------------------------------------------

    async def initialise(self, timeout_ms: float) -> None:
        """Fence the previous producer with this id, and abort what it left open. Raises KafkaError, ClientTimeout."""
        await self._pending.run(Call.INIT, lambda: self._begun(Call.INIT, self._initialise), timeout_ms)

    def begin(self) -> None:
        """Begin a transaction. Raises as Transaction.check."""
        self._pending.check(Call.BEGIN)
        self._start(Call.BEGIN)

    async def begin_after_the_last(self, timeout_ms: float) -> None:
        """Begin a transaction after a commit or abort that nobody has waited for; a failed commit is aborted first.

        Raises as `commit`, `abort` and `begin`.
        """
        if self._pending.call is Call.COMMIT:
            try:
                await self.commit(timeout_ms)
            except ClientError as error:
                if not error.requires_abort:
                    raise
                await self.abort(timeout_ms)
        elif self._pending.call is Call.ABORT:
            await self.abort(timeout_ms)
        self.begin()

    def _start(self, call: Call) -> None:
        with self._batches.lock:
            self._transaction.start(call)

    def _begun(self, call: Call, work: Callable[[], Coroutine[Any, Any, None]]) -> Coroutine[Any, Any, None]:
        self._start(call)
        return work()

    async def commit(self, timeout_ms: float) -> None:
        """Flush, then commit. Raises AbortRequired, KafkaError, ClientTimeout."""
        await self._pending.run(Call.COMMIT, lambda: self._begun(Call.COMMIT, self._commit), timeout_ms)

    async def abort(self, timeout_ms: float) -> None:
        """Fail what is queued, wait for what is on the wire, then abort. Raises KafkaError, ClientTimeout."""
        await self._pending.run(Call.ABORT, lambda: self._begun(Call.ABORT, self._abort), timeout_ms)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata, timeout_ms: float
    ) -> None:
        """Send offsets that count when the transaction commits. Raises AbortRequired, KafkaError, ClientTimeout."""
        self._start(Call.SEND_OFFSETS)
        if not offsets:
            return
        task = self._contents.send_offsets(offsets, group)
        await self._pending.wait(Call.SEND_OFFSETS, task, timeout_ms)
        if not self._transaction.writing:
            self._transaction.check(Call.SEND_OFFSETS)

    async def close(self, timeout_ms: float) -> None:
        """Wait for the call under way, if any; then abort an open transaction. All of it takes at most `timeout_ms`."""
        end_ms = self._cluster.clock.monotonic_ms() + timeout_ms
        await self._pending.settle(timeout_ms)
        if self._transaction.state not in ALLOWED[Call.ABORT]:
            return
        try:
            await self.abort(max(0.0, end_ms - self._cluster.clock.monotonic_ms()))
        except (ClientError, KafkaError) as error:
            logger.warning("producer %s: closed with an open transaction: %s", self._config.client_id, error)

    def stop(self) -> None:
        """Send the coordinators no further requests: the producer is closed."""
        self._pending.cancel()

    def broke(self, error: Exception) -> None:
        """Fail the call under way, and each later call, with this error: the producer is broken."""
        with self._batches.lock:
            self._transaction.fail_for_good(error)
        self._pending.fail(error)
        self._changed.set()

    # -- what the engine tells -----------------------------------------------------------------------------------------

    def look(self) -> None:
        """Fail the queued batches of a failed transaction, or add new partitions to an open one. After each round."""
        transaction = self._transaction
        if transaction.state is State.ABORTING:
            self._batches.fail_queued(
                TransactionAborted(f"{self._pending.named(Call.ABORT)} was called before the record was sent")
            )
        elif transaction.state is State.ABORTABLE_ERROR:
            said = f"the record was not sent, as its transaction has failed: {transaction.error}"
            self._batches.fail_queued(TransactionAborted(said))
        elif transaction.state is State.FATAL_ERROR and transaction.error is not None:
            self._batches.fail_queued(transaction.error)
        elif transaction.writing:
            self._contents.name_partitions()
        self._changed.set()

    def decided(self, batches: Sequence[ProducerBatch]) -> None:
        """Fail the transaction if one of these batches has failed."""
        for batch in batches:
            error = batch.outcome.error
            if error is None:
                continue
            code = error.code if isinstance(error, KafkaError) else None
            with self._batches.lock:
                if code in FATAL_FOR_BATCHES:
                    self._transaction.fail_for_good(error)
                else:
                    self._transaction.forgotten |= code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
                    self._transaction.fail(error)

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, which is tested after every round. Raises the fatal error, if there is one."""
        self._batches.wake()
        while not condition():
            self._changed.clear()
            await self._changed.wait_until(NEVER)
        if self._transaction.state is State.FATAL_ERROR:
            assert self._transaction.error is not None
            raise self._transaction.error.with_traceback(None)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _commit(self) -> None:
        transaction = self._transaction
        self._batches.hurry(1)
        try:
            await self._until(
                lambda: not transaction.writing or not (self._batches.unsettled or self._contents.under_way)
            )
        finally:
            self._batches.hurry(-1)
        if transaction.state is State.ABORTABLE_ERROR:
            raise transaction.abort_required()
        if transaction.asked:
            error = await self._end(commit=True)
            if error is not ErrorCode.NONE:
                self._failures.refused(error, "commit")
                transaction.check(Call.COMMIT)
        self._ready()

    async def _abort(self) -> None:
        transaction = self._transaction
        await self._until(
            lambda: transaction.state is State.FATAL_ERROR or not (self._batches.unsettled or self._contents.under_way)
        )
        uncertain = transaction.forgotten or self._sequences.lost()
        if transaction.asked:
            error = await self._end(commit=False)
            nothing_there = error is ErrorCode.INVALID_TXN_STATE and not transaction.confirmed
            if error is not ErrorCode.NONE and error not in FORGOTTEN and not nothing_there:
                raise self._failures.fatal(error, "abort")
            uncertain |= error is not ErrorCode.NONE
        if uncertain:
            with self._batches.lock:
                transaction.raise_epoch()
            await self._identify(self._sequences.producer)
        self._ready()

    async def _end(self, *, commit: bool) -> ErrorCode:
        request = end_request(self._transaction.transactional_id, self._sequences.producer, commit=commit)
        error, _ = await self._coordinators.ask(request, EndTxnResponse, lambda answer: error_code(answer.error_code))
        return error

    def _ready(self) -> None:
        with self._batches.lock:
            self._transaction.ready()

    # -- who the producer is -------------------------------------------------------------------------------------------

    async def _initialise(self) -> None:
        await self._identify(NO_PRODUCER)
        self._ready()

    async def _identify(self, current: Producer) -> None:
        """Ask for an identity (InitProducerId): a new one, or a higher epoch of the current one (KIP-360)."""
        request = InitProducerIdRequest(
            transactional_id=self._transaction.transactional_id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=current[0],
            producer_epoch=current[1],
        )
        error, answer = await self._coordinators.ask(
            request,
            InitProducerIdResponse,
            lambda answer: error_code(answer.error_code),
            lowest_version=0 if current == NO_PRODUCER else CURRENT_PRODUCER_SINCE,
        )
        if answer is None or error is not ErrorCode.NONE:
            raise self._failures.fatal(
                error, f"no producer id, with transaction.timeout.ms={request.transaction_timeout_ms}"
            )
        with self._batches.lock:
            self._sequences.identify(answer.producer_id, answer.producer_epoch)
