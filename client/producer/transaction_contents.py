"""Contents of an open transaction: adds partitions and offsets to it at the coordinators. On the producer's loop only.

The coordinator of a transactional id, or of a group, is looked up and asked until it has answered.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from odradek.client.calls import COORDINATOR_CONNECTION
from odradek.client.cluster import GROUP_COORDINATOR, TRANSACTION_COORDINATOR, Cluster
from odradek.client.connection import common_version
from odradek.client.errors import BrokerUnreachable, ClientError, UnsupportedByBroker
from odradek.client.producer.transaction import Transaction, TransactionalSequences
from odradek.client.producer.transaction_requests import (
    ADD_PARTITIONS_HIGHEST_VERSION,
    COORDINATOR_MOVED,
    FORGOTTEN,
    MEMBER_SINCE,
    Verdict,
    add_offsets_request,
    add_partitions_errors,
    add_partitions_request,
    failure,
    offset_commit_errors,
    offset_commit_request,
    verdict,
    worst,
)
from odradek.client.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.client.waiting import backoff_ms, sleep_ms
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.fields import Message
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse

Response = TypeVar("Response", bound=Message)
FIRST_PAUSE_MS = 20.0
"""Pause before the first repetition of a request. Writing the previous transaction's markers takes about as long."""


class Pointless(Exception):  # noqa: N818 - named after what has happened
    """Raised when the transaction has moved on, so that a request need not be repeated."""


class Coordinators:
    """Coordinators that one transactional producer needs, of its transactions and of groups, as last looked up."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._found: dict[tuple[int, str], int] = {}
        self.trouble: Exception | None = None
        """Error of the last attempt, which is why a call takes long; None if it succeeded."""

    async def ask(
        self,
        request: Message,
        response: type[Response],
        errors: Callable[[Response], ErrorCode],
        *,
        group_id: str | None = None,
        lowest_version: int = 0,
        wanted: Callable[[], bool] = lambda: True,
    ) -> tuple[ErrorCode, Response | None]:
        """Return the error and the answer of the transaction's coordinator, or of the group's.

        `errors` returns the error of an answer. After retriable errors (NOT_COORDINATOR, CONCURRENT_TRANSACTIONS, …)
        and broken connections the request is repeated, with a growing pause and without a limit. The error is
        UNSUPPORTED_VERSION if the broker has no version from `lowest_version` on, as older ones lack a field that is
        needed. `wanted` is called before each attempt; Pointless is raised when it returns False.
        """
        failures = 0
        while wanted():
            error, answer = await self._attempt(request, response, errors, group_id, lowest_version)
            if error is ErrorCode.NONE or verdict(error) is not Verdict.AGAIN:
                return error, answer
            failures += 1
            longest_ms = self._cluster.config.retry_backoff_max_ms
            await sleep_ms(self._cluster.clock, backoff_ms(FIRST_PAUSE_MS, longest_ms, failures, self._cluster.random))
        raise Pointless

    async def _attempt(
        self,
        request: Message,
        response: type[Response],
        errors: Callable[[Response], ErrorCode],
        group_id: str | None,
        lowest_version: int,
    ) -> tuple[ErrorCode, Response | None]:
        place = (TRANSACTION_COORDINATOR, self._transactional_id)
        if group_id is not None:
            place = (GROUP_COORDINATOR, group_id)
        highest_version = ADD_PARTITIONS_HIGHEST_VERSION if response is AddPartitionsToTxnResponse else None
        answer = None
        trouble: KafkaError | None = None
        try:
            connection = await self._cluster.connection(await self._find(place), COORDINATOR_CONNECTION)
            if common_version(type(request), connection.served, connection.address, highest_version) < lowest_version:
                return ErrorCode.UNSUPPORTED_VERSION, None
            timeout_ms = self._cluster.config.request_timeout_ms
            answer = await connection.request(request, response, timeout_ms, highest_version=highest_version)
            error = errors(answer)
        except BrokerUnreachable as unreachable:
            error, trouble = ErrorCode.NETWORK_EXCEPTION, unreachable
        except UnsupportedByBroker:
            error = ErrorCode.UNSUPPORTED_VERSION
        except ClientError:
            raise
        except KafkaError as refused:
            error, trouble = refused.code, refused
        if error is not ErrorCode.NONE and trouble is None:
            trouble = KafkaError(error, type(request).__name__.removesuffix("Request"))
        self.trouble = trouble
        if error in COORDINATOR_MOVED:
            self._found.pop(place, None)
        return error, answer

    async def _find(self, place: tuple[int, str]) -> int:
        if place not in self._found:
            kind, key = place
            self._found[place] = await self._cluster.find_coordinator(key, kind)
        return self._found[place]


class Batches(Protocol):
    """A producer's engine, as far as a transaction needs it."""

    lock: threading.Lock

    @property
    def unsettled(self) -> bool:
        """Tell whether a batch is undecided or on the wire."""

    def hurry(self, more: int) -> None:
        """Let no batch linger (1), or end that (-1)."""

    def fail_queued(self, error: Exception) -> None:
        """Fail the batches that are not on the wire."""

    def wake(self) -> None:
        """Begin another round, which ends with `look`."""

    def spawn(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        """Run `work` as a task; another round follows its end."""


class Failures:
    """What a coordinator's refusal means for the transaction."""

    def __init__(self, transaction: Transaction, batches: Batches) -> None:
        self._transaction = transaction
        self._batches = batches

    def refused(self, error: ErrorCode, what: str) -> None:
        """Note that a coordinator has refused a request of the transaction, or its commit."""
        if verdict(error) is Verdict.CLOSE:
            self.fatal(error, what)
            return
        with self._batches.lock:
            self._transaction.forgotten |= error in FORGOTTEN
            self._transaction.fail(failure(self._transaction.transactional_id, error, what))

    def fatal(self, error: ErrorCode, what: str) -> Exception:
        """Fail the producer for good; return the exception to raise."""
        reason = failure(self._transaction.transactional_id, error, what)
        with self._batches.lock:
            self._transaction.fail_for_good(reason)
        self._batches.wake()
        return reason


class Contents:
    """Partitions and offsets of one producer's transactions. The end of a transaction waits for what is `under_way`."""

    def __init__(
        self,
        transaction: Transaction,
        sequences: TransactionalSequences,
        coordinators: Coordinators,
        failures: Failures,
        batches: Batches,
    ) -> None:
        self._transaction = transaction
        self._sequences = sequences
        self._coordinators = coordinators
        self._failures = failures
        self._batches = batches
        self.under_way: set[asyncio.Task[None]] = set()
        self._naming: asyncio.Task[None] | None = None
        self._offsets_turn = asyncio.Lock()

    def name_partitions(self) -> None:
        """Add the partitions that the coordinator has not confirmed yet, if there are any, to the transaction."""
        if self._transaction.unnamed and (self._naming is None or self._naming.done()):
            self._naming = self._follow("name partitions", self._name_partitions)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> "asyncio.Task[None]":
        """Send a group's offsets, after all earlier ones. The task ends when they are committed to the transaction, or
        that has failed."""
        return self._follow("send offsets", lambda: self._send_offsets(offsets, group))

    def _follow(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        task = self._batches.spawn(name, work)
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)
        return task

    async def _name_partitions(self) -> None:
        transaction = self._transaction
        with self._batches.lock:
            partitions = frozenset(transaction.unnamed)
            transaction.asking()
        request = add_partitions_request(transaction.transactional_id, self._sequences.producer, partitions)
        names = ", ".join(sorted(map(str, partitions)))
        if await self._of_transaction(
            request,
            AddPartitionsToTxnResponse,
            lambda answer: worst(add_partitions_errors(answer).values()),
            f"adding {names} to the transaction",
        ):
            with self._batches.lock:
                transaction.named(partitions)

    async def _send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        transaction = self._transaction
        async with self._offsets_turn:
            if group.group_id not in transaction.groups and not await self._add_offsets(group.group_id):
                return
            request = offset_commit_request(transaction.transactional_id, self._sequences.producer, offsets, group)
            await self._of_transaction(
                request,
                TxnOffsetCommitResponse,
                lambda answer: worst(offset_commit_errors(answer).values()),
                f"group {group.group_id}: offsets not committed",
                group.group_id,
                MEMBER_SINCE if group.member_id else 0,
            )

    async def _add_offsets(self, group_id: str) -> bool:
        transaction = self._transaction
        with self._batches.lock:
            transaction.asking()
        added = await self._of_transaction(
            add_offsets_request(transaction.transactional_id, self._sequences.producer, group_id),
            AddOffsetsToTxnResponse,
            lambda answer: error_code(answer.error_code),
            f"adding group {group_id} to the transaction",
        )
        if added:
            with self._batches.lock:
                transaction.offsets_added(group_id)
        return added

    async def _of_transaction(
        self,
        request: Message,
        response: type[Response],
        errors: Callable[[Response], ErrorCode],
        what: str,
        group_id: str | None = None,
        lowest_version: int = 0,
    ) -> bool:
        """Send a request until it is answered or the transaction no longer goes on; tell whether it succeeded."""
        try:
            error, _ = await self._coordinators.ask(
                request,
                response,
                errors,
                group_id=group_id,
                lowest_version=lowest_version,
                wanted=lambda: self._transaction.writing,
            )
        except Pointless:
            return False
        if error is not ErrorCode.NONE:
            self._failures.refused(error, what)
        return error is ErrorCode.NONE
