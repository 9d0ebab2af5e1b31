"""The sender: what goes out when, and what an answer means. The broker is a model with Kafka's sequence rules."""

import random
from dataclasses import dataclass, field

import pytest

from odradek.client.errors import ClientTimeout
from odradek.client.metadata import ClusterView, Node, PartitionInfo, TopicInfo
from odradek.client.producer.accumulator import Accumulator, AccumulatorLimits
from odradek.client.producer.batch import ProducerBatch, following_sequence
from odradek.client.producer.sender import Answer, Plan, ProduceCall, Sender, SenderSettings
from odradek.client.producer.sequences import HIGHEST_EPOCH, ProducerSequences
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError

T0 = TopicPartition("t", 0)
PARTITIONS = 3


def view(leader: int = 1) -> ClusterView:
    partitions = tuple(
        PartitionInfo("t", number, leader, 0, (leader,), (leader,), (), ErrorCode.NONE) for number in range(PARTITIONS)
    )
    topics = {"t": TopicInfo("t", bytes(16), False, partitions)}
    return ClusterView("c", 1, {1: Node(1, "h", 1)}, topics)


class Bench:
    """A sender with time in the test's hand."""

    def __init__(
        self,
        *,
        idempotent: bool = True,
        in_flight: int = 5,
        timeout: float = 10_000,
        batch: int = 0,
        retries: int = 1000,
    ) -> None:
        self.now_ms = 0.0
        self.accumulator = Accumulator(AccumulatorLimits(batch, 0, 1_000_000, 10_000))
        self.sequences = ProducerSequences() if idempotent else None
        if self.sequences is not None:
            self.sequences.identify(7, 0)
        settings = SenderSettings(in_flight, 10_000, retries, 100, 1000, timeout)
        self.sender = Sender(settings, self.accumulator, self.sequences, random.Random(0))
        self.view = view()

    def add(self, value: bytes = b"v", tp: TopicPartition = T0) -> ProducerBatch:
        batch = self.accumulator.append(tp, 0, None, value, (), lambda: self.now_ms)
        assert batch is not None
        return batch

    def begin(self) -> None:
        """Have something acknowledged in each partition, under the present identity."""
        for number in range(PARTITIONS):
            self.add(b"begin", TopicPartition("t", number))
        for call in self.plan().calls:
            self.answer(call)

    def plan(self) -> Plan:
        return self.sender.plan(self.view, lambda node_id: True, self.now_ms)

    def answer(self, call: ProduceCall, error: ErrorCode = ErrorCode.NONE, offset: int = 0) -> list[ProducerBatch]:
        answers = {batch.topic_partition: Answer(error, offset) for batch in call.batches}
        return self.sender.answered(call, answers, self.now_ms).decided


def test_one_batch_of_each_partition_goes_into_a_request_and_so_many_requests_as_may_be_in_flight() -> None:
    bench = Bench(in_flight=2)
    bench.begin()
    for partition in (0, 0, 0, 1):
        bench.add(tp=TopicPartition("t", partition))
    calls = bench.plan().calls
    assert [sorted(b.topic_partition.partition for b in call.batches) for call in calls] == [[0, 1], [0]]
    assert bench.plan().calls == []
    bench.answer(calls[0])
    assert [len(call.batches) for call in bench.plan().calls] == [1]


def test_without_idempotence_and_one_in_flight_a_partition_waits_for_its_batch() -> None:
    bench = Bench(idempotent=False, in_flight=1)
    bench.add(b"1")
    bench.add(b"2")
    (call,) = bench.plan().calls
    assert bench.plan().calls == []
    bench.answer(call, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.now_ms = 500
    (again,) = bench.plan().calls
    assert again.batches[0].values == [b"1"]


def test_unknown_leaders_and_unconnected_nodes_are_reported_and_nothing_is_lost() -> None:
    bench = Bench()
    bench.add()
    assert bench.sender.plan(bench.view, lambda node_id: False, 0).unconnected == {1}
    bench.view = view(leader=-1)
    assert bench.plan().leaderless == {"t"}
    bench.view = view()
    assert len(bench.plan().calls) == 1


def test_without_an_identity_nothing_goes_out() -> None:
    bench = Bench()
    bench.sequences = None
    fresh = ProducerSequences()
    sender = Sender(SenderSettings(5, 10_000, 10, 100, 1000, 10_000), bench.accumulator, fresh, random.Random(0))
    bench.add()
    plan = sender.plan(bench.view, lambda node_id: True, 0)
    assert plan.identity_wanted and not plan.calls
    fresh.identify(9, 3)
    (call,) = sender.plan(bench.view, lambda node_id: True, 0).calls
    assert (call.batches[0].producer_id, call.batches[0].producer_epoch, call.batches[0].base_sequence) == (9, 3, 0)


RETRIED = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NETWORK_EXCEPTION]


@pytest.mark.parametrize("error", RETRIED)
def test_a_retry_keeps_its_sequence_and_backs_off(error: ErrorCode) -> None:
    bench = Bench()
    batch = bench.add()
    (call,) = bench.plan().calls
    assert bench.answer(call, error) == []
    assert bench.plan().calls == []
    assert 80 <= batch.ready_at_ms <= 120
    bench.now_ms = 120
    (again,) = bench.plan().calls
    assert again.batches == [batch] and (batch.base_sequence, batch.attempts) == (0, 2)
    assert bench.answer(again, offset=5) == [batch]
    assert batch.outcome.metadata(0).offset == 5


def test_a_duplicate_counts_as_delivered() -> None:
    bench = Bench()
    batch = bench.add()
    (call,) = bench.plan().calls
    assert bench.answer(call, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, offset=-1) == [batch]
    assert batch.outcome.error is None and batch.outcome.metadata(0).offset == -1


def test_a_final_refusal_names_the_partition_and_the_next_records_start_a_new_epoch() -> None:
    bench = Bench()
    batch = bench.add()
    (call,) = bench.plan().calls
    assert bench.answer(call, ErrorCode.INVALID_RECORD) == [batch]
    assert isinstance(batch.outcome.error, KafkaError) and "t-0" in str(batch.outcome.error)
    following = bench.add()
    bench.plan()
    assert (following.producer_epoch, following.base_sequence) == (1, 0)


def test_out_of_order_waits_for_the_batch_before_and_restarts_when_there_is_none() -> None:
    bench = Bench()
    bench.begin()
    first, second = bench.add(b"1"), bench.add(b"2")
    one, two = bench.plan().calls
    bench.answer(one, ErrorCode.NETWORK_EXCEPTION)
    bench.answer(two, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.now_ms = 500
    (again,) = bench.plan().calls
    assert again.batches == [first] and first.producer_epoch == 0
    bench.answer(again, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.now_ms = 1_500
    bench.plan()
    assert [(b.producer_epoch, b.base_sequence) for b in (first, second)] == [(1, 0), (1, 1)]


def test_nothing_is_numbered_anew_while_a_batch_is_on_the_wire() -> None:
    """The broker may take it, and would then be sent it once more under another epoch."""
    bench = Bench()
    bench.begin()
    first, second = bench.add(b"1"), bench.add(b"2")
    one, two = bench.plan().calls
    bench.answer(one, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.now_ms = 500
    assert bench.plan().calls == []
    assert [(b.producer_epoch, b.base_sequence) for b in (first, second)] == [(0, 1), (0, 2)]
    bench.answer(two, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.now_ms = 1_500
    bench.plan()
    assert [(b.producer_epoch, b.base_sequence) for b in (first, second)] == [(1, 0), (1, 1)]


def test_a_batch_too_old_fails_with_what_to_look_at_and_its_late_answer_still_counts() -> None:
    bench = Bench(timeout=1_000)
    batch = bench.add()
    (call,) = bench.plan().calls
    bench.now_ms = 1_000
    assert bench.plan().given_up == [batch]
    assert isinstance(batch.outcome.error, ClientTimeout)
    assert "t-0: 1 record(s) not acknowledged within delivery.timeout.ms=1000" in str(batch.outcome.error)
    following = bench.add()
    assert bench.plan().calls == [], "nothing new while nobody knows whether the broker has the one before"
    assert bench.answer(call) == []
    bench.plan()
    assert (following.producer_epoch, following.base_sequence) == (0, 1), "it had it: the sequence goes on"


def test_an_epoch_at_its_end_asks_for_a_new_identity() -> None:
    bench = Bench()
    assert bench.sequences is not None
    bench.sequences.identify(7, HIGHEST_EPOCH)
    bench.add()
    (call,) = bench.plan().calls
    bench.answer(call, ErrorCode.INVALID_RECORD)
    following = bench.add()
    assert bench.plan().identity_wanted
    bench.sequences.identify(8, 0)
    bench.plan()
    assert (following.producer_id, following.producer_epoch, following.base_sequence) == (8, 0, 0)


def test_sequences_wrap_to_zero() -> None:
    assert following_sequence(2_147_483_647, 1) == 0
    assert following_sequence(2_147_483_646, 5) == 3


@pytest.mark.parametrize("idempotent", [True, False])
def test_being_split_uses_up_no_retries(idempotent: bool) -> None:
    """Parts counted the attempts of the whole: the first error that would have passed failed their records."""
    bench = Bench(idempotent=idempotent, batch=1_000, retries=1)
    for number in range(8):
        bench.add(b"%d" % number)
    for _ in range(2):
        (call,) = bench.plan().calls[:1]
        assert bench.answer(call, ErrorCode.MESSAGE_TOO_LARGE) == []
    (call,) = bench.plan().calls[:1]
    assert call.batches[0].values == [b"0", b"1"]
    assert bench.answer(call, ErrorCode.NOT_LEADER_OR_FOLLOWER) == []
    bench.now_ms = 1_000
    (call,) = bench.plan().calls[:1]
    assert call.batches[0].values == [b"0", b"1"]
    assert bench.answer(call, ErrorCode.NOT_LEADER_OR_FOLLOWER) == call.batches, "one retry was asked for"


@pytest.mark.parametrize("error", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE])
def test_a_single_record_that_is_too_large_fails_and_the_next_one_is_sent(error: ErrorCode) -> None:
    bench = Bench()
    bench.add(b"large")
    (call,) = bench.plan().calls
    assert bench.answer(call, error) == call.batches
    failure = call.batches[0].outcome.error
    assert isinstance(failure, KafkaError) and failure.code is error
    bench.add(b"small")
    (call,) = bench.plan().calls
    assert call.batches[0].values == [b"small"]


def test_a_batch_too_large_is_split_and_both_halves_arrive_in_order() -> None:
    bench = Bench(batch=10_000)
    for number in range(4):
        bench.add(str(number).encode())
    (call,) = bench.plan().calls
    bench.answer(call, ErrorCode.MESSAGE_TOO_LARGE)
    bench.now_ms = 1
    sent: list[tuple[int, list[bytes | None]]] = []
    for _ in range(2):
        (half,) = bench.plan().calls
        sent += [(batch.base_sequence, batch.values) for batch in half.batches]
        bench.answer(half)
    assert sent == [(0, [b"0", b"1"]), (2, [b"2", b"3"])]


@dataclass
class ModelPartition:
    """What a broker keeps of a producer in a partition: epoch, the last five batches, and the log.

    Without any of it, it takes whatever sequence comes (Kafka's ProducerAppendInfo.checkSequence).
    """

    epoch: int = -1
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """(first sequence, last sequence, base offset)"""
    log: list[bytes | None] = field(default_factory=list)

    def append(self, batch: ProducerBatch) -> Answer:
        if batch.producer_epoch < self.epoch:
            return Answer(ErrorCode.INVALID_PRODUCER_EPOCH)
        if batch.producer_epoch > self.epoch:
            if batch.base_sequence != 0 and self.epoch >= 0:
                return Answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            self.epoch, self.batches = batch.producer_epoch, []
        for first, last, offset in self.batches:
            if (first, last) == (batch.base_sequence, batch.last_sequence):
                return Answer(ErrorCode.NONE, offset)
        expected = following_sequence(self.batches[-1][1], 1) if self.batches else batch.base_sequence
        if batch.base_sequence != expected:
            return Answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        offset = len(self.log)
        self.log += batch.values
        self.batches = [*self.batches[-4:], (batch.base_sequence, batch.last_sequence, offset)]
        return Answer(ErrorCode.NONE, offset)


@pytest.mark.parametrize("seed", range(40))
def test_no_loss_no_duplicate_no_reordering_under_any_order_of_errors(seed: int) -> None:
    """Requests and answers get lost, leaders refuse, in any order; a broker that has a batch refuses it no more.

    Every record that was acknowledged is in the log once, at its offset; those of a partition in the order of sending.
    A record that was given up may be there or not.
    """
    chance = random.Random(seed)
    bench = Bench(batch=120, timeout=3_000 if seed % 2 else 1e9)
    logs = {TopicPartition("t", number): ModelPartition() for number in range(PARTITIONS)}
    wire: list[ProduceCall] = []
    sent: dict[TopicPartition, list[bytes]] = {tp: [] for tp in logs}
    futures: list[tuple[ProducerBatch, int, bytes]] = []
    for step in range(2_000):
        calm = step > 1_200
        bench.now_ms += chance.choice([0, 1, 30, 200])
        if step < 800 and chance.random() < 0.6:
            tp = TopicPartition("t", chance.randrange(PARTITIONS))
            value = f"{tp.partition}/{step}".encode()
            batch = bench.add(value, tp)
            sent[tp].append(value)
            futures.append((batch, len(batch) - 1, value))
        wire += bench.plan().calls
        if wire and chance.random() < 0.7:
            call = wire.pop(0)
            bench.sender.answered(call, answers(call, logs, chance, calm=calm), bench.now_ms)
        assert bench.accumulator.used_bytes >= 0
    assert not wire and not bench.accumulator.unfinished, "something was never decided"
    check(futures, sent, logs)


@pytest.mark.parametrize("lost", [False, True])
def test_the_first_batches_keep_their_order_when_the_first_is_refused(lost: bool) -> None:
    """A broker without state takes the second batch's sequence too. The first was written anew, behind it; when the
    second's answer was lost, that was written twice."""
    bench, log = Bench(), ModelPartition()
    first, second = bench.add(b"A"), bench.add(b"B")
    calls = bench.plan().calls
    refused = {first.topic_partition: Answer(ErrorCode.NOT_ENOUGH_REPLICAS)}
    bench.sender.answered(calls[0], refused, bench.now_ms)
    for call in calls[1:]:
        answer = {T0: log.append(call.batches[0])}
        bench.sender.answered(call, {} if lost else answer, bench.now_ms)
    while not (first.outcome.decided and second.outcome.decided):
        bench.now_ms += 500
        for call in bench.plan().calls:
            bench.sender.answered(call, {T0: log.append(call.batches[0])}, bench.now_ms)
    assert log.log == [b"A", b"B"]


def test_a_batch_that_was_overtaken_fails_rather_than_to_be_written_behind_a_later_one() -> None:
    """The broker had forgotten the producer, and so took the second batch while the first was refused."""
    bench, log = Bench(timeout=3_000), ModelPartition()
    bench.begin()
    first, second = bench.add(b"A"), bench.add(b"B")
    one, two = bench.plan().calls
    bench.answer(one, ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.sender.answered(two, {T0: log.append(second)}, bench.now_ms)
    while not first.outcome.decided:
        bench.now_ms += 500
        for call in bench.plan().calls:
            bench.sender.answered(call, {T0: log.append(call.batches[0])}, bench.now_ms)
    assert log.log == [b"B"] and isinstance(first.outcome.error, (ClientTimeout, KafkaError))
    bench.add(b"C")
    for _ in range(5):
        bench.now_ms += 500
        for call in bench.plan().calls:
            bench.sender.answered(call, {T0: log.append(call.batches[0])}, bench.now_ms)
    assert log.log == [b"B", b"C"], "it goes on under a new epoch"


@pytest.mark.parametrize("last", [False, True])
def test_what_may_be_written_already_keeps_its_sequence_when_a_batch_behind_it_is_refused_for_good(last: bool) -> None:
    """The broker had the first batch, and could not say so in time; numbered anew, it was written once more."""
    bench, log = Bench(), ModelPartition()
    bench.begin()
    first, bad = bench.add(b"A"), bench.add(b"bad")
    following = [] if last else [bench.add(b"B")]
    one, two, *more = bench.plan().calls
    log.append(first)
    bench.answer(one, ErrorCode.REQUEST_TIMED_OUT)
    assert bench.answer(two, ErrorCode.INVALID_RECORD) == [bad]
    for call in more:
        bench.sender.answered(call, {T0: log.append(call.batches[0])}, bench.now_ms)
    following.append(bench.add(b"C"))
    while not all(batch.outcome.decided for batch in (first, *following)):
        bench.now_ms += 1_500
        for call in bench.plan().calls:
            bench.sender.answered(call, {T0: log.append(call.batches[0])}, bench.now_ms)
    assert log.log == [b"A", *([] if last else [b"B"]), b"C"]
    assert first.outcome.error is None and following[-1].producer_epoch == 1


def test_what_follows_a_batch_of_unknown_fate_keeps_its_sequence_when_that_has_no_attempt_left() -> None:
    """The broker has both, and could not say so in time: numbered anew, the second one would be written once more."""
    bench, log = Bench(retries=1), ModelPartition()
    bench.begin()
    first = bench.add(b"A")
    (call,) = bench.plan().calls
    log.append(first)
    bench.answer(call, ErrorCode.REQUEST_TIMED_OUT)
    bench.now_ms = 500
    second = bench.add(b"B")
    again, behind = bench.plan().calls
    log.append(second)
    bench.answer(behind, ErrorCode.REQUEST_TIMED_OUT)
    assert bench.answer(again, ErrorCode.REQUEST_TIMED_OUT) == [first]
    bench.now_ms = 2_000
    (last,) = bench.plan().calls
    bench.sender.answered(last, {T0: log.append(last.batches[0])}, bench.now_ms)
    assert (log.log, second.outcome.error) == ([b"A", b"B"], None)


def answers(
    call: ProduceCall, logs: dict[TopicPartition, ModelPartition], chance: random.Random, *, calm: bool
) -> dict[TopicPartition, Answer]:
    found: dict[TopicPartition, Answer] = {}
    trouble = 1.0 if calm else chance.random()
    if trouble < 0.15:
        return {}  # the request was lost
    for batch in call.batches:
        if not calm and chance.random() < 0.2:
            found[batch.topic_partition] = Answer(chance.choice(RETRIED))
        else:
            found[batch.topic_partition] = logs[batch.topic_partition].append(batch)
    return {} if trouble < 0.3 else found  # the answer was lost


def check(
    futures: list[tuple[ProducerBatch, int, bytes]],
    sent: dict[TopicPartition, list[bytes]],
    logs: dict[TopicPartition, ModelPartition],
) -> None:
    for tp, partition in logs.items():
        assert len(set(partition.log)) == len(partition.log), f"{tp}: duplicates"
        places = [sent[tp].index(value) for value in partition.log if value is not None]
        assert places == sorted(places), f"{tp}: reordered"
    for batch, index, value in futures:
        assert batch.outcome.decided
        if batch.outcome.error is None:
            offset = batch.outcome.metadata(index).offset
            assert logs[batch.topic_partition].log[offset] == value
