"""Exactly once: a task's part and the driver's, as coroutines. `epochs` explains the plan, and what follows if anything
dies in the midst of it.

Nothing is kept in memory between two calls, as Spark may make each in another process.
"""

from collections.abc import Iterable
from contextlib import suppress

from odradek.client.aio.producer import Producer
from odradek.client.calls import side_by_side
from odradek.client.errors import ClientError, ClientTimeout
from odradek.client.producer.transaction_contents import Coordinators, Pointless
from odradek.client.producer.transaction_requests import end_request
from odradek.client.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.client.spark.epochs import (
    DECISION_TIMEOUT_MS,
    Decision,
    Epoch,
    Mark,
    NotRepeatable,
    ProducerIdentity,
    TaskResult,
    decided,
    decision_of,
    decision_offset,
    mark_of,
    mark_offset,
    not_repeatable,
)
from odradek.client.spark.rows import MASK_64, Records
from odradek.client.spark.sink_session import PATIENCE, RecordWriter, SinkSession
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages.end_txn import EndTxnResponse

GIVE_UP_SECONDS = 5.0
"""Longest time that a failed task tries to abort what it wrote. If that fails, the next attempt does it."""
LOST = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Errors which mean that the transaction was ended by another producer, or by its timeout."""


class EpochTask:
    """A task's part in one epoch: `begin`, `write` for all rows, then `finish`, or `give_up` after a failure."""

    def __init__(self, session: SinkSession, epoch: Epoch, task: int) -> None:
        self._session, self._epoch, self._task = session, epoch, task
        self._id = epoch.task_id(task)
        self._producer: Producer | None = None
        self._writer: RecordWriter | None = None
        self._began_ms = 0
        self._topic = ""
        self._instead: ProducerIdentity | None = None
        self._committed: Mark | None = None
        """Mark of an earlier commit of this task's part, if there was one: nothing is written then."""
        self._records = self._digest = 0

    async def begin(self) -> None:
        """Find out whether the epoch was decided before; if so, have this task's part committed."""
        epoch, decision = self._epoch, await read_decision(self._session, self._epoch.name)
        if decision.number > epoch.number:
            self._committed = Mark(decision.number)
        elif decision.number == epoch.number:
            await self._complete(decision)

    async def _complete(self, decision: Decision) -> None:
        noted = decision.open
        if noted is not None and self._task not in noted:
            self._committed = Mark(self._epoch.number)  # this task had no rows when the epoch was decided
        elif noted is not None and await end(self._session, self._id, noted[self._task], commit=True):
            self._committed = await self._mark()
        else:
            self._instead = noted[self._task] if noted is not None else None
            await self._open()

    async def _mark(self) -> Mark:
        return mark_of(await self._session.offsets(self._id))

    async def _open(self) -> None:
        """Fence earlier attempts and abort what they left; begin, unless the task's part turns out to be committed."""
        producer = await self._session.transactional(self._id)
        try:
            await producer.init_transactions()
            mark = await self._mark()
            if mark.number >= self._epoch.number:
                self._committed = mark
                producer.stop()
                return
            await producer.begin_transaction()
        except BaseException:
            producer.stop()
            raise
        self._producer, self._writer = producer, RecordWriter(producer)
        self._began_ms = self._session.cluster.clock.now_ms()

    async def write(self, records: Records) -> None:
        """Write some rows. If this task's part was committed before, only count and digest them, to compare."""
        self._records += len(records)
        self._digest = (self._digest + records.digest()) & MASK_64
        if self._committed is None and self._writer is None:
            await self._open()
        if self._committed is None:
            assert self._writer is not None
            self._topic = records.topic
            await self._writer.write(records)

    async def finish(self) -> TaskResult:
        """Deliver everything, and leave the transaction open for the driver. Raises the failure of a record."""
        result = TaskResult(self._epoch, self._task, self._records)
        if self._committed is not None:
            mark = self._committed
            unknown = mark.number > self._epoch.number
            same = unknown or (mark.records, mark.digest) == (self._records, self._digest)
            return result._replace(records=0, same=same)
        if self._producer is None or self._writer is None or not self._records:
            await self.give_up()
            return result
        await self._writer.flush()
        mark = Mark(self._epoch.number, self._records, self._digest)
        place, group = TopicPartition(self._topic, 0), ConsumerGroupMetadata(self._id)
        await self._producer.send_offsets_to_transaction({place: mark_offset(mark)}, group)
        identity = ProducerIdentity(*self._producer.identity)
        self._producer.stop()
        return result._replace(producer=identity, topic=self._topic, instead=self._instead, began_ms=self._began_ms)

    async def give_up(self) -> None:
        """Abort what was written, if anything was."""
        if self._producer is not None:
            await self._producer.close(GIVE_UP_SECONDS)


async def commit_epoch(session: SinkSession, epoch: Epoch, results: list[TaskResult], *, strict: bool) -> None:
    """Decide, then commit: the driver's part when all tasks have finished.

    When it raises, nothing is decided, or repeating the epoch will complete it. `strict`: if the write was made before,
    its rows must have been the same. Raises NotRepeatable, Superseded, ClientError for an epoch that took too long,
    KafkaError.
    """
    written = {one.task: one.producer for one in results if one.producer is not None}
    _check_in_time(session, epoch, results)
    if strict and not all(one.same is not False for one in results):
        raise NotRepeatable(
            f"{epoch.name}: epoch {epoch.number} was written before, with other rows. Give each write a "
            "transactionalId or an epoch of its own; with failOnDataLoss=false these rows are left out"
        )
    if not written and all(one.same is None for one in results):
        return
    if not written:
        decision: Decision | None = await read_decision(session, epoch.name)
    else:
        decision = await _decide(session, epoch, results)
    if decision is None or decision.number != epoch.number or decision.open is None:
        identities = {task: one for task, one in written.items() if one is not None}
    else:
        done = {one.task for one in results if one.same is not None}
        identities = {task: one for task, one in decision.open.items() if task not in done}
    lost = await _end_all(session, epoch, identities)
    gone = [task for task in lost if task not in {one.task for one in results}]
    if gone:
        raise not_repeatable(epoch, lost, f"there are no tasks {gone} any more")
    if lost:
        raise ClientError(
            f"{epoch.name}: epoch {epoch.number} is decided, but the transactions of tasks {lost} were aborted "
            "meanwhile (by their timeout, or by another attempt of the task): start the query again to repeat them"
        )


def _check_in_time(session: SinkSession, epoch: Epoch, results: Iterable[TaskResult]) -> None:
    limit_ms, now_ms = session.config.transaction_timeout_ms, session.cluster.clock.now_ms()
    late = [one.task for one in results if one.producer is not None and now_ms - one.began_ms >= limit_ms]
    if late:
        raise ClientError(
            f"{epoch.name}: epoch {epoch.number} took longer than kafka.transaction.timeout.ms={limit_ms}: what tasks "
            f"{late} have written is lost. Raise it (and the brokers' transaction.max.timeout.ms), or make the epochs "
            "smaller; nothing was committed",
            setting="transaction.timeout.ms",
        )


async def _decide(session: SinkSession, epoch: Epoch, results: list[TaskResult]) -> Decision | None:
    """Commit the decision in a transaction, whose producer fences every other driver of the query."""
    topic = next(one.topic for one in results if one.producer is not None)
    producer = await session.transactional(epoch.name, transaction_timeout_ms=DECISION_TIMEOUT_MS)
    try:
        await producer.init_transactions()
        decision = decided(epoch, await read_decision(session, epoch.name), results)
        assert decision is not None, results
        async with producer.transaction():
            offset: OffsetAndMetadata = decision_offset(decision)
            await producer.send_offsets_to_transaction(
                {TopicPartition(topic, 0): offset}, ConsumerGroupMetadata(epoch.name)
            )
        return decision
    finally:
        producer.stop()


async def abort_epoch(session: SinkSession, results: list[TaskResult]) -> None:
    """Abort what is not decided: the driver's part when a task or the commit has failed."""
    written = [one for one in results if one.producer is not None]
    if not written:
        return
    epoch = written[0].epoch
    producer = await session.transactional(epoch.name, transaction_timeout_ms=DECISION_TIMEOUT_MS)
    try:
        await producer.init_transactions()  # from here on, a decision that was under way is either made or aborted
        decision = await read_decision(session, epoch.name)
    finally:
        producer.stop()
    open_ = decision.open or {} if decision.number == epoch.number else {}
    if decision.number == epoch.number and decision.open is None:
        return
    left = [one for one in written if open_.get(one.task) != one.producer]
    ends = [end(session, epoch.task_id(one.task), one.producer, commit=False) for one in left if one.producer]
    await side_by_side(ends)


async def read_decision(session: SinkSession, name: str) -> Decision:
    """Return the newest decision about a query, after the end of one that is under way."""
    return decision_of(await session.offsets(name))


async def _end_all(session: SinkSession, epoch: Epoch, producers: dict[int, ProducerIdentity]) -> list[int]:
    """Commit transactions of tasks; return those whose transactions were aborted before."""
    ends = [end(session, epoch.task_id(task), one, commit=True) for task, one in producers.items()]
    committed = await side_by_side(ends)
    lost = []
    for task, well in zip(producers, committed, strict=True):
        if not well and mark_of(await session.offsets(epoch.task_id(task))).number < epoch.number:
            lost.append(task)
    return lost


async def end(session: SinkSession, transactional_id: str, producer: ProducerIdentity, *, commit: bool) -> bool:
    """Commit or abort a transaction that another process has left open; return False if it was ended otherwise.

    A commit is requested twice: the first answer says that it is decided, the second that readers see it.
    Raises ClientTimeout after max.block.ms, KafkaError.
    """

    def error_of(answer: EndTxnResponse) -> ErrorCode:
        return error_code(answer.error_code)

    what = f"{'committing' if commit else 'aborting'} the transaction of {transactional_id}"
    deadline = session.deadline(what)
    coordinators = Coordinators(session.cluster, transactional_id)
    request = end_request(transactional_id, producer, commit=commit)

    async def ask() -> ErrorCode:
        return (await coordinators.ask(request, EndTxnResponse, error_of, wanted=lambda: deadline.left_ms() > 0))[0]

    try:
        error = await ask()
    except Pointless:
        raise ClientTimeout(f"{what}: no coordinator within {PATIENCE}={session.config.max_block_ms}") from None
    if error is ErrorCode.NONE:
        if commit:
            with suppress(Pointless):  # repeats upon CONCURRENT_TRANSACTIONS, until the markers are written
                await ask()
        return True
    if error in LOST:
        return False
    raise KafkaError(error, f"transactional.id {transactional_id}")
