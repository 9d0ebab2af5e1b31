"""Sender of the producer: decides what to send now, and what an answer means.

Does no I/O: the engine calls `plan`, carries out the plan, and reports to `answered`.

The order of a partition's batches is kept: a request carries at most one batch of a partition, and a refused batch goes
back in front of later ones. With idempotence the sequences decide (see sequences.py). Without it the order holds only
with max.in.flight.requests.per.connection=1: a partition with a batch on the wire is then left alone.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from odradek.client.errors import BatchRefused, ClientTimeout, in_words
from odradek.client.metadata import ClusterView
from odradek.client.producer.accumulator import Accumulator
from odradek.client.producer.batch import ProducerBatch
from odradek.client.producer.sequences import ProducerSequences
from odradek.client.records import TopicPartition
from odradek.client.waiting import backoff_ms
from odradek.protocol.errors import RETRIABLE, ErrorCode, KafkaError

STALE_VIEW = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors that say that the view of the cluster is out of date."""
TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
"""Errors of a batch larger than its topic's max.message.bytes, or its segment.bytes: parts of it may go through."""


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """Settings of the producer that the sender obeys."""

    max_in_flight: int
    max_request_size_bytes: int
    retries: int
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    delivery_timeout_ms: float


@dataclass(slots=True)
class ProduceCall:
    """A request to send: at most one batch of each partition."""

    node_id: int
    batches: list[ProducerBatch]


@dataclass(slots=True)
class Plan:
    """What to do now, in this order: tell the application of batches `given_up`, send the `calls`, then the rest."""

    given_up: list[ProducerBatch] = field(default_factory=list)
    calls: list[ProduceCall] = field(default_factory=list)
    identity_wanted: bool = False
    """True if a producer id is needed: ask for one, then plan again."""
    unconnected: set[int] = field(default_factory=set)
    """Leaders for which batches are due and to which no connection is open: connect, then plan again."""
    leaderless: set[str] = field(default_factory=set)
    """Topics with a batch that is due for a partition without a known leader: refresh the metadata."""
    next_at_ms: float = float("inf")
    """Time to plan again if nothing else happens, in ms of the monotonic clock."""


@dataclass(slots=True)
class Answer:
    """Answer of a broker about one batch, or NETWORK_EXCEPTION when it said nothing."""

    error: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    message: str = ""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why some of its records are refused, by their places in the batch; "" where the broker does not say."""
    failure: Exception | None = None
    """A failure in this process (`error` is UNKNOWN_SERVER_ERROR then): the batch fails with it, and is not retried."""
    unsent: bool = False
    """True when the failure happened before anything was sent."""


def refusal(where: TopicPartition, answer: Answer) -> KafkaError:
    """Return the error of a batch for a broker's final answer."""
    said = answer.message or in_words(answer.error)
    reasons = {index: reason or said for index, reason in answer.reasons.items()}
    if not reasons:
        return KafkaError(answer.error, f"{where}: {said}")
    whole = answer.message or next(iter(reasons.values()))
    return BatchRefused(answer.error, f"{where}: {whole}", where, reasons)


@dataclass(slots=True)
class Settled:
    """Consequences of the answers to a call. The application is told of the `decided` batches, in this order."""

    decided: list[ProducerBatch] = field(default_factory=list)
    stale: bool = False
    """True if the metadata is out of date and has to be refreshed."""


class Sender:
    """Decisions of one producer about its batches. `sequences` is None without idempotence."""

    def __init__(
        self,
        settings: SenderSettings,
        accumulator: Accumulator,
        sequences: ProducerSequences | None,
        random_source: random.Random,
    ) -> None:
        self._settings = settings
        self._accumulator = accumulator
        self._sequences = sequences
        self._random = random_source
        self._calls_on_wire: dict[int, int] = {}
        self._on_wire: dict[TopicPartition, list[ProducerBatch]] = {}
        self._records_delivered = self._records_failed = self._records_retried = 0
        self._turn = 0
        """Rotates the partitions, so that a full request does not always leave out the same ones."""

    @property
    def waits_for_answers(self) -> bool:
        """Tell whether a batch is on the wire, even one that was given up."""
        return bool(self._on_wire)

    def metrics(self) -> dict[str, float]:
        """Return the sender's counts, by the names of Kafka's metrics."""
        return {
            "requests-in-flight": sum(self._calls_on_wire.values()),
            "record-send-total": self._records_delivered,
            "record-error-total": self._records_failed,
            "record-retry-total": self._records_retried,
        }

    def requests_in_flight(self, node_id: int) -> int:
        """Count the requests to a broker that are not answered yet."""
        return self._calls_on_wire.get(node_id, 0)

    def plan(self, view: ClusterView, connected: Callable[[int], bool], now_ms: float) -> Plan:
        """Decide what to send; these batches count as on the wire from now on. `connected` tells whether a node has an
        open connection."""
        plan = Plan()
        self._give_up_expired(plan, now_ms)
        if self._sequences is not None:
            self._sequences.settle(self._on_wire)
            plan.identity_wanted = bool(self._accumulator.queues) and not self._sequences.has_identity
        for node_id, due in self._due(view, plan, now_ms).items():
            if connected(node_id):
                self._fill_calls(node_id, due, plan)
            else:
                plan.unconnected.add(node_id)
        return plan

    def _give_up_expired(self, plan: Plan, now_ms: float) -> None:
        """Fail batches older than delivery.timeout.ms, even those on the wire, whose answer would come too late."""
        for queue in list(self._accumulator.queues.values()):
            while queue and self._expired(queue[0], plan, now_ms):
                batch = self._accumulator.take(queue[0].topic_partition)
                self._give_up(batch, self._timed_out(batch), plan.given_up, refused=False)
        for waiting in self._on_wire.values():
            for batch in waiting:
                if not batch.outcome.decided and self._expired(batch, plan, now_ms):
                    self._give_up(batch, self._timed_out(batch), plan.given_up, refused=False)

    def _expired(self, batch: ProducerBatch, plan: Plan, now_ms: float) -> bool:
        deadline_ms = batch.created_ms + self._settings.delivery_timeout_ms
        if now_ms < deadline_ms:
            plan.next_at_ms = min(plan.next_at_ms, deadline_ms)
        return now_ms >= deadline_ms

    def _timed_out(self, batch: ProducerBatch) -> ClientTimeout:
        question = "is the partition's leader up?"
        if self._sequences is not None and not self._sequences.has_identity:
            question = "the cluster gave no producer id: does it have a controller?"
        return ClientTimeout(
            f"{batch.topic_partition}: {len(batch)} record(s) not acknowledged within "
            f"delivery.timeout.ms={self._settings.delivery_timeout_ms:g}, after {batch.attempts} attempt(s): {question}"
        )

    def _due(self, view: ClusterView, plan: Plan, now_ms: float) -> dict[int, list[TopicPartition]]:
        """Find the partitions whose oldest batch may go out now, by leader."""
        due: dict[int, list[TopicPartition]] = {}
        for topic_partition, queue in self._accumulator.queues.items():
            due_ms = self._accumulator.due_at_ms(queue)
            if due_ms > now_ms:
                plan.next_at_ms = min(plan.next_at_ms, due_ms)
                continue
            leader = view.leader_of(topic_partition)
            if leader is None:
                plan.leaderless.add(topic_partition.topic)
            elif self._may_send(topic_partition, queue[0]):
                due.setdefault(leader, []).append(topic_partition)
        return due

    def _may_send(self, topic_partition: TopicPartition, batch: ProducerBatch) -> bool:
        if self._settings.max_in_flight == 1 and topic_partition in self._on_wire:
            return False
        return self._sequences is None or self._sequences.may_send(batch)

    def _fill_calls(self, node_id: int, due: list[TopicPartition], plan: Plan) -> None:
        """Fill as many requests to one broker as may be on the wire, each with at most max.request.size."""
        self._turn += 1
        start = self._turn % len(due)
        waiting = due[start:] + due[:start]
        while waiting and self._calls_on_wire.get(node_id, 0) < self._settings.max_in_flight:
            call = ProduceCall(node_id, [])
            size_bytes = 0
            while waiting:
                head = self._accumulator.queues[waiting[0]][0]
                if call.batches and size_bytes + head.size_bytes > self._settings.max_request_size_bytes:
                    break
                size_bytes += head.size_bytes
                call.batches.append(self._send(waiting.pop(0)))
            self._calls_on_wire[node_id] = self._calls_on_wire.get(node_id, 0) + 1
            plan.calls.append(call)
            if not waiting:
                waiting = [tp for tp in due if tp in self._accumulator.queues and self._has_more(tp)]

    def _has_more(self, topic_partition: TopicPartition) -> bool:
        """Tell whether a partition that has just been sent from has another full batch that may follow at once."""
        queue = self._accumulator.queues[topic_partition]
        full = self._accumulator.is_full(queue)
        return full and not queue[0].closed and self._may_send(topic_partition, queue[0])

    def _send(self, topic_partition: TopicPartition) -> ProducerBatch:
        batch = self._accumulator.take(topic_partition)
        if self._sequences is not None:
            self._sequences.assign(batch)
        batch.closed = True
        batch.attempts += 1
        self._on_wire.setdefault(topic_partition, []).append(batch)
        return batch

    def answered(self, call: ProduceCall, answers: dict[TopicPartition, Answer], now_ms: float) -> Settled:
        """Act on the answers to a call; for a batch without one the answer is taken to be NETWORK_EXCEPTION."""
        self._calls_on_wire[call.node_id] -= 1
        settled = Settled()
        for batch in call.batches:
            self._take_off_wire(batch)
        for batch in call.batches:
            answer = answers.get(batch.topic_partition, Answer(ErrorCode.NETWORK_EXCEPTION, message="no answer"))
            self._settle(batch, answer, settled, now_ms)
        return settled

    def _take_off_wire(self, batch: ProducerBatch) -> None:
        left = [other for other in self._on_wire[batch.topic_partition] if other is not batch]
        if left:
            self._on_wire[batch.topic_partition] = left
        else:
            del self._on_wire[batch.topic_partition]

    def _settle(self, batch: ProducerBatch, answer: Answer, settled: Settled, now_ms: float) -> None:
        error = answer.error
        if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._deliver(batch, answer, settled)
            return
        settled.stale |= error in STALE_VIEW
        if batch.outcome.decided:
            return
        if answer.failure is not None:
            self._give_up(batch, answer.failure, settled.decided, refused=answer.unsent)
        elif error in TOO_LARGE and len(batch) > 1:
            self._split(batch)
        elif self._may_retry(batch, error, now_ms):
            pause_ms = backoff_ms(
                self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms, batch.attempts, self._random
            )
            batch.ready_at_ms = now_ms + pause_ms
            self._records_retried += len(batch)
            self._accumulator.put_back(batch)
        else:
            refused = error not in RETRIABLE
            self._give_up(batch, refusal(batch.topic_partition, answer), settled.decided, refused=refused)

    def _deliver(self, batch: ProducerBatch, answer: Answer, settled: Settled) -> None:
        if self._sequences is not None and batch.base_sequence >= 0:
            self._sequences.acknowledged(batch)
        if batch.outcome.decided:
            return
        self._records_delivered += len(batch)
        batch.outcome.deliver(answer.base_offset, answer.log_append_time_ms, batch.timestamps_ms)
        self._accumulator.release(batch)
        settled.decided.append(batch)

    def _may_retry(self, batch: ProducerBatch, error: ErrorCode, now_ms: float) -> bool:
        if batch.attempts > self._settings.retries or now_ms >= batch.created_ms + self._settings.delivery_timeout_ms:
            return False
        if self._sequences is not None and batch.base_sequence >= 0:
            return self._sequences.may_retry(batch, error)
        return error in RETRIABLE

    def _split(self, batch: ProducerBatch) -> None:
        halves = batch.split()
        if self._sequences is not None and batch.base_sequence >= 0:
            self._sequences.replaced(batch, halves)
        self._accumulator.replace(batch, halves)

    def _give_up(self, batch: ProducerBatch, error: Exception, decided: list[ProducerBatch], *, refused: bool) -> None:
        if self._sequences is not None:
            self._sequences.gave_up(batch, refused=refused)
        self._records_failed += len(batch)
        batch.outcome.fail(error)
        self._accumulator.release(batch)
        decided.append(batch)

    def give_up_all(self, error: Exception) -> list[ProducerBatch]:
        """Fail all batches that are queued or on the wire: the producer is closed, or cannot go on."""
        decided = self.give_up_queued(error)
        for waiting in self._on_wire.values():
            for batch in waiting:
                if not batch.outcome.decided:
                    self._give_up(batch, error, decided, refused=False)
        return decided

    def give_up_queued(self, error: Exception) -> list[ProducerBatch]:
        """Fail the batches that are not on the wire, and return them."""
        decided: list[ProducerBatch] = []
        for queue in list(self._accumulator.queues.values()):
            while queue:
                batch = self._accumulator.take(queue[0].topic_partition)
                self._give_up(batch, error, decided, refused=False)
        return decided
